// Products with packed weights on the device mlx: by MLX's own, with the numbers of Python's mlx
// (tests/golden/generate/mlx_packed.py), and of every form that is laid out anew for them.
#include <doctest/doctest.h>

#include "mlx/modes.h"
#include "reference/interpreter.h"
#include "rlx/element.h"
#include "rlx/io.h"
#include "rlx/ops.h"
#include "rlx/session.h"
#include "support/compare.h"

using namespace rlx;

namespace {

using Params = std::map<std::string, Tensor, std::less<>>;

/// The product of "x" with params "w", "scale", ... as `params` has them.
Graph product(const Type& x, const Params& params, int64_t block, bool transposed) {
  Graph g("product");
  Value in = g.input("x", x.dtype, x.dims);
  const auto part = [&](const char* name) {
    const auto found = params.find(name);
    return found == params.end() ? Value{} : g.param(name, found->second.dtype(), found->second.type().dims);
  };
  const Value w = part("w");
  if (!params.contains("scale")) {
    g.output(dequant_matmul(in, w));
    return g;
  }
  g.output(dequant_matmul(in, w, {part("scale"), part("zero_point"), part("bias"), part("global")}, block, transposed));
  return g;
}
CompiledGraph compiled_on(const Device& device, const Graph& g, const Params& params) {
  CompiledGraph compiled = Session(device).compile(g);
  for (const auto& [name, value] : params) compiled.set_param(name, value);
  return compiled;
}
bool is_taken_whole(const CompiledGraph& compiled) {
  const auto& nodes = compiled.lowered().nodes();
  return std::any_of(nodes.begin(), nodes.end(), [](const Node& n) { return n.op == &op::dequant_matmul; }) &&
         compiled.report().count(Verdict::interpreted) == 0;
}

}  // namespace

TEST_CASE("affine, mxfp4, mxfp8 and nvfp4 weights as mx.quantize packs them give what mx.quantized_matmul gives") {
  const SafetensorsFile file = SafetensorsFile::open("tests/golden/mlx/packed.safetensors");
  struct Case {
    std::string name;
    DType codes, scales;
    int64_t group;
  };
  const Case cases[] = {
      {"affine_2_32", u2, f32, 32},       {"affine_3_64", u3, f32, 64},     {"affine_4_32", u4, f32, 32},
      {"affine_4_64", u4, f32, 64},       {"affine_4_128", u4, f32, 128},   {"affine_6_64", u6, f32, 64},
      {"affine_8_32", u8, f32, 32},       {"affine_8_128", u8, f32, 128},   {"mxfp4", f4e2m1fn, f8e8m0fnu, 32},
      {"mxfp8", f8e4m3fn, f8e8m0fnu, 32}, {"nvfp4", f4e2m1fn, f8e4m3fn, 16}};
  for (const Case& c : cases) {
    CAPTURE(c.name);
    const auto named = [&](const char* part) { return file.tensor(c.name + "/" + part); };
    const Tensor x = named("x"), wanted = named("y"), scales = named("scales");
    const int64_t n = wanted.shape()[1], k = x.shape()[1];
    Params params = {{"w", test::with_bytes_of(named("words"), c.codes, {n, k})},
                     {"scale", test::with_bytes_of(scales, c.scales, scales.shape())}};
    if (c.scales == f32) params["bias"] = named("biases");
    const Graph g = product(x.type(), params, c.group, true);
    CHECK(difference(compiled_on(Device::cpu(), g, params).run({{"x", x}})[0], wanted, 2e-5) == "");
    if (!test::mlx_is_here()) continue;
    for (const char* mode : {"lazy", "eager", "compiled"}) {
      CAPTURE(std::string(mode));
      const CompiledGraph compiled = compiled_on(Device("mlx", 0, {mode}), g, params);
      CHECK(is_taken_whole(compiled));
      // The same product of the same library: nothing but the order of its sums may differ.
      CHECK(difference(compiled.run({{"x", x}})[0], wanted, 1e-6) == "");
      CHECK(compiled.memory_bytes() < static_cast<size_t>(n * k * 4));
    }
  }
}

TEST_CASE("packed weights that lie otherwise, and GGUF's blocks, are laid out anew for MLX") {
  if (!test::mlx_is_here()) return;
  constexpr int64_t n = 10, k = 256;
  const auto codes = [](DType dtype, const Shape& shape) {
    Tensor t(dtype, shape);
    uint32_t next = 1;
    for (std::byte& b : std::span(t.mutable_data(), t.byte_count()))
      b = static_cast<std::byte>((next = next * 1664525U + 1013904223U) >> 24);
    return t;
  };
  const auto check = [&](const std::string& name, const Params& params, int64_t block, bool transposed, DType dtype) {
    CAPTURE(name);
    const Tensor x = random_tensor(dtype, {2, 3, k}, 7);
    const Graph g = product(x.type(), params, block, transposed);
    const CompiledGraph compiled = compiled_on(Device::mlx(), g, params);
    CHECK(is_taken_whole(compiled));
    const Tensor wanted = interpret(g, std::span(&x, 1), {params.begin(), params.end()})[0];
    const Tensor got = compiled.run({{"x", x}})[0];
    CHECK(difference(got, wanted, dtype == f32 ? 2e-5 : dtype == f16 ? 4e-3 : 3e-2) == "");
  };
  const Tensor scale = random_tensor(f32, {k / 64, n}, 2, 0.01, 0.1), zero = codes(u8, {k / 64, n});
  check("i8", {{"w", codes(i8, {k, n})}, {"scale", scale}}, 64, false, f32);
  check("i4", {{"w", codes(i4, {k, n})}, {"scale", scale}}, 64, false, f16);
  check("u4, zero points", {{"w", codes(u4, {k, n})}, {"scale", scale}, {"zero_point", zero}}, 64, false, f32);
  check(
      "u8, zero points and biases",
      {{"w", codes(u8, {k, n})}, {"scale", scale}, {"zero_point", zero}, {"bias", random_tensor(f32, {k / 64, n}, 3)}},
      64, false, bf16);
  check("one scale for a row", {{"w", codes(i8, {n, k})}, {"scale", random_tensor(f16, {n, 1}, 4, 0.01, 0.1)}}, 0, true,
        f32);
  check("nvfp4 with a global",
        {{"w", codes(f4e2m1fn, {k, n})},
         {"scale", random_tensor(f8e4m3fn, {k / 16, n}, 5, 0.1, 1)},
         {"global", Tensor::scalar(0.37f)}},
        16, false, f32);
  const Tensor dense = random_tensor(f32, {n, k}, 6);
  for (DType blocks : {q4_0, q4_1, q5_0, q5_1, q8_0, q4_k, q5_k, mxfp4})
    check(text_of(blocks), {{"w", quantized(dense, blocks)}}, 0, false, f32);
}

TEST_CASE("weights of blocks that are bound anew are packed anew, and several shapes of x share them") {
  if (!test::mlx_is_here()) return;
  Graph g("linear");
  const Dim rows = Dim::symbol("N");
  g.output(dequant_matmul(g.input("x", f32, {rows, 64}), g.param("w", q8_0, {5, 64})));
  CompiledGraph compiled = Session(Device::mlx()).compile(g);
  for (uint32_t seed : {1U, 2U}) {
    const Tensor w = quantized(random_tensor(f32, {5, 64}, seed), q8_0);
    compiled.set_param("w", w);
    size_t held = 0;
    for (int64_t n : {1, 3, 2}) {
      const Tensor x = random_tensor(f32, {n, 64}, 9);
      const Tensor wanted = interpret(g, std::span(&x, 1), {{"w", w}})[0];
      CHECK(difference(compiled.run({{"x", x}})[0], wanted, 1e-5) == "");
      if (held == 0) held = compiled.memory_bytes();
      CHECK(compiled.memory_bytes() == held);
    }
  }
}

// Cases of `rlx bench` whose numbers are codes: weights of 8 and 4 bits beside x in floats, products of codes, and a
// net of codes beside the one of floats that it was made from.
#include "rlx/element.h"
#include "rlx/models.h"
#include "rlx/ops.h"
#include "rlx/quantization.h"
#include "tools/bench/cases.h"
#include "tools/numpy_random.h"

namespace rlx::tools {
namespace {

Tensor floats(NumpyRandom& random, const Shape& shape, double low, double high) {
  Tensor t = Tensor::uninitialized(f32, shape);
  random.uniform(low, high, t.mutable_values<float>());
  return t;
}
/// Codes of any bits.
Tensor codes(NumpyRandom& random, DType dtype, const Shape& shape) {
  Tensor t = Tensor::uninitialized(dtype, shape);
  const Tensor drawn = floats(random, {static_cast<int64_t>(t.byte_count())}, 0, 256);
  std::byte* to = t.mutable_data();
  for (size_t i = 0; i < t.byte_count(); ++i)
    to[i] = static_cast<std::byte>(static_cast<int>(drawn.values<float>()[i]));
  return t;
}

/// x[m, k] in floats times codes[k, n] with a scale for 64 of them along k, as language models have them.
BenchCase weights_of_codes(DType dtype, const Shape& d) {
  constexpr int64_t kBlock = 64;
  const Shape scales = {(d[1] + kBlock - 1) / kBlock, d[2]};
  BenchCase c;
  c.prepare = [=](BenchCase& self) {
    NumpyRandom random(0);
    self.inputs = {floats(random, {d[0], d[1]}, -1, 1)};
    self.params.emplace("w", codes(random, dtype, {d[1], d[2]}));
    self.params.emplace("scale", floats(random, scales, 0.001, 0.01));
  };
  c.graph = [=] {
    Graph g("bench");
    Value x = g.input("x", f32, {d[0], d[1]}), w = g.param("w", dtype, {d[1], d[2]});
    CodeScales by;
    by.scale = g.param("scale", f32, {scales[0], scales[1]});
    g.output(dequant_matmul(x, w, by, kBlock));
    return g;
  };
  return c;
}

}  // namespace

BenchCase weights_of_blocks(DType format, const Shape& d) {
  const DTypeInfo& f = info(format);
  if (d[1] % f.block_elements != 0)
    throw UsageError(
        text_of("rows of ", d[1], " elements are not made of ", f.name, "'s blocks of ", f.block_elements));
  BenchCase c;
  c.prepare = [=](BenchCase& self) {
    NumpyRandom random(0);
    self.inputs = {floats(random, {d[0], d[1]}, -1, 1)};
    // An encoder that searches takes a second for a million elements: some blocks are made, and repeated.
    const Tensor numbers = floats(random, {64, std::max<int64_t>(f.block_elements, 64)}, -0.05, 0.05);
    Tensor some = is_block(format) ? quantized(numbers, format) : Tensor(format, numbers.shape());
    if (!is_block(format))
      for (size_t i = 0; i < numbers.element_count(); ++i)
        store<double>(some, i, static_cast<double>(numbers.values<float>()[i]));
    Tensor w = Tensor::uninitialized(format, {d[2], d[1]});
    for (size_t at = 0; at < w.byte_count(); at += some.byte_count())
      std::memcpy(w.mutable_data() + at, some.data(), std::min(some.byte_count(), w.byte_count() - at));
    self.params.emplace("w", std::move(w));
  };
  c.graph = [=] {
    Graph g("bench");
    Value x = g.input("x", f32, {d[0], d[1]}), w = g.param("w", format, {d[2], d[1]});
    g.output(dequant_matmul(x, w));
    return g;
  };
  return c;
}

namespace {

BenchCase product_of_codes(const Shape& d) {
  BenchCase c;
  c.prepare = [=](BenchCase& self) {
    NumpyRandom random(0);
    self.inputs = {codes(random, i8, {d[0], d[1]})};
    self.params.emplace("w", codes(random, i8, {d[1], d[2]}));
    self.params.emplace("bias", Tensor(i32, {d[2]}));
  };
  c.graph = [=] {
    Graph g("bench");
    Value x = g.input("x", i8, {d[0], d[1]}), w = g.param("w", i8, {d[1], d[2]}), bias = g.param("bias", i32, {d[2]});
    g.output(qmatmul(x, w, bias, {.multiplier = 1e-4}));
    return g;
  };
  return c;
}

/// The net of examples/mnist_cnn.toml.
Graph digits_net(const Dim& rows) {
  Graph g("digits");
  ModelBuilder b(g, f32);
  Value x = g.input("x", f32, {rows, 1, 28, 28});
  int64_t channels = 1, size = 28;
  for (const int64_t out : {16, 32}) {
    x = b.within(text_of("conv.", out), [&] {
      Value y = conv(x, b.param("weight", {out, channels, 3, 3}), {.padding = {1, 1}});
      y = relu(y + broadcast_in_dim(b.param("bias", {out}), y.dims(), {1}));
      return pool(y, {.kernel_size = {2, 2}});
    });
    channels = out, size /= 2;
  }
  x = relu(b.linear(reshape(x, {rows, channels * size * size}), "hidden", 128));
  g.output(b.linear(x, "out", 10), "y");
  return g;
}
BenchCase digits(int64_t images, bool of_codes) {
  BenchCase c;
  auto exported = std::make_shared<Graph>();
  c.prepare = [=](BenchCase& self) {
    NumpyRandom random(0);
    const Graph g = digits_net(images);
    self.inputs = {floats(random, {images, 1, 28, 28}, 0, 1)};
    for (const auto& param : signature_of(g).params)
      self.params.emplace(param.name, floats(random, shape_of(param.type.dims), -0.1, 0.1));
    if (!of_codes) return;
    const std::vector<std::vector<NamedTensor>> batches = {{{"x", self.inputs[0]}}};
    const Quantization q = add_quantization(g, {});
    NamedTensors all = self.params;
    all.merge(q.initial(all, calibrate(g, self.params, batches, {}, {})));
    *exported = export_int8(q.graph, all).graph;
    self.params.clear();
  };
  c.graph = [=] { return of_codes ? *exported : digits_net(images); };
  return c;
}

}  // namespace

BenchCase codes_case(std::string_view family, const Shape& shape) {
  if (family == "linear_i8") return weights_of_codes(i8, shape);
  if (family == "linear_i4") return weights_of_codes(i4, shape);
  if (family == "qmatmul") return product_of_codes(shape);
  return digits(shape[0], family == "digits_i8");
}

}  // namespace rlx::tools

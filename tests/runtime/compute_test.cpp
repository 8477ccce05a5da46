// CompileOptions::compute, from the outside: what is computed in less than f32, how far it is from it, what says so.
// The pass: src/passes/mixed_precision.h. Kernels of bf16 and f16 are judged with their ops (tests/laws).
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "compile/pipeline.h"
#include "kernels/gemm/fma/dot_tiles.h"
#include "kernels/quant/vnni.h"
#include "passes/mixed_precision.h"
#include "passes/quantize_products.h"
#include "reference/interpreter.h"
#include "rlx/artifact.h"
#include "rlx/rlx.h"
#include "runtime/small_model.h"
#include "support/io_files.h"

namespace rlx {
namespace {

CompileOptions computed(Compute compute) {
  CompileOptions options = CompileOptions::from_environment();
  options.compute = compute;
  return options;
}
std::string target_of(const Graph& g, const CompileOptions& options) {
  return dispatch_report(g, Device::cpu(), options).target;
}

/// Two layers with a norm and a residual sum between them: [rows, 32] to [rows, 32].
Graph block() {
  Graph g("block");
  const Value x = g.input("x", f32, {6, 32});
  const Value h = gelu(linear(x, g.param("w1", f32, {64, 32}), g.param("b1", f32, {64})));
  const Value y = linear(h, g.param("w2", f32, {32, 64})) + x;
  g.output(layer_norm(y, g.param("gamma", f32, {32}), g.param("beta", f32, {32})), "y");
  return g;
}
Tensor noise(Shape shape, unsigned seed, float size) {
  Tensor t(f32, std::move(shape));
  unsigned state = seed * 2654435761u + 1;
  for (float& v : t.mutable_values<float>()) {
    state = state * 1664525u + 1013904223u;
    v = size * (static_cast<float>(state >> 8) / 8388608.0f - 1);
  }
  return t;
}
std::vector<float> run_block(const CompileOptions& options) {
  CompiledGraph compiled = Session(Device::cpu(), {1}).compile(block(), options);
  compiled.set_param("w1", noise({64, 32}, 1, 0.3f)), compiled.set_param("b1", noise({64}, 2, 0.1f));
  compiled.set_param("w2", noise({32, 64}, 3, 0.2f));
  compiled.set_param("gamma", noise({32}, 4, 1)), compiled.set_param("beta", noise({32}, 5, 1));
  const Tensor y = compiled.run({{"x", noise({6, 32}, 6, 1)}})[0];
  REQUIRE(y.type() == Type{f32, {6, 32}});
  return {y.values<float>().begin(), y.values<float>().end()};
}
double largest_difference(const std::vector<float>& a, const std::vector<float>& b) {
  double largest = 0;
  for (size_t i = 0; i < a.size(); ++i) largest = std::max(largest, std::fabs(static_cast<double>(a[i]) - b[i]));
  return largest;
}
const Node& node_of(const Graph& g, const OpDef& op) {
  for (const Node& node : g.nodes())
    if (node.op == &op) return node;
  FAIL("the graph has no ", op.name);
  return g.nodes()[0];
}

}  // namespace

TEST_CASE("bf16 and f16 differ from f32 by as much as their digits say, and f32 is the default") {
  const std::vector<float> exact = run_block(CompileOptions::from_environment());
  CHECK(run_block(computed(Compute::as_f32)) == exact);
  const double by_bf16 = largest_difference(run_block(computed(Compute::as_bf16)), exact);
  const double by_f16 = largest_difference(run_block(computed(Compute::as_f16)), exact);
  CHECK(by_bf16 > 1e-4);
  CHECK(by_bf16 < 0.03);
  CHECK(by_f16 > 1e-5);
  CHECK(by_f16 < 0.004);
}

TEST_CASE("auto is what the device is fast in, and the report says what it was") {
  const auto fast = target_json(Device::cpu()).find("\"fast_float\": \"bf16\"") != std::string::npos;
  const std::string target = target_of(block(), computed(Compute::automatic));
  CHECK((target.find(", f32 computed in bf16") != std::string::npos) == fast);
  CHECK(target_of(block(), computed(Compute::as_f16)).find(", f32 computed in f16") != std::string::npos);
  CHECK(target_of(block(), computed(Compute::as_i8)).find(", f32 computed in int8") != std::string::npos);
  CHECK(target_of(block(), computed(Compute::as_f32)).find("computed in") == std::string::npos);
  CHECK(run_block(computed(Compute::automatic)) == run_block(computed(fast ? Compute::as_bf16 : Compute::as_f32)));
}

TEST_CASE("what is computed in f64 is not computed in less than f32") {
  for (const Compute compute : {Compute::as_f16, Compute::as_bf16, Compute::as_i8}) {
    CompileOptions options = computed(compute);
    options.accuracy = Accuracy::exact;
    CHECK_THROWS_WITH_AS(Session(Device::cpu(), {1}).compile(block(), options),
                         doctest::Contains("give one of the two"), Error);
  }
  CompileOptions options = computed(Compute::automatic);  // exact is fastest in f64, as there is nothing else
  options.accuracy = Accuracy::exact;
  CHECK(target_of(block(), options).find("computed in") == std::string::npos);
}

TEST_CASE("what stands between products is narrow, sums and exponentials are not") {
  const Graph g = in_mixed_precision(block(), bf16, MixedFor::inference);
  CHECK(g.output_types() == block().output_types());
  for (const Node& node : g.nodes())
    if (node.op == &op::param) CHECK(node.types[0].dtype == f32);
  CHECK(node_of(g, op::linear).types[0].dtype == bf16);
  CHECK(node_of(g, op::gelu).types[0].dtype == bf16);
  Graph sums("sums");
  const Value x = matmul(sums.input("x", f32, {4, 4}), sums.param("w", f32, {4, 4}));
  sums.output(exp(x), "e"), sums.output(reduce_sum(x, {1}), "s"), sums.output(softmax(x), "p");
  const Graph mixed = in_mixed_precision(sums, bf16, MixedFor::inference);
  CHECK(node_of(mixed, op::exp).types[0].dtype == f32);
  CHECK(node_of(mixed, op::reduce).types[0].dtype == f32);
  CHECK(node_of(mixed, op::softmax).types[0].dtype == bf16);
  CHECK(node_of(in_mixed_precision(sums, bf16, MixedFor::training), op::softmax).types[0].dtype == f32);
  // Twice is once: targets that take a graph in two stages run the pass on both.
  CHECK(in_mixed_precision(mixed, bf16, MixedFor::inference) == mixed);
}

TEST_CASE("the report says the dtypes of each node as it runs: narrow products, sums in f32, codes of a byte") {
  const auto dtypes = [](Compute compute, std::string_view op) {
    std::set<std::string> found;
    for (const DispatchLine& line : dispatch_report(block(), Device::cpu(), computed(compute)).lines)
      if (line.op == op) found.insert(line.dtypes);
    return found;
  };
  using Found = std::set<std::string>;
  CHECK(dtypes(Compute::as_f32, "fused_matmul") == Found{"f32"});
  CHECK(dtypes(Compute::as_f32, "convert").empty());
  CHECK(dtypes(Compute::as_bf16, "fused_matmul") == Found{"bf16"});
  CHECK(dtypes(Compute::as_f16, "fused_matmul") == Found{"f16"});
  CHECK(dtypes(Compute::as_bf16, "convert").contains("f32 -> bf16"));
  for (const Compute compute : {Compute::as_f32, Compute::as_bf16, Compute::as_f16}) {
    const std::string table = dispatch_report(block(), Device::cpu(), computed(compute)).table();
    CHECK_MESSAGE((table.find("bf16") != std::string::npos) == (compute == Compute::as_bf16), table);
  }
  const CompiledGraph narrow = Session().compile(block(), computed(Compute::as_bf16));
  CHECK(narrow.report().json() == dispatch_report(block(), Device::cpu(), computed(Compute::as_bf16)).json());

  Graph g("weights");
  const Value x = g.input("x", f32, {6, 256});
  g.output(linear(x, g.param("w", f32, {192, 256}), g.param("b", f32, {192})));
  Found quantized;
  for (const DispatchLine& line : dispatch_report(g, Device::cpu(), computed(Compute::as_i8)).lines)
    if (line.op == "dynamic_quantize_matmul") quantized.insert(line.dtypes);
  CHECK(quantized == Found{"f32, i8 -> f32"});
}

TEST_CASE("a mask keeps the lowest number of f32, which bf16 and f16 have not") {
  constexpr float lowest = std::numeric_limits<float>::lowest();
  // Written out, and as the op: a row that is masked whole is uniform, as in PyTorch, and not NaN.
  for (const bool is_op : {false, true})
    for (const Compute compute : {Compute::as_bf16, Compute::as_f16}) {
      Graph g("masked");
      const Value q = g.input("q", f32, {1, 1, 2, 8}), k = g.input("k", f32, {1, 1, 3, 8}),
                  v = g.input("v", f32, {1, 1, 3, 8});
      const Value mask = g.input("mask", f32, {1, 1, 2, 3});
      if (is_op) g.output(attention(q, k, v, mask, {.mask = AttentionMask::bias, .scale = 0.5}), "y");
      else g.output(matmul(softmax(matmul(q, transpose(k, {0, 1, 3, 2})) * 0.5 + mask), v), "y");
      CompileOptions options = computed(compute);
      if (!is_op) options.skip_passes = {"fuse_attention"};
      CompiledGraph compiled = Session(Device::cpu(), {1}).compile(g, options);
      const Tensor values = noise({1, 1, 3, 8}, 3, 1);
      const Tensor y =
          compiled.run({{"q", noise({1, 1, 2, 8}, 1, 1)},
                        {"k", noise({1, 1, 3, 8}, 2, 1)},
                        {"v", values},
                        {"mask", Tensor::of<float>({1, 1, 2, 3}, {lowest, lowest, lowest, 0, lowest, lowest})}})[0];
      const auto got = y.values<float>(), from = values.values<float>();
      for (size_t c = 0; c < 8; ++c) {
        CHECK(got[c] == doctest::Approx((from[c] + from[8 + c] + from[16 + c]) / 3).epsilon(0.02));
        CHECK(got[8 + c] == doctest::Approx(from[c]).epsilon(0.01));
      }
    }
}

TEST_CASE("convolutions in bf16 are those of f32, rounded: pointwise, strided, grouped, depthwise, of odd extents") {
  struct Case {
    int64_t batch, in, out, side, kernel, groups = 1, stride = 1, dilation = 1;
    bool bias = true, residual = false;
  };
  for (const Case& c : {Case{1, 32, 48, 9, 1}, Case{2, 32, 48, 9, 1, 1, 2}, Case{1, 16, 32, 14, 3}, Case{3, 5, 7, 6, 3},
                        Case{2, 24, 24, 11, 3, 24}, Case{1, 24, 24, 7, 3, 24, 2}, Case{1, 3, 16, 20, 7, 1, 2},
                        Case{2, 12, 18, 8, 3, 6, 1, 2}, Case{1, 33, 35, 7, 1, 1, 1, 1, false, true},
                        Case{2, 16, 16, 8, 3, 1, 1, 1, true, true}, Case{0, 8, 8, 5, 3}, Case{1, 1, 1, 1, 1}})
    for (const bool is_relu : {false, true}) {
      const int64_t pad = c.dilation * (c.kernel - 1) / 2;
      Graph g("conv");
      const Value x = g.input("x", f32, {c.batch, c.in, c.side, c.side});
      Value y = conv(x, g.param("w", f32, {c.out, c.in / c.groups, c.kernel, c.kernel}),
                     {.stride = {c.stride, c.stride},
                      .padding = {pad, pad},
                      .dilation = {c.dilation, c.dilation},
                      .groups = c.groups});
      const Dims dims = y.dims();
      if (c.bias) y = y + broadcast_in_dim(g.param("b", f32, {c.out}), dims, {1});
      if (c.residual) y = y + g.input("r", f32, dims);
      g.output(is_relu ? relu(y) : gelu(y), "y");
      const auto run = [&](Compute compute) {
        CompiledGraph compiled = Session(Device::cpu(), {2}).compile(g, computed(compute));
        const float size = 1 / std::sqrt(static_cast<float>(c.in / c.groups * c.kernel * c.kernel));
        compiled.set_param("w", noise({c.out, c.in / c.groups, c.kernel, c.kernel}, 1, 2 * size));
        if (c.bias) compiled.set_param("b", noise({c.out}, 2, 1));
        std::vector<NamedTensor> inputs{{"x", noise({c.batch, c.in, c.side, c.side}, 3, 1)}};
        if (c.residual) inputs.push_back({"r", noise(shape_of(dims), 4, 1)});
        const Tensor out = compiled.run(inputs)[0];
        return std::vector<float>(out.values<float>().begin(), out.values<float>().end());
      };
      CAPTURE(c.in);
      CAPTURE(c.out);
      CAPTURE(c.kernel);
      CAPTURE(c.groups);
      CAPTURE(is_relu);
      const std::vector<float> exact = run(Compute::as_f32), narrow = run(Compute::as_bf16);
      REQUIRE(narrow.size() == exact.size());
      CHECK(largest_difference(narrow, exact) < 0.03);
      if (exact.size() > 100) CHECK(narrow != exact);
    }
}

TEST_CASE("products with weights in blocks and in halves are narrow, those with scales beside them are not") {
  Graph g("packed");
  const Value x = g.input("x", f32, {40, 64});
  Value y = dequant_matmul(x, g.param("blocks", q8_0, {64, 64}));
  y = dequant_matmul(y, g.param("halves", bf16, {64, 64}));
  g.output(dequant_matmul(convert(y, f32), g.param("codes", i8, {64, 48}), {g.param("scales", f32, {2, 48})}, 32), "y");
  const Graph narrow = in_mixed_precision(g, bf16, MixedFor::inference);
  std::vector<DType> products;
  for (const Node& node : narrow.nodes())
    if (node.op == &op::dequant_matmul) products.push_back(node.types[0].dtype);
  CHECK(products == std::vector<DType>{bf16, bf16, f32});
  const Graph trained = in_mixed_precision(g, bf16, MixedFor::training);
  for (const Node& node : trained.nodes())
    if (node.op == &op::dequant_matmul) CHECK(node.types[0].dtype == f32);

  const Tensor weights = quantized(noise({64, 64}, 1, 0.3f), q8_0);
  Tensor halves(bf16, {64, 64}), codes(i8, {64, 48});
  for (size_t i = 0; i < halves.element_count(); ++i) store<double>(halves, i, std::sin(static_cast<double>(i)) / 8);
  for (size_t i = 0; i < codes.element_count(); ++i) store<int64_t>(codes, i, static_cast<int64_t>(i * 37 % 255) - 127);
  const auto run = [&](Compute compute) {
    CompiledGraph compiled = Session(Device::cpu(), {1}).compile(g, computed(compute));
    compiled.set_param("blocks", weights), compiled.set_param("halves", halves), compiled.set_param("codes", codes);
    compiled.set_param("scales", noise({2, 48}, 3, 0.01f));
    const Tensor out = compiled.run({{"x", noise({40, 64}, 6, 1)}})[0];
    return std::vector<float>(out.values<float>().begin(), out.values<float>().end());
  };
  const std::vector<float> exact = run(Compute::as_f32), less = run(Compute::as_bf16);
  const float largest = std::abs(*std::ranges::max_element(exact, {}, [](float v) { return std::abs(v); }));
  CHECK(largest_difference(exact, less) > 1e-5 * largest);
  CHECK(largest_difference(exact, less) < 0.02 * largest);
}

TEST_CASE("a number beyond f16 becomes infinite, in bf16 it stays") {
  Graph g("large");
  g.output(matmul(g.input("x", f32, {1, 2}), g.param("w", f32, {2, 1})), "y");
  for (const Compute compute : {Compute::as_f16, Compute::as_bf16}) {
    CompiledGraph compiled = Session(Device::cpu(), {1}).compile(g, computed(compute));
    compiled.set_param("w", Tensor::of<float>({2, 1}, {1, 0}));
    const float y = compiled.run({{"x", Tensor::of<float>({1, 2}, {131072, 0})}})[0].values<float>()[0];
    if (compute == Compute::as_f16) CHECK(!std::isfinite(y));  // inf, or inf * 0 in the sum
    else CHECK(y == 131072);
  }
}

namespace {

/// [2, steps, 24] by an lstm each way and a gru, and a linear layer.
Graph sequence_model() {
  Graph g("sequences");
  Value x = g.input("x", f32, {2, 9, 24});
  x = lstm(x, g.param("w_ih", f32, {2 * 160 * 24}), g.param("w_hh", f32, {2 * 160 * 40}), g.param("b", f32, {2 * 160}),
           {40, 1, true})[0];
  x = gru(x, g.param("v_ih", f32, {96 * 80}), g.param("v_hh", f32, {96 * 32}), g.param("c", f32, {96}),
          g.param("d", f32, {96}), {32, 1, false})[0];
  g.output(linear(x, g.param("w", f32, {20, 32})), "y");
  return g;
}
std::vector<float> run_sequences(Compute compute) {
  CompiledGraph compiled = Session(Device::cpu(), {1}).compile(sequence_model(), computed(compute));
  unsigned seed = 1;
  const Graph g = sequence_model();
  for (Ref r : g.params()) compiled.set_param(g.node(r).name, noise(shape_of(g.type(r).dims), ++seed, 0.2f));
  const Tensor y = compiled.run({{"x", noise({2, 9, 24}, 1, 1)}})[0];
  return {y.values<float>().begin(), y.values<float>().end()};
}

}  // namespace

TEST_CASE("recurrent layers are narrow but in training, and their gates and states are as good as f32 allows") {
  for (const OpDef* op : {&op::lstm, &op::gru, &op::rnn}) {
    CHECK(precision_of(*op) == OpPrecision::low);
    CHECK(precision_of(*op, MixedFor::beside_integers) == OpPrecision::low);
    CHECK(precision_of(*op, MixedFor::training) == OpPrecision::full);
  }
  for (const Compute compute : {Compute::as_bf16, Compute::as_f16})
    for (const DispatchLine& line : dispatch_report(sequence_model(), Device::cpu(), computed(compute)).lines)
      if (line.op == "lstm" || line.op == "gru") {
        CHECK(line.verdict == Verdict::native);
        CHECK(line.dtypes == (compute == Compute::as_bf16 ? "bf16" : "f16"));
      }
  const std::vector<float> exact = run_sequences(Compute::as_f32), bf16s = run_sequences(Compute::as_bf16),
                           f16s = run_sequences(Compute::as_f16), integers = run_sequences(Compute::as_i8);
  // Weights and x are rounded to 2^-9 and 2^-12 of themselves; y is up to 0.5.
  CHECK(largest_difference(exact, bf16s) > 1e-5);
  CHECK(largest_difference(exact, bf16s) < 4e-3);
  CHECK(largest_difference(exact, f16s) < 5e-4);
  // Where the device is fast in f32 alone, int8 leaves recurrent layers as they are.
  const bool is_fast_in_f32 = target_json(Device::cpu()).find("\"fast_float\": \"f32\"") != std::string::npos;
  CHECK((largest_difference(exact, integers) > 1e-5) == !is_fast_in_f32);
  CHECK(largest_difference(exact, integers) < 4e-3);
}

TEST_CASE("beside integers, what norms give is narrow and what follows it; what came in f32 and convolutions stay") {
  Graph g("beside");
  const Value x = g.input("x", f32, {6, 64}), cache = g.input("cache", f32, {1, 1, 3, 64});
  const Value w = g.param("w", f32, {64, 64});
  const Value before = linear(x, w),
              normed = layer_norm(before, g.param("gamma", f32, {64}), g.param("beta", f32, {64}));
  const Value behind = gelu(linear(normed, w));
  const Value q = reshape(behind, {1, 1, 6, 64});
  g.output(attention(q, q, q, AttentionAttrs{}), "own"),
      g.output(attention(q, cache, cache, AttentionAttrs{}), "cached");
  g.output(conv(reshape(behind, {1, 4, 8, 12}), g.param("k", f32, {4, 4, 3, 3}), {}), "image");
  const Graph mixed = in_mixed_precision(quantize_products(g), bf16, MixedFor::beside_integers);
  CHECK(mixed.output_types() == g.output_types());
  std::vector<std::string> found;
  for (const Node& node : mixed.nodes())
    for (const OpDef* op : {&op::dynamic_quantize_matmul, &op::layer_norm, &op::gelu, &op::attention, &op::conv})
      if (node.op == op) found.push_back(text_of(op->name, ' ', node.types[0].dtype));
  CHECK(found == std::vector<std::string>{"dynamic_quantize_matmul f32", "layer_norm f32",
                                          "dynamic_quantize_matmul bf16", "gelu bf16", "attention bf16",
                                          "attention f32", "conv f32"});
  for (const Node& node : mixed.nodes())
    if (node.op == &op::dynamic_quantize_matmul) CHECK(mixed.type(node.operands[2]).dtype == f32);
}

TEST_CASE("a bias that is computed is f32 beside integers, and softmax gives what it reads") {
  Graph g("film");
  const Value x = g.input("x", f32, {6, 64}), w = g.param("w", f32, {64, 64}), v = g.param("v", f32, {64, 64});
  const Value normed = layer_norm(g.param("c", f32, {1, 64}), g.param("gamma", f32, {64}), g.param("beta", f32, {64}));
  const Value bias = reshape(linear(normed, v), {64});
  g.output(softmax(linear(x, w, bias)), "y");
  const auto run = [&](Compute compute) {
    CompiledGraph compiled = Session(Device::cpu(), {1}).compile(g, computed(compute));
    unsigned seed = 1;
    for (Ref r : g.params()) compiled.set_param(g.node(r).name, noise(shape_of(g.type(r).dims), ++seed, 0.3f));
    const Tensor y = compiled.run({{"x", noise({6, 64}, 1, 1)}})[0];
    return std::vector<float>(y.values<float>().begin(), y.values<float>().end());
  };
  const std::vector<float> exact = run(Compute::as_f32), y = run(Compute::as_i8);
  CHECK(largest_difference(exact, y) < 0.02);
  CHECK(largest_difference(exact, y) > 0);
  for (size_t row = 0; row < 6; ++row) {
    double sum = 0;
    for (size_t i = 0; i < 64; ++i) sum += y[row * 64 + i];
    CHECK(std::fabs(sum - 1) < 1e-6);  // numbers of bf16 would miss 1 by some 1e-4
  }
}

TEST_CASE("a state that a run is given is not rounded, or a cell that changes little would not change at all") {
  Graph g("stream");
  const Value h = g.input("h", f32, {1, 1, 4}), c = g.input("c", f32, {1, 1, 4});
  const auto out = lstm(g.input("x", f32, {1, 1, 4}), g.param("w_ih", f32, {64}), g.param("w_hh", f32, {64}),
                        g.param("b", f32, {16}), {4, 1, false}, h, c);
  g.output(out[1], "hn"), g.output(out[2], "cn");
  // Gates in the order input, forget, cell, output: 1/64 of 1 is added to a cell that is kept.
  const float biases[] = {-4.143f, 20, 20, 20};
  std::vector<float> b;
  for (const float gate : biases) b.insert(b.end(), 4, gate);
  for (const Compute compute : {Compute::as_f32, Compute::as_bf16, Compute::as_i8}) {
    CompiledGraph compiled = Session(Device::cpu(), {1}).compile(g, computed(compute));
    for (const char* name : {"w_ih", "w_hh"}) compiled.set_param(name, Tensor::of<float>({64}, std::vector<float>(64)));
    compiled.set_param("b", Tensor::of<float>({16}, b));
    Tensor hn = Tensor::of<float>({1, 1, 4}, std::vector<float>(4)), cn = hn;
    for (int i = 0; i < 1000; ++i) {
      auto next = compiled.run({{"x", Tensor::of<float>({1, 1, 4}, std::vector<float>(4))}, {"h", hn}, {"c", cn}});
      hn = next[0], cn = next[1];
    }
    CHECK(std::fabs(cn.values<float>()[0] - 1000 / (1 + std::exp(4.143))) < 0.1);
  }
}

TEST_CASE("files and caches tell one compute from another") {
  const test::TemporaryFolder folder;
  const std::string path = folder / "block.rlxc";
  Session session(Device::cpu(), {1});
  session.compile(block(), computed(Compute::as_bf16)).save(path);
  CHECK(artifact_info(path).options.compute == Compute::as_bf16);
  CHECK(artifact_info(path).json().find("\"compute\": \"bf16\"") != std::string::npos);
  const auto key = [&](Compute compute) { return session.compile(block(), computed(compute)).config().cache_key(); };
  CHECK(key(Compute::as_bf16) != key(Compute::as_f32));
  CHECK(key(Compute::as_bf16) != key(Compute::as_f16));
  CHECK(key(Compute::as_i8) != key(Compute::as_f32));
}

namespace {

/// [rows, k] by a linear layer with a bias, [n, k].
struct IntegerLayer {
  int64_t rows, k, n;
  Tensor x, w, b;
  bool is_behind_relu = false;
  IntegerLayer(int64_t r, int64_t depth, int64_t columns)
      : rows(r), k(depth), n(columns), x(noise({r, depth}, 1, 1)), w(noise({columns, depth}, 2, 1)),
        b(noise({columns}, 3, 1)) {}
  std::vector<float> run(const CompileOptions& options, int threads = 1) const {
    Graph g("layer");
    const Value given = g.input("x", f32, {Dim::symbol("R"), k});
    g.output(linear(is_behind_relu ? relu(given) : given, g.param("w", f32, {n, k}), g.param("b", f32, {n})), "y");
    CompiledGraph compiled = Session(Device::cpu(), {threads}).compile(g, options);
    compiled.set_param("w", w), compiled.set_param("b", b);
    compiled.run({{"x", noise({rows + 1, k}, 9, 1)}});  // weights that are packed serve other extents too
    const Tensor y = compiled.run({{"x", x}})[0];
    return {y.values<float>().begin(), y.values<float>().end()};
  }
};
/// As dynamic_quantize has it.
double scale_of(std::span<const float> values, double largest_code) {
  double largest = 0;
  for (float v : values) largest = std::max(largest, std::fabs(static_cast<double>(v)));
  return std::max(largest / largest_code, 0x1p-126);
}
/// Of a row of x, whose three largest numbers may have codes up to 16383.
double row_scale_of(std::span<const float> values) {
  std::vector<float> sizes;
  for (float v : values) sizes.push_back(std::fabs(v));
  std::sort(sizes.rbegin(), sizes.rend());
  return std::max({static_cast<double>(sizes[3]) / 127, static_cast<double>(sizes[0]) / 16383, 0x1p-126});
}

}  // namespace

/// The bound of a sum of codes, of exact value `exact` with its bias, with what f32 adds: four roundings, one of a
/// reciprocal in each code (2^-23 of a number, 2^-12 of the bound), and what is lost below the least number.
double with_roundings(double bound, double exact, double bias) {
  return bound * (1 + 0x1p-11) + 4 * 0x1p-24 * (std::fabs(exact) + bound + std::fabs(bias)) + 0x1p-149;
}

TEST_CASE("int8 is within half a step of each number, whatever the sizes of rows and columns") {
  IntegerLayer layer(48, 100, 40);
  // Each row and each column has a size of its own: from subnormal numbers to those whose products nearly overflow.
  const float sizes[] = {1, 1e30f, 1e-42f, 0, 3e-39f, 250, 1e-20f, 1e15f};
  const auto x = layer.x.mutable_values<float>(), w = layer.w.mutable_values<float>();
  for (size_t i = 0; i < x.size(); ++i) x[i] *= sizes[i / 100 % 8] * (i % 7 == 3 ? 1e-3f : 1);
  for (size_t i = 0; i < w.size(); ++i) w[i] *= i / 100 % 5 == 4 ? 1e-30f : i / 100 % 5 == 3 ? 1e4f : 1;
  const std::vector<float> y = layer.run(computed(Compute::as_i8));
  double worst = 0;
  size_t differing = 0;
  for (size_t i = 0; i < 48; ++i) {
    const auto row = layer.x.values<float>().subspan(i * 100, 100);
    const double x_scale = scale_of(row, 1023);
    for (size_t j = 0; j < 40; ++j) {
      const auto column = layer.w.values<float>().subspan(j * 100, 100);
      const double w_scale = scale_of(column, 127), bias = layer.b.values<float>()[j];
      double exact = bias, bound = 0;
      for (size_t p = 0; p < 100; ++p) {
        const double a = row[p], b = column[p];
        exact += a * b;
        bound += std::fabs(a) * w_scale / 2 + std::fabs(b) * x_scale / 2 + x_scale * w_scale / 4;
      }
      const double got = y[i * 40 + j], apart = std::fabs(got - exact);
      bound = with_roundings(bound, exact, bias);
      CAPTURE(i);
      CAPTURE(j);
      CHECK(apart <= bound);
      worst = std::max(worst, apart / bound);
      differing += apart > bound / 1000;
    }
  }
  CHECK(worst > 0.02);  // the bound is one that is felt
  CHECK(differing > 500);
}

TEST_CASE("behind an activation int8 balances x and weights, and is within half a step of each balanced number") {
  constexpr size_t kRows = 24, kTerms = 96, kOutputs = 40;
  for (const bool transposed : {true, false}) {
    Graph g("layer");
    const Value x = relu(g.input("x", f32, {kRows, kTerms}));
    const Value w = g.param("w", f32, transposed ? Dims{kOutputs, kTerms} : Dims{kTerms, kOutputs});
    g.output(transposed ? linear(x, w) : matmul(x, w), "y");
    // A few channels have large weights, one none, one tiny ones. The largest number is that of a lonely weight.
    const auto place = [&](size_t p, size_t j) { return transposed ? j * kTerms + p : p * kOutputs + j; };
    Tensor weights = noise(transposed ? Shape{kOutputs, kTerms} : Shape{kTerms, kOutputs}, 2, 1);
    for (size_t p = 0; p < kTerms; ++p)
      for (size_t j = 0; j < kOutputs; ++j)
        weights.mutable_values<float>()[place(p, j)] *= p % 31 == 5 ? 16 : p == 40 ? 0 : p == 41 ? 1e-30f : 1;
    Tensor given = noise({kRows, kTerms}, 1, 1);
    for (size_t i = 0; i < kRows * kTerms; ++i)
      given.mutable_values<float>()[i] *= i % kTerms % 31 == 5 ? 1.0f / 16 : i % 111 == 0 ? 20 : 1;
    CompiledGraph compiled = Session(Device::cpu(), {1}).compile(g, computed(Compute::as_i8));
    CHECK(compiled.report().table().find("dynamic_quantize_matmul") != std::string::npos);
    compiled.set_param("w", weights);
    const Tensor y = compiled.run({{"x", given}})[0];

    std::vector<float> largest(kTerms), factor(kTerms), x_balanced(kRows * kTerms), w_balanced(kTerms * kOutputs);
    for (size_t p = 0; p < kTerms; ++p)
      for (size_t j = 0; j < kOutputs; ++j)
        largest[p] = std::max(largest[p], std::fabs(weights.values<float>()[place(p, j)]));
    const float most = *std::max_element(largest.begin(), largest.end());
    for (size_t p = 0; p < kTerms; ++p) {
      const double root = std::pow(std::max(static_cast<double>(largest[p] / most), 0x1p-24), 0.25);
      int exponent = 0;
      const double mantissa = std::frexp(root, &exponent);  // bf16 has 8 bits of it
      factor[p] = static_cast<float>(std::ldexp(std::nearbyint(mantissa * 256) / 256, exponent));
    }
    double bounds = 0, bounds_as_given = 0, apart_of_all = 0;
    for (size_t i = 0; i < kRows; ++i)
      for (size_t p = 0; p < kTerms; ++p)
        x_balanced[i * kTerms + p] = std::max(given.values<float>()[i * kTerms + p], 0.0f) * factor[p];
    for (size_t p = 0; p < kTerms; ++p)
      for (size_t j = 0; j < kOutputs; ++j)
        w_balanced[j * kTerms + p] = weights.values<float>()[place(p, j)] / factor[p];
    for (size_t i = 0; i < kRows; ++i) {
      const auto row = std::span(x_balanced).subspan(i * kTerms, kTerms);
      const double x_scale = row_scale_of(row);
      for (size_t j = 0; j < kOutputs; ++j) {
        const auto column = std::span(w_balanced).subspan(j * kTerms, kTerms);
        const double w_scale = scale_of(column, 127);
        double exact = 0, bound = 0, as_given = 0, largest_given = 0;
        for (size_t p = 0; p < kTerms; ++p) {
          exact += std::max(static_cast<double>(given.values<float>()[i * kTerms + p]), 0.0) *
                   static_cast<double>(weights.values<float>()[place(p, j)]);
          const double a = row[p], b = std::fabs(column[p]);
          bound += a * w_scale / 2 + b * x_scale / 2 + x_scale * w_scale / 4;
          largest_given = std::max(largest_given, std::fabs(static_cast<double>(weights.values<float>()[place(p, j)])));
        }
        for (size_t p = 0; p < kTerms; ++p)
          as_given += std::max(static_cast<double>(given.values<float>()[i * kTerms + p]), 0.0) * largest_given / 254;
        const double apart = std::fabs(static_cast<double>(y.values<float>()[i * kOutputs + j]) - exact);
        CHECK(apart <= with_roundings(bound, exact, 0));
        bounds += bound, bounds_as_given += as_given, apart_of_all += apart;
      }
    }
    CHECK(apart_of_all > bounds / 100);      // the bound is one that is felt
    CHECK(bounds < 0.75 * bounds_as_given);  // and less than what rounding the weights as they are may lose alone
  }
}

TEST_CASE("behind an activation a weight that is not finite is felt in its own output alone, in int8 as in f32") {
  Graph g("layer");
  g.output(linear(relu(g.input("x", f32, {3, 64})), g.param("w", f32, {20, 64})), "y");
  for (const float bad : {INFINITY, NAN}) {
    Tensor w = noise({20, 64}, 1, 1);
    CompiledGraph compiled = Session(Device::cpu(), {1}).compile(g, computed(Compute::as_i8));
    CompiledGraph floats = Session(Device::cpu(), {1}).compile(g, {});
    w.mutable_values<float>()[7 * 64 + 9] = bad;
    compiled.set_param("w", w), floats.set_param("w", w);
    const Tensor x = noise({3, 64}, 2, 1), y = compiled.run({{"x", x}})[0], wanted = floats.run({{"x", x}})[0];
    for (size_t i = 0; i < y.element_count(); ++i)
      if (i % 20 == 7) CHECK(std::isnan(y.values<float>()[i]));
      else CHECK(std::fabs(y.values<float>()[i] - wanted.values<float>()[i]) < 0.2f);
  }
}

TEST_CASE("a product that only a balanced one reads multiplies its own results, and another's are multiplied apart") {
  for (const bool is_output : {false, true}) {
    Graph g("perceptron");
    const Value hidden = fused_matmul(g.input("x", f32, {8, 64}), g.param("w", f32, {64, 80}), g.param("b", f32, {80}),
                                      {}, Activation::gelu);
    g.output(matmul(hidden, g.param("v", f32, {80, 48})), "y");
    if (is_output) g.output(hidden, "hidden");
    const Graph quantized = quantize_products(g);
    size_t with_factor = 0, multiplied = 0;
    for (const Node& node : quantized.nodes()) {
      if (node.op == &op::dynamic_quantize_matmul)
        with_factor += node.attrs.as<DynamicQuantizeMatmulAttrs>().has_factor;
      multiplied += node.op == &op::mul;
    }
    CHECK(with_factor == (is_output ? 0 : 1));
    CHECK(multiplied == (is_output ? 1 : 0));
    const std::map<std::string, Tensor> params = {
        {"w", noise({64, 80}, 1, 1)}, {"b", noise({80}, 2, 1)}, {"v", noise({80, 48}, 3, 1)}};
    CompiledGraph compiled = Session(Device::cpu(), {1}).compile(g, computed(Compute::as_i8));
    for (const auto& [name, value] : params) compiled.set_param(name, value);
    const std::vector<Tensor> x = {noise({8, 64}, 4, 1)};
    const Tensor y = compiled.run_ordered(x)[0], wanted = interpret(g, x, params)[0];
    double apart = 0, size = 0;
    for (size_t i = 0; i < y.element_count(); ++i) {
      const double d = y.values<float>()[i] - wanted.values<float>()[i], v = wanted.values<float>()[i];
      apart += d * d, size += v * v;
    }
    CHECK(apart < 1e-3 * size);  // 3 % of its size, in the mean
  }
}

TEST_CASE("int8 is finite where f32 is, though weights times codes alone would not be") {
  IntegerLayer layer(8, 100, 40);
  for (float& v : layer.x.mutable_values<float>()) v = 1e-30f;
  for (float& v : layer.w.mutable_values<float>()) v = 6e33f;
  for (float& v : layer.b.mutable_values<float>()) v = 0;
  const std::vector<float> wanted = layer.run({}), got = layer.run(computed(Compute::as_i8));
  for (size_t i = 0; i < wanted.size(); ++i) CHECK(got[i] == doctest::Approx(wanted[i]).epsilon(1e-6));
  CHECK(wanted[0] == doctest::Approx(600000).epsilon(1e-5));
}

TEST_CASE("the gradient of a product in int8 is that of the product with the weights that its codes stand for") {
  Graph g("product");
  Value x = g.input("x", f32, {5, 24}), w = g.input("w", i8, {24, 7}), scale = g.input("scale", f32, {7});
  Value bias = g.input("bias", f32, {7});
  g.output(dynamic_quantize_matmul(x, w, scale, {.bias = bias, .activation = Activation::tanh}, false, 1023), "y");
  Graph f("floats");
  Value fx = f.input("x", f32, {5, 24}), fw = f.input("w", i8, {24, 7}), fscale = f.input("scale", f32, {7});
  Value fbias = f.input("bias", f32, {7});
  Value weights = convert(fw, f32) * broadcast_to(fscale, {24, 7});
  f.output(tanh(matmul(fx, weights) + broadcast_to(fbias, {5, 7})), "y");
  Tensor codes(i8, {24, 7});
  for (size_t i = 0; i < codes.element_count(); ++i) store(codes, i, static_cast<int64_t>(i * 37 % 255) - 127);
  const std::vector<Tensor> in = {noise({5, 24}, 1, 1), codes, noise({7}, 2, 0.01f), noise({7}, 3, 1),
                                  noise({5, 7}, 4, 1)};
  const Names wrt = {"x", "scale", "bias"};
  const auto got = interpret(vjp(g, wrt, false), in), wanted = interpret(vjp(f, wrt, false), in);
  REQUIRE(got.size() == 3);
  for (size_t r = 0; r < got.size(); ++r)
    for (size_t i = 0; i < got[r].element_count(); ++i)
      CHECK(got[r].values<float>()[i] == doctest::Approx(wanted[r].values<float>()[i]).epsilon(1e-4));
}

TEST_CASE("a row with a number that is not finite is NaN in int8, and no other row is touched") {
  for (const float bad : {INFINITY, -INFINITY, NAN}) {
    IntegerLayer layer(70, 64, 33);
    const std::vector<float> before = layer.run(computed(Compute::as_i8), 2);
    layer.x.mutable_values<float>()[41 * 64 + 13] = bad;
    const std::vector<float> after = layer.run(computed(Compute::as_i8), 2);
    for (size_t i = 0; i < after.size(); ++i)
      if (i / 33 == 41) CHECK(std::isnan(after[i]));
      else CHECK(after[i] == before[i]);
  }
}

TEST_CASE("int8 has the same bits by its kernel, by the decomposition, by rows alone, and with any threads") {
  // Threads divide the columns of few rows, the rows of many, and the columns where they are more than twice the rows.
  for (const auto& extents : {std::array<int64_t, 3>{1, 48, 16},
                              {3, 65, 17},
                              {40, 100, 40},
                              {300, 130, 70},
                              {128, 64, 300},
                              {200, 64, 450}}) {
    const int64_t rows = extents[0], k = extents[1], n = extents[2];
    CAPTURE(rows);
    CAPTURE(n);
    for (const bool is_behind_relu : {false, true}) {
      IntegerLayer layer(rows, k, n);
      layer.is_behind_relu = is_behind_relu;
      for (int64_t i = 0; i < rows; ++i)  // outliers, of some rows
        for (int64_t o = 0; o < i % 5; ++o) layer.x.mutable_values<float>()[static_cast<size_t>(i * k + 11 * o)] *= 50;
      CompileOptions common = computed(Compute::as_i8);
      common.force_common = {"dynamic_quantize_matmul"};
      const std::vector<float> y = layer.run(computed(Compute::as_i8));
      CHECK(layer.run(common) == y);
      for (const int threads : {2, 3}) CHECK(layer.run(computed(Compute::as_i8), threads) == y);
      CHECK(layer.run(computed(Compute::as_f32)) != y);
      IntegerLayer first = layer;
      first.rows = 1, first.x = Tensor::of<float>({1, k}, std::vector<float>(layer.x.values<float>().begin(),
                                                                             layer.x.values<float>().begin() + k));
      CHECK(std::equal(y.begin(), y.begin() + n, first.run(computed(Compute::as_i8)).begin()));
    }
  }
}

TEST_CASE("weights of int8 are kept in a byte each") {
  Graph g("large");
  g.output(linear(g.input("x", f32, {1, 1024}), g.param("w", f32, {6144, 1024})), "y");
  const auto bytes = [&](Compute compute) {
    CompiledGraph compiled = Session(Device::cpu(), {1}).compile(g, computed(compute));
    compiled.set_param("w", noise({6144, 1024}, 1, 1));
    compiled.run({{"x", noise({1, 1024}, 2, 1)}});
    return static_cast<double>(compiled.memory_bytes());
  };
  const double weights = 6144 * 1024;
  CHECK(bytes(Compute::as_i8) < 1.1 * weights);
  CHECK(bytes(Compute::as_f32) > 4 * weights);
}

namespace {

/// [images, in, height, width] by a convolution with a bias, a residual and a relu.
struct IntegerConvolution {
  int64_t images, in, out, side;
  int64_t kernel = 3, stride = 1, groups = 1;
  bool is_relu = true;
  bool channels_last = false;  // of x and y
  Tensor x = noise(x_shape(images), 1, 1), w = noise({out, in / groups, kernel, kernel}, 2, 1), b = noise({out}, 3, 1);

  Shape x_shape(int64_t n) const { return channels_last ? Shape{n, side, side, in} : Shape{n, in, side, side}; }
  int64_t pad() const { return kernel / 2; }
  int64_t made() const { return (side + 2 * pad() - kernel) / stride + 1; }
  Graph graph() const {
    Graph g("layer");
    const Dim n = Dim::symbol("N");
    const Value x_given = g.input("x", f32, channels_last ? Dims{n, side, side, in} : Dims{n, in, side, side});
    const Value given = channels_last ? transpose(x_given, {0, 3, 1, 2}) : x_given;
    Value y = conv(given, g.param("w", f32, {out, in / groups, kernel, kernel}),
                   {.stride = {stride, stride}, .padding = {pad(), pad()}, .groups = groups});
    y = y + broadcast_in_dim(g.param("b", f32, {out}), y.dims(), {1});
    if (is_relu) y = relu(y);
    g.output(channels_last ? transpose(y, {0, 2, 3, 1}) : y, "y");
    return g;
  }
  std::vector<float> run(const CompileOptions& options, int threads = 1) const {
    CompiledGraph compiled = Session(Device::cpu(), {threads}).compile(graph(), options);
    compiled.set_param("w", w), compiled.set_param("b", b);
    compiled.run({{"x", noise(x_shape(images + 1), 9, 1)}});
    const Tensor y = compiled.run({{"x", x}})[0];
    return {y.values<float>().begin(), y.values<float>().end()};
  }
};

}  // namespace

TEST_CASE("convolutions in int8 are within half a step of each number, whatever the sizes of images and kernels") {
  IntegerConvolution layer{8, 12, 40, 6};
  layer.is_relu = false;
  const float sizes[] = {1, 1e30f, 1e-42f, 0, 3e-39f, 250, 1e-20f, 1e15f};
  const auto x = layer.x.mutable_values<float>(), w = layer.w.mutable_values<float>();
  for (size_t i = 0; i < x.size(); ++i) x[i] *= sizes[i / 432 % 8] * (i % 7 == 3 ? 1e-3f : 1);
  for (size_t i = 0; i < w.size(); ++i) w[i] *= i / 108 % 5 == 4 ? 1e-30f : i / 108 % 5 == 3 ? 1e4f : 1;
  const std::vector<float> y = layer.run(computed(Compute::as_i8));
  double worst = 0;
  size_t differing = 0;
  for (size_t n = 0; n < 8; ++n) {
    const auto image = layer.x.values<float>().subspan(n * 432, 432);
    const double x_scale = scale_of(image, 1023);
    for (size_t o = 0; o < 40; ++o) {
      const auto kernel = layer.w.values<float>().subspan(o * 108, 108);
      const double w_scale = scale_of(kernel, 127), bias = layer.b.values<float>()[o];
      for (size_t row = 0; row < 6; ++row)
        for (size_t column = 0; column < 6; ++column) {
          double exact = bias, bound = 0;
          for (size_t p = 0; p < 108; ++p) {
            const size_t i = row + p / 3 % 3 - 1, j = column + p % 3 - 1;  // beyond the image, it wraps to the largest
            if (i > 5 || j > 5) continue;
            const double a = image[p / 9 * 36 + i * 6 + j], c = kernel[p];
            exact += a * c;
            bound += std::fabs(a) * w_scale / 2 + std::fabs(c) * x_scale / 2 + x_scale * w_scale / 4;
          }
          const double got = y[((n * 40 + o) * 6 + row) * 6 + column], apart = std::fabs(got - exact);
          bound = with_roundings(bound, exact, bias);
          CAPTURE(n);
          CAPTURE(o);
          CHECK(apart <= bound);
          worst = std::max(worst, apart / bound);
          differing += apart > bound / 1000;
        }
    }
  }
  CHECK(worst > 0.02);  // the bound is one that is felt
  CHECK(differing > 1500);
}

TEST_CASE("an image with a number that is not finite is NaN in int8, and no other image is touched") {
  for (const float bad : {INFINITY, -INFINITY, NAN}) {
    IntegerConvolution layer{5, 16, 33, 7};
    layer.is_relu = false;
    const std::vector<float> before = layer.run(computed(Compute::as_i8), 2);
    layer.x.mutable_values<float>()[3 * 784 + 100] = bad;
    const std::vector<float> after = layer.run(computed(Compute::as_i8), 2);
    for (size_t i = 0; i < after.size(); ++i)
      if (i / (33 * 49) == 3) CHECK(std::isnan(after[i]));
      else CHECK(after[i] == before[i]);
  }
}

TEST_CASE(
    "convolutions in int8 have the same bits by kernel, by decomposition, by images alone, and with any threads") {
  // Threads divide pixels; channels where those are more and tiles read images in place, whose channels are last.
  for (const IntegerConvolution& whole :
       {IntegerConvolution{1, 48, 64, 5, 1}, IntegerConvolution{3, 65, 77, 9, 1},
        IntegerConvolution{2, 64, 70, 9, 1, 2}, IntegerConvolution{2, 6, 40, 12},
        IntegerConvolution{3, 16, 34, 15, 3, 2}, IntegerConvolution{1, 5, 33, 30, 7, 2},
        IntegerConvolution{2, 24, 72, 8, 3, 1, 2}, IntegerConvolution{20, 8, 130, 20},
        IntegerConvolution{1, 64, 256, 4},
        IntegerConvolution{.images = 1, .in = 64, .out = 256, .side = 4, .channels_last = true},
        IntegerConvolution{.images = 2, .in = 64, .out = 200, .side = 4, .kernel = 1, .channels_last = true},
        IntegerConvolution{.images = 3, .in = 16, .out = 34, .side = 15, .channels_last = true}}) {
    CAPTURE(whole.in);
    CAPTURE(whole.kernel);
    CompileOptions common = computed(Compute::as_i8);
    common.force_common = {"dynamic_quantize_conv"};
    CHECK(
        dispatch_report(whole.graph(), Device::cpu(), computed(Compute::as_i8)).table().find("dynamic_quantize_conv") !=
        std::string::npos);
    const std::vector<float> y = whole.run(computed(Compute::as_i8));
    CHECK(whole.run(common) == y);
    for (const int threads : {2, 3}) CHECK(whole.run(computed(Compute::as_i8), threads) == y);
    CHECK(whole.run(computed(Compute::as_f32)) != y);
    IntegerConvolution first = whole;
    first.images = 1;
    const auto values = whole.x.values<float>().first(whole.x.element_count() / static_cast<size_t>(whole.images));
    first.x = Tensor::of<float>(whole.x_shape(1), std::vector<float>(values.begin(), values.end()));
    const std::vector<float> alone = first.run(computed(Compute::as_i8));
    CHECK(std::equal(alone.begin(), alone.end(), y.begin()));
  }
}

TEST_CASE("images between convolutions in int8 are bytes or bf16, and results those of f32 but for roundings") {
  // A network's beginning: few channels, a depthwise convolution, a residual; what leaves it is f32.
  Graph g("network");
  const Value x = g.input("x", f32, {Dim::symbol("N"), 3, 20, 21});
  const auto weights = [&](const char* name, Dims dims) { return g.param(name, f32, std::move(dims)); };
  const Value a = relu(conv(x, weights("a", {48, 3, 3, 3}), {.stride = {2, 2}, .padding = {1, 1}}));
  const Value b = relu6(conv(a, weights("b", {48, 1, 3, 3}), {.padding = {1, 1}, .groups = 48}));
  const Value c = conv(b, weights("c", {64, 48, 1, 1}));
  const Value d = relu(conv(c, weights("d", {64, 64, 3, 3}), {.padding = {1, 1}}) + c);
  g.output(reduce_sum(conv(pool(d, {.kernel_size = {2, 2}}), weights("e", {96, 64, 1, 1})), {2, 3}), "y");
  const auto run = [&](const CompileOptions& options, int threads = 1) {
    CompiledGraph compiled = Session(Device::cpu(), {threads}).compile(g, options);
    compiled.set_param("a", noise({48, 3, 3, 3}, 1, 0.5f)), compiled.set_param("b", noise({48, 1, 3, 3}, 2, 0.5f));
    compiled.set_param("c", noise({64, 48, 1, 1}, 3, 0.3f)), compiled.set_param("d", noise({64, 64, 3, 3}, 4, 0.1f));
    compiled.set_param("e", noise({96, 64, 1, 1}, 5, 0.3f));
    const Tensor y = compiled.run({{"x", noise({3, 3, 20, 21}, 6, 1)}})[0];
    return std::vector<float>(y.values<float>().begin(), y.values<float>().end());
  };
  const std::vector<float> exact = run(computed(Compute::as_f32)), y = run(computed(Compute::as_i8));
  double size = 0;
  for (const float v : exact) size = std::max(size, std::fabs(static_cast<double>(v)));
  CHECK(largest_difference(exact, y) < 0.02 * size);
  CHECK(largest_difference(exact, y) > 0);
  CHECK(run(computed(Compute::as_i8), 2) == y);
  const std::string table = dispatch_report(g, Device::cpu(), computed(Compute::as_i8)).table();
  CHECK(table.find("dynamic_quantize_conv") != std::string::npos);
  // Images behind relu are bytes, and other images have codes of 11 bits, where a kernel reads images in place.
  bool is_narrow = false;
  for (const DispatchLine& line : dispatch_report(g, Device::cpu(), computed(Compute::as_i8)).lines)
    is_narrow = is_narrow || (line.op == "dynamic_quantize_conv" && line.dtypes.starts_with("bf16"));
  // docs/runtime.md: with matrix tiles, or AVX-512 with VNNI and bf16.
  const kernels::Int8DotIsa isa = kernels::best_int8_dot_isa();
  const bool has_dots = isa == kernels::Int8DotIsa::avx512_vnni && kernels::has_bf16_tile_dots();
  CHECK(is_narrow == (isa == kernels::Int8DotIsa::tiles || has_dots));
  CompileOptions common = computed(Compute::as_i8);
  common.force_common = {"dynamic_quantize_conv"};
  CHECK(largest_difference(run(common), y) < 0.02 * size);
}

TEST_CASE("images of other extents, and none of them, leave the weights of later ones as they are") {
  // With such padding only long images are read where they lie; for short ones weights are packed in another way.
  Graph g("lengths");
  const Value x = transpose(g.input("x", f32, {Dim::symbol("B"), Dim::symbol("N"), 16}), {0, 2, 1});
  const Value a = relu(conv(x, g.param("a", f32, {64, 16, 3}), {.padding = {40000}, .dilation = {40000}}));
  g.output(transpose(conv(a, g.param("b", f32, {64, 64, 3}), {.padding = {1}}), {0, 2, 1}), "y");
  const auto compile = [&](Compute compute) {
    CompiledGraph compiled = Session(Device::cpu(), {1}).compile(g, computed(compute));
    compiled.set_param("a", noise({64, 16, 3}, 1, 0.5f)), compiled.set_param("b", noise({64, 64, 3}, 2, 0.3f));
    return compiled;
  };
  CompiledGraph integers = compile(Compute::as_i8), floats = compile(Compute::as_f32);
  for (const auto& size : std::vector<std::pair<int64_t, int64_t>>{{0, 40}, {1, 40}, {1, 20000}, {2, 33}}) {
    const Tensor images = noise({size.first, size.second, 16}, 3, 1);
    const Tensor y = integers.run({{"x", images}})[0], wanted = floats.run({{"x", images}})[0];
    double largest = 0, difference = 0;
    for (size_t i = 0; i < wanted.values<float>().size(); ++i) {
      largest = std::max(largest, std::fabs(static_cast<double>(wanted.values<float>()[i])));
      difference =
          std::max(difference, std::fabs(static_cast<double>(wanted.values<float>()[i] - y.values<float>()[i])));
    }
    INFO(size.first, " of ", size.second);
    CHECK(difference <= 0.03 * largest);
  }
}

TEST_CASE("kernels of int8 are kept in a byte each, and depthwise convolutions stay in f32") {
  Graph g("large");
  g.output(conv(g.input("x", f32, {1, 512, 3, 3}), g.param("w", f32, {2048, 512, 3, 3}), {}), "y");
  const auto bytes = [&](Compute compute) {
    CompiledGraph compiled = Session(Device::cpu(), {1}).compile(g, computed(compute));
    compiled.set_param("w", noise({2048, 512, 3, 3}, 1, 1));
    compiled.run({{"x", noise({1, 512, 3, 3}, 2, 1)}});
    return static_cast<double>(compiled.memory_bytes());
  };
  const double weights = 2048 * 512 * 9;
  CHECK(bytes(Compute::as_i8) < 1.1 * weights);
  CHECK(bytes(Compute::as_f32) > 3.9 * weights);
  const IntegerConvolution depthwise{1, 64, 64, 9, 7, 1, 64};
  CHECK(depthwise.run(computed(Compute::as_i8)) == depthwise.run(computed(Compute::as_f32)));
}

TEST_CASE("the gradient of a convolution in int8 is that of the convolution with the kernel that its codes stand for") {
  const DynamicQuantizeConvAttrs attrs{.padding = {1, 1}, .groups = 2, .x_largest = 1023};
  Graph g("convolution");
  Value x = g.input("x", f32, {2, 6, 5, 4}), w = g.input("w", i8, {8, 3, 3, 3}), scale = g.input("scale", f32, {8});
  Value bias = g.input("bias", f32, {8});
  g.output(dynamic_quantize_conv(x, w, scale, {.bias = bias, .activation = Activation::tanh}, attrs), "y");
  Graph f("floats");
  Value fx = f.input("x", f32, {2, 6, 5, 4}), fw = f.input("w", i8, {8, 3, 3, 3}), fscale = f.input("scale", f32, {8});
  Value fbias = f.input("bias", f32, {8});
  const Value weights = convert(fw, f32) * broadcast_in_dim(fscale, {8, 3, 3, 3}, {0});
  const Value y = conv(fx, weights, {.padding = {1, 1}, .groups = 2});
  f.output(tanh(y + broadcast_in_dim(fbias, y.dims(), {1})), "y");
  Tensor codes(i8, {8, 3, 3, 3});
  for (size_t i = 0; i < codes.element_count(); ++i) store(codes, i, static_cast<int64_t>(i * 37 % 255) - 127);
  const std::vector<Tensor> in = {noise({2, 6, 5, 4}, 1, 1), codes, noise({8}, 2, 0.01f), noise({8}, 3, 1),
                                  noise({2, 8, 5, 4}, 4, 1)};
  const Names wrt = {"x", "scale", "bias"};
  const auto got = interpret(vjp(g, wrt, false), in), wanted = interpret(vjp(f, wrt, false), in);
  REQUIRE(got.size() == 3);
  for (size_t r = 0; r < got.size(); ++r)
    for (size_t i = 0; i < got[r].element_count(); ++i)
      CHECK(got[r].values<float>()[i] == doctest::Approx(wanted[r].values<float>()[i]).epsilon(1e-4));
}

}  // namespace rlx

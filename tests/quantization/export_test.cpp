// Graphs of codes: integer arithmetic by NumPy (tests/golden/generate/quantization.py) and the fake quantization are
// the judges.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <filesystem>

#include "quantization/net.h"
#include "rlx/element.h"
#include "rlx/graph_file.h"
#include "rlx/ops.h"
#include "support/io_files.h"

using namespace rlx;

namespace {

size_t count(const Graph& g, const OpDef& op) {
  return static_cast<size_t>(
      std::count_if(g.nodes().begin(), g.nodes().end(), [&](const Node& n) { return n.op == &op; }));
}
Tensor run(const Graph& g, const NamedTensors& params, const Tensor& x) {
  CompiledGraph compiled = Session().compile(g);
  for (Ref r : g.params()) compiled.set_param(g.node(r).name, params.at(g.node(r).name));
  return compiled.run({{"x", x}})[0];
}
double farthest(const Tensor& a, const Tensor& b) {
  REQUIRE(a.type() == b.type());
  double most = 0;
  for (size_t i = 0; i < a.element_count(); ++i) most = std::max(most, std::abs(load_number(a, i) - load_number(b, i)));
  return most;
}
/// Numbers that repeat nowhere: sin of the index, faster for each seed.
Tensor waves(Shape shape, double seed, double scale = 1) {
  Tensor t(f32, std::move(shape));
  for (size_t i = 0; i < t.element_count(); ++i)
    store<double>(t, i, scale * std::sin(1.7 * seed + (0.91 + seed) * static_cast<double>(i)));
  return t;
}
struct Exported {
  Graph faked;
  NamedTensors params;
  Int8Model model;
};
Exported exported(const Graph& g, NamedTensors params, const Tensor& x, const QuantizationConfig& config = {}) {
  std::vector<NamedTensor> batch = {{"x", x}};
  Quantization q = add_quantization(g, config);
  NamedTensors all = params;
  all.merge(q.initial(params, calibrate(g, params, {&batch, 1}, config)));
  return {q.graph, all, export_int8(q.graph, all)};
}

}  // namespace

TEST_CASE("the graph of codes gives the numbers of integer arithmetic, and those of fake quantization to a step") {
  auto file = SafetensorsFile::open("tests/golden/quantization/codes.safetensors");
  Exported e = exported(test::net(), test::net_params(file, ""), file.tensor("calibration"));
  CHECK(count(e.model.graph, op::qconv2d) == 1);
  CHECK(count(e.model.graph, op::qmatmul) == 1);
  CHECK(count(e.model.graph, op::quantize) == 1);
  CHECK(count(e.model.graph, op::dequantize) == 1);
  CHECK(e.model.graph.params().empty());
  const Tensor y = run(e.model.graph, {}, file.tensor("x"));
  CHECK(farthest(y, file.tensor("y")) == 0);
  const double step = load_number(file.tensor("scales"), 4);
  CHECK(farthest(y, file.tensor("fake")) <= 1.001 * step);
  CHECK(farthest(run(e.faked, e.params, file.tensor("x")), file.tensor("fake")) <= 1e-5);
  CHECK(e.model.table().find("qconv2d") != std::string::npos);
  // Four bytes of each weight become one; biases and multipliers take four each.
  CHECK(e.model.bytes < e.model.float_bytes / 2);
  test::TemporaryFolder folder;
  save_graph(folder / "int8.rlx", e.model.graph);
  CHECK(farthest(run(load_graph(folder / "int8.rlx"), {}, file.tensor("x")), y) == 0);
}

namespace {

/// The layers of the chain below from `first` on, up to `last`.
Graph chain(int first, int last) {
  Graph g("chain");
  const Dim n = Dim::symbol("N");
  Value h = g.input("x", f32, {n, std::array{12, 9, 7}[static_cast<size_t>(first)]});
  for (int layer = first; layer <= last; ++layer)
    if (layer == 0) h = relu(linear(h, g.param("a.weight", f32, {9, 12}), g.param("a.bias", f32, {9})));
    else if (layer == 1)
      h = matmul(h, g.param("b.weight", f32, {9, 7})) + broadcast_to(g.param("b.bias", f32, {7}), {n, 7});
    else h = dot_general(h, g.param("c.weight", f32, {5, 7}), {{}, {}, {1}, {1}});
  g.output(h, "y");
  return g;
}

}  // namespace

TEST_CASE("products by rows and by columns, with and without biases and relus, alone and behind one another") {
  const NamedTensors all = {{"a.weight", waves({9, 12}, 1)},
                            {"a.bias", waves({9}, 2)},
                            {"b.weight", waves({9, 7}, 3)},
                            {"b.bias", waves({7}, 4, 3)},
                            {"c.weight", waves({5, 7}, 5)}};
  for (bool symmetric : {false, true})
    for (auto [first, last] : {std::pair{0, 0}, {1, 1}, {2, 2}, {0, 2}}) {
      Graph g = chain(first, last);
      NamedTensors params;
      for (Ref r : g.params()) params.emplace(g.node(r).name, all.at(g.node(r).name));
      const Tensor x = waves({64, g.input_types()[0].dims[1].value()}, 6);
      QuantizationConfig config;
      config.symmetric = symmetric;
      Exported e = exported(g, params, x, config);
      CHECK(count(e.model.graph, op::qmatmul) == static_cast<size_t>(last - first + 1));
      const Tensor faked = run(e.faked, e.params, x), y = run(e.model.graph, {}, x);
      double low = 0, high = 0;
      const Tensor exact = run(g, params, x);
      for (size_t i = 0; i < exact.element_count(); ++i)
        low = std::min(low, load_number(exact, i)), high = std::max(high, load_number(exact, i));
      const double step = symmetric ? std::max(-low, high) / 127 : (high - low) / 255;
      // Of one product, at most a step, where a bias of 32 bits moves a code; each passes on what was moved before it.
      if (first == last) CHECK(farthest(y, faked) <= 1.001 * step);
      size_t equal = 0;
      for (size_t i = 0; i < y.element_count(); ++i)
        equal += std::abs(load_number(y, i) - load_number(faked, i)) < 0.01 * step;
      CHECK(equal * 10 > y.element_count() * 9);
    }
}

TEST_CASE("fewer bits, and a relu whose codes begin below the zero point") {
  Graph g("few");
  Value y = matmul(g.input("x", f32, {8, 12}), g.param("w", f32, {12, 6}));
  g.output(relu(y), "y");
  g.output(reduce_min(y, {0, 1}), "least");  // so that the relu comes behind the codes
  NamedTensors params = {{"w", waves({12, 6}, 1)}};
  QuantizationConfig config;
  config.classes["matmul"] = {true, 3, 4};
  Tensor x = waves({8, 12}, 2);
  Exported e = exported(g, params, x, config);
  CHECK(count(e.model.graph, op::qmatmul) == 1);
  Tensor coded = run(e.model.graph, {}, x);
  CHECK(farthest(coded, run(e.faked, e.params, x)) < 1e-5);
  std::set<double> levels;
  for (size_t i = 0; i < coded.element_count(); ++i) levels.insert(load_number(coded, i));
  CHECK(levels.size() <= 16);
  CHECK(*levels.begin() == 0);
  for (const Node& n : e.model.graph.nodes())
    if (n.op == &op::qmatmul)
      for (size_t i = 0; i < 72; ++i) {
        auto code = load_index(e.model.graph.node(n.operands[1]).attrs.as<ConstantAttrs>().value, i);
        CHECK(std::abs(code) <= 3);
      }
}

TEST_CASE("a channel of zeros keeps its bias") {
  Graph g("pruned");
  g.output(linear(g.input("x", f32, {4, 3}), g.param("a.weight", f32, {2, 3}), g.param("a.bias", f32, {2})), "y");
  NamedTensors params = {{"a.weight", Tensor::of<float>({2, 3}, {0, 0, 0, 1, -2, 3})},
                         {"a.bias", Tensor::of<float>({2}, {1.5, -1})}};
  Tensor x = waves({4, 3}, 1);
  Exported e = exported(g, params, x);
  CHECK(count(e.model.graph, op::qmatmul) == 1);
  CHECK(farthest(run(e.model.graph, {}, x), run(e.faked, e.params, x)) < 1e-5);
}

TEST_CASE("a channel whose scale is too small for its bias is no channel of zeros") {
  Graph g("collapsed");
  g.output(linear(g.input("x", f32, {4, 2048}), g.param("a.weight", f32, {2, 2048}), g.param("a.bias", f32, {2})), "y");
  NamedTensors params = {{"a.weight", waves({2, 2048}, 1)}, {"a.bias", Tensor::of<float>({2}, {0.5, 0.5})}};
  Tensor x = waves({4, 2048}, 2);
  std::vector<NamedTensor> batch = {{"x", x}};
  QuantizationConfig config;
  config.weights = ScaleKind::learned;
  Quantization q = add_quantization(g, config);
  params.merge(q.initial(params, calibrate(g, params, {&batch, 1}, config)));
  store<double>(params.at("a.weight.scale"), 1, -1e-4);  // training went below zero: the op takes 1e-12
  Int8Model model = export_int8(q.graph, params);
  CHECK(model.lines[0].becomes == "float");
  CHECK(model.lines[0].reason == "a bias, or a sum, does not fit 32 bits");
  CHECK(farthest(run(model.graph, {}, x), run(q.graph, params, x)) < 1e-4);
}

TEST_CASE("sums that may not fit 32 bits stay floats, those that do become codes") {
  for (bool full : {false, true}) {
    Graph g("long");
    g.output(matmul(g.input("x", f32, {1, 66400}), g.param("w", f32, {66400, 2})), "y");
    // Codes of 0 to 255 by 127: 66312 products fit.
    Tensor w(f32, {66400, 2}), x = waves({1, 66400}, 1);
    for (size_t i = 0; i < 66400; ++i) {
      store<double>(w, 2 * i + 1, full || i < 66300 ? 1 : 0);
      store<double>(x, i, std::abs(load_number(x, i)));
    }
    Exported e = exported(g, {{"w", w}}, x);
    CHECK(e.model.lines[0].reason == std::string(full ? "a bias, or a sum, does not fit 32 bits" : ""));
    // A channel is zeros, and there is no bias.
    CHECK(load_number(run(e.model.graph, {}, x), 0) == 0);
  }
  // Codes of weights up to 255: 60000 products of 255 by 255 are more than 2^31.
  Graph g("unsigned");
  Value x = g.input("x", f32, {1, 60000}), s = g.param("s", f32, {});
  Value codes = fake_quantize_affine(x, s, g.param("z", i32, {}));
  Value y = matmul(codes, fake_quantize_affine(g.param("w", f32, {60000, 2}), s, {}, {0, 255}));
  g.output(fake_quantize_affine(y, g.param("t", f32, {})), "y");
  Tensor w(f32, {60000, 2}), in(f32, {1, 60000});
  for (size_t i = 0; i < 120000; ++i) store<double>(w, i, 2.55);
  for (size_t i = 0; i < 60000; ++i) store<double>(in, i, 2.55);
  NamedTensors params = {
      {"w", w}, {"s", Tensor::scalar(0.01F)}, {"z", Tensor::scalar<int32_t>(-128)}, {"t", Tensor::scalar(4000.0F)}};
  Int8Model model = export_int8(g, params);
  // 2.55 * 2.55 * 60000 = 390150, of which 98 steps of 4000 are 392000.
  CHECK(load_number(run(model.graph, {}, in), 0) == doctest::Approx(392000).epsilon(1e-6));
  CHECK(count(model.graph, op::qmatmul) == 0);
}

TEST_CASE("one number that is spread over the channels is no bias of theirs") {
  Graph g("spread");
  Value y = conv(g.input("x", f32, {1, 2, 4, 4}), g.param("w", f32, {16, 2, 1, 1}));
  Value spread = broadcast_in_dim(g.param("b", f32, {1}), {16, 1, 1}, {0});
  g.output(y + broadcast_in_dim(spread, {1, 16, 4, 4}, {1, 2, 3}), "y");
  Tensor x = waves({1, 2, 4, 4}, 1);
  Exported e = exported(g, {{"w", waves({16, 2, 1, 1}, 2)}, {"b", Tensor::of<float>({1}, std::array{0.5F})}}, x);
  CHECK(e.model.lines[0].reason == "what is added to it is no bias of its output channels");
  CHECK(farthest(run(e.model.graph, {}, x), run(e.faked, e.params, x)) < 1e-4);
  // In two steps, one number for each channel is one.
  Graph two("two_steps");
  y = conv(two.input("x", f32, {1, 2, 4, 4}), two.param("w", f32, {16, 2, 1, 1}));
  spread = broadcast_in_dim(two.param("b", f32, {16}), {16, 1, 1}, {0});
  two.output(y + broadcast_in_dim(spread, {1, 16, 4, 4}, {1, 2, 3}), "y");
  e = exported(two, {{"w", waves({16, 2, 1, 1}, 2)}, {"b", waves({16}, 3)}}, x);
  CHECK(count(e.model.graph, op::qconv2d) == 1);
  CHECK(farthest(run(e.model.graph, {}, x), run(e.faked, e.params, x)) < 0.05);
}

TEST_CASE("what has no integer form stays floats between codes, and the table says why") {
  Graph g("mixed");
  Value x = g.input("x", f32, {3, 8});
  Value a = linear(x, g.param("a.weight", f32, {8, 8})), b = linear(x, g.param("b.weight", f32, {8, 8}));
  Value scores = matmul(a, transpose(b, {1, 0}));
  g.output(gelu(linear(a + b, g.param("c.weight", f32, {2, 8}))), "y");
  g.output(scores, "scores");
  NamedTensors params = {
      {"a.weight", waves({8, 8}, 1)}, {"b.weight", waves({8, 8}, 2)}, {"c.weight", waves({2, 8}, 3)}};
  Tensor in = waves({3, 8}, 4);
  Exported e = exported(g, params, in);
  CHECK(count(e.model.graph, op::qmatmul) == 3);
  CHECK(farthest(run(e.model.graph, {}, in), run(e.faked, e.params, in)) < 0.05);
  REQUIRE(e.model.lines.size() == 4);
  CHECK(e.model.lines[2].becomes == "float");
  CHECK(e.model.lines[2].reason == "it has no quantized weight");
  CHECK(e.model.table().find("float: it has no quantized weight") != std::string::npos);
}

TEST_CASE("graphs quantized by hand export too: symmetric, fixed or learnt scales") {
  Graph g("by_hand");
  Value x = g.input("x", f32, {4, 6}), s = g.param("s", f32, {}), w = g.param("w", f32, {6, 5});
  Value y = matmul(fake_quantize_fixed(x, s), fake_quantize(w, {.axes = {1}}));
  g.output(fake_quantize_lsq(y, g.param("t", f32, {})), "y");
  NamedTensors params = {{"s", Tensor::scalar(0.01F)}, {"t", Tensor::scalar(0.05F)}, {"w", waves({6, 5}, 2)}};
  Tensor in = waves({4, 6}, 3);
  Int8Model model = export_int8(g, params);
  CHECK(count(model.graph, op::qmatmul) == 1);
  CHECK(farthest(run(model.graph, {}, in), run(g, params, in)) < 1e-5);
}

TEST_CASE("what cannot be exported is refused by name") {
  Graph plain = test::net();
  auto file = SafetensorsFile::open("tests/golden/quantization/codes.safetensors");
  NamedTensors params = test::net_params(file, "");
  CHECK_THROWS_WITH_AS(export_int8(plain, params), doctest::Contains("graph 'net' has no fake quantization"), Error);
  QuantizationConfig config;
  config.activations = ScaleKind::per_batch;
  CHECK_THROWS_WITH_AS(export_int8(add_quantization(plain, config).graph, params),
                       doctest::Contains("takes its scale from what is fed"), Error);
  config.activations = ScaleKind::ema;
  Quantization q = add_quantization(plain, config);
  NamedTensors unset = params;
  unset.merge(q.initial(params));
  CHECK_THROWS_WITH_AS(export_int8(q.graph, unset), doctest::Contains("which no numbers gave"), Error);
  CHECK_THROWS_WITH_AS(export_int8(q.graph, params), doctest::Contains("no value for the param 'x.range'"), Error);
  Graph driven("driven");
  driven.output(fake_quantize_fixed(driven.input("x", f32, {3}), driven.param("s", f32, {})), "y");
  CHECK_THROWS_WITH_AS(export_int8(driven, {{"s", Tensor::scalar(-0.5F)}}),
                       doctest::Contains("has the scale -0.5, which training has driven below 0: take a smaller"),
                       Error);
  Graph wide("wide");
  wide.output(fake_quantize_fixed(wide.input("x", f32, {3}), wide.param("s", f32, {}), {.bits = 12}), "y");
  CHECK_THROWS_WITH_AS(export_int8(wide, {{"s", Tensor::scalar(1.0F)}}),
                       doctest::Contains("codes from -2047 to 2047; those of i8 and u8 export"), Error);
}

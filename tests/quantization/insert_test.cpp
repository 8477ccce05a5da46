// Where fake quantization is put, and where it is not.
#include <doctest/doctest.h>

#include <algorithm>

#include "quantization/net.h"
#include "rlx/element.h"
#include "rlx/graph_file.h"
#include "rlx/ops.h"
#include "support/io_files.h"

using namespace rlx;

namespace {

std::vector<std::string> names_of_points(const Quantization& q) {
  std::vector<std::string> names;
  for (const auto& p : q.points) names.push_back(p.name);
  return names;
}
size_t count(const Graph& g, const OpDef& op) {
  return static_cast<size_t>(
      std::count_if(g.nodes().begin(), g.nodes().end(), [&](const Node& n) { return n.op == &op; }));
}
using Names = std::vector<std::string>;

}  // namespace

TEST_CASE("weights are quantized by channel, activations once: what moves them keeps their scale") {
  Quantization q = add_quantization(test::net(), {});
  CHECK(names_of_points(q) == Names{"conv.output", "out.output", "x", "conv.weight", "out.weight"});
  CHECK(count(q.graph, op::fake_quantize_affine) == 5);
  for (const auto& p : q.points) {
    CHECK(p.high == 127);
    CHECK(p.low == (p.is_weight ? -127 : -128));
    CHECK(p.scales == (p.name == "conv.weight" ? Dims{3} : p.name == "out.weight" ? Dims{4} : Dims{}));
  }
  // Between the pool and the product there is no second quantizer.
  for (const Node& n : q.graph.nodes())
    if (n.op == &op::linear) CHECK(q.graph.node(n.operands[0]).op == &op::reshape);
  CHECK(parse_graph_text(graph_text(q.graph)) == q.graph);
  CHECK(signature_of(q.graph).outputs.size() == 1);
}

TEST_CASE("a scale goes through what moves numbers, and through a relu behind codes") {
  Graph g("moves");
  Value x = g.input("x", f32, {4, 6}), w = g.param("w", f32, {6, 6});
  Value y = matmul(x, w);  // used twice: its relu is not part of it
  Value moved = transpose(slice_axis(relu(y), 0, 0, 4), {1, 0});
  Value z = matmul(transpose(moved, {1, 0}), g.param("v.weight", f32, {6, 2}));
  g.output(z, "z"), g.output(reduce_sum(y, {0, 1}), "sum");
  Quantization q = add_quantization(g, {});
  CHECK(names_of_points(q) == Names{"w.output", "v.output", "x", "w", "v.weight"});
}

TEST_CASE("products of two activations, dot_general and tied weights") {
  Graph g("attention");
  Value x = g.input("x", f32, {2, 4, 6}), table = g.param("table", f32, {6, 6});
  Value a = linear(x, table), b = matmul(x, table);  // one weight, two axes of channels
  Value scores = softmax(matmul(a, transpose(b, {0, 2, 1})));
  Value d = dot_general(scores, g.param("d", f32, {3, 4}), {{}, {}, {2}, {1}});
  g.output(d, "d");
  g.output(reduce_sum(table, {0}), "plain");  // sees the weight as it is
  Quantization q = add_quantization(g, {});
  CHECK(names_of_points(q) ==
        Names{"table.output", "table.output.2", "matmul.output", "d.output", "x", "d.input", "table", "table.2", "d"});
  CHECK(q.points[6].axis == 0);
  CHECK(q.points[7].axis == 1);
  CHECK(q.points[8].axis == 0);
  CHECK(q.graph.node(q.graph.outputs()[1].ref).op == &op::reduce);
  CHECK(q.graph.node(q.graph.node(q.graph.outputs()[1].ref).operands[0]).op == &op::param);
}

TEST_CASE("one weight in layers of two classes has the bits of each") {
  Graph g("tied");
  Value w = g.param("w", f32, {8, 8});
  g.output(dot_general(linear(g.input("x", f32, {4, 8}), w), w, {{}, {}, {1}, {1}}), "y");
  QuantizationConfig config;
  CHECK(names_of_points(add_quantization(g, config)) == Names{"w.output", "w.output.2", "x", "w"});
  for (const char* few : {"linear", "dot_general"}) {
    config = {};
    config.classes[few].weight_bits = 2;
    Quantization q = add_quantization(g, config);
    REQUIRE(names_of_points(q) == Names{"w.output", "w.output.2", "x", "w", "w.2"});
    const bool first = few == std::string("linear");
    CHECK(q.points[3].high == (first ? 1 : 127));
    CHECK(q.points[4].high == (first ? 127 : 1));
  }
}

TEST_CASE("scales that would stand for nothing are refused before they are fixed") {
  QuantizationConfig config;
  config.weights = ScaleKind::fixed;
  for (DType dtype : {f32, f16, bf16}) {
    Graph g("zeros");
    g.output(matmul(g.input("x", dtype, {4, 3}), g.param("w", dtype, {3, 2})), "y");
    Quantization q = add_quantization(g, config);
    Calibration ranges;
    ranges.activations = {{"w.output", {-1, 1}, {-1, 1}, 4}, {"x", {-1, 1}, {-1, 1}, 4}};
    Tensor w(dtype, {3, 2});
    CHECK_THROWS_WITH_AS(q.initial({{"w", w}}, ranges),
                         doctest::Contains("the weight 'w' is 0, or nearly, in all of its 2 channels"), Error);
    store<double>(w, 1, 0.5);  // of the second channel
    CHECK(q.initial({{"w", w}}, ranges).contains("w.scale"));
    ranges.activations[1].range = {-1e300, 1e300};
    CHECK_THROWS_WITH_AS(q.initial({{"w", w}}, ranges),
                         doctest::Contains("a range from -1e+300 to 1e+300 has the scale 7.84314e+297, which "), Error);
  }
}

TEST_CASE("classes have bits of their own, and layers can be left out") {
  QuantizationConfig config;
  config.classes["conv"] = {true, 4, 6};
  config.symmetric = true;
  Quantization q = add_quantization(test::net(), config);
  CHECK(q.points[0].high == 31);
  CHECK(q.points[0].low == -31);
  CHECK(q.points[3].high == 7);
  CHECK(q.points[4].high == 127);
  config = {};
  config.classes["linear"].quantize = false;
  CHECK(names_of_points(add_quantization(test::net(), config)) == Names{"conv.output", "x", "conv.weight"});
  config = {};
  config.skip = {"con*"};
  CHECK(names_of_points(add_quantization(test::net(), config)) == Names{"out.output", "out.input", "out.weight"});
}

TEST_CASE("scales of per_batch in the graph are those of scale_for") {
  QuantizationConfig config;
  config.activations = ScaleKind::per_batch;
  for (bool symmetric : {false, true}) {
    config.symmetric = symmetric;
    Graph g("one");
    Value x = g.input("x", f32, {2, 3});
    g.output(matmul(x, g.constant(Tensor::of<float>({3, 3}, {1, 0, 0, 0, 1, 0, 0, 0, 1}))), "y");
    Quantization q = add_quantization(g, config);
    Tensor in = Tensor::of<float>({2, 3}, {0.25F, -1.5F, 3.1F, 0.7F, 1.1F, 2.9F});
    CodeScale scale = scale_for({-1.5, 3.1F}, symmetric ? -127 : -128, 127, symmetric);
    Tensor y = Session().compile(q.graph).run({{"x", in}})[0];
    // The identity, quantized: what comes out is what goes in, to half a step of each of two quantizers.
    for (size_t i = 0; i < 6; ++i) {
      CHECK(load_number(y, i) == doctest::Approx(load_number(in, i)).epsilon(0).scale(1).epsilon(1.01 * scale.scale));
      double code = load_number(y, i) / scale.scale;
      CHECK(code == doctest::Approx(std::nearbyint(code)).epsilon(1e-5));
    }
  }
}

TEST_CASE("what cannot be quantized is said with names") {
  Quantization q = add_quantization(test::net(), {});
  CHECK_THROWS_WITH_AS(add_quantization(q.graph, {}), doctest::Contains("is quantized already: node"), Error);
  QuantizationConfig config;
  config.classes["convolve"] = {};
  CHECK_THROWS_WITH_AS(add_quantization(test::net(), config),
                       doctest::Contains("called 'convolve'; there are conv, linear, matmul, dot_general"), Error);
  config = {};
  config.classes["conv"].weight_bits = 9;
  CHECK_THROWS_WITH_AS(add_quantization(test::net(), config), doctest::Contains("9 bits; it goes from 2 to 8"), Error);
  config = {};
  config.skip = {"hidden"};
  CHECK_THROWS_WITH_AS(
      add_quantization(test::net(), config),
      doctest::Contains("'hidden', which is to stay floats, is no layer of graph 'net'; there are 'conv', 'out'"),
      Error);
  config.skip = {"conv", "out"};
  CHECK_THROWS_WITH_AS(add_quantization(test::net(), config), doctest::Contains("of 2 products and convolutions"),
                       Error);
  config = {};
  config.ste = SteKind::tanh;
  CHECK_THROWS_WITH_AS(add_quantization(test::net(), config), doctest::Contains("not tanh"), Error);
  config = {};
  config.decay = 1;
  CHECK_THROWS_WITH_AS(add_quantization(test::net(), config), doctest::Contains("decay is 1"), Error);

  auto file = SafetensorsFile::open("tests/golden/quantization/codes.safetensors");
  const NamedTensors params = test::net_params(file, "");
  CHECK_THROWS_WITH_AS(q.initial(params), doctest::Contains("is fixed: it begins with a range that was observed"),
                       Error);
  Calibration ranges;
  ranges.activations = {{"conv.output", {0, 0}, {0, 0}, 4}};
  CHECK_THROWS_WITH_AS(q.initial(params, ranges),
                       doctest::Contains("the range is only 0: no scale stands for it, for nothing but zeros was seen"),
                       Error);
}

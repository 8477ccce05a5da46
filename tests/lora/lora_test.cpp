// Low-rank adapters on small graphs: every kind of product, quantized weights, merging, files.
#include <doctest/doctest.h>

#include <cmath>

#include "rlx/blocks.h"
#include "rlx/element.h"
#include "rlx/lora.h"
#include "rlx/ops.h"
#include "support/io_files.h"

using namespace rlx;

namespace {

Tensor waves(DType dtype, Shape shape, double phase) {
  Tensor t(dtype, std::move(shape));
  for (size_t i = 0; i < t.element_count(); ++i) store<double>(t, i, std::sin(1.7 * static_cast<double>(i) + phase));
  return t;
}

/// The same product in several forms: mean of the squares of y - t.
Graph net(const std::string& form) {
  Graph g(form);
  Value x = g.input("x", f32, {4, 32}), t = g.input("t", f32, {4, 64}), y;
  if (form == "linear") y = linear(x, g.param("m.net.weight", f32, {64, 32}), g.param("m.net.bias", f32, {64}));
  if (form == "matmul") y = matmul(x, g.param("m.net.weight", f32, {32, 64}));
  if (form == "transposed") y = matmul(x, transpose(g.param("m.net.weight", f32, {64, 32}), {1, 0}));
  if (form == "half") y = linear(x, convert(g.param("m.net.weight", f16, {64, 32}), f32));
  if (form == "blocks") y = linear(x, dequantize_blocks(g.param("m.net.weight", DType::q8_0, {64, 32})));
  if (form == "blocks_product") y = dequant_matmul(x, g.param("m.net.weight", DType::q8_0, {64, 32}));
  if (form == "codes")
    y = dequant_matmul(x, g.param("m.net.weight", i8, {32, 64}), {.scale = g.param("m.net.scale", f32, {1, 64})}, 0);
  g.output(mse(y, t), "loss");
  g.output(y, "y");
  return g;
}
NamedTensors params_of(const Graph& g) {
  NamedTensors params;
  for (Ref r : g.params()) {
    const Node& p = g.node(r);
    Shape shape = shape_of(p.types[0].dims);
    DType dtype = p.types[0].dtype;
    if (is_block(dtype)) params[p.name] = quantized(waves(f32, shape, 1), dtype);
    else if (dtype == i8) {
      Tensor t(i8, shape);
      for (size_t i = 0; i < t.element_count(); ++i) store<int64_t>(t, i, static_cast<int64_t>(i * 37 % 255) - 127);
      params[p.name] = t;
    } else if (p.name.ends_with("scale")) params[p.name] = full(f32, shape, 0.01);
    else params[p.name] = waves(dtype, shape, 1);
  }
  return params;
}
const std::vector<NamedTensor> kBatch = {{"x", waves(f32, {4, 32}, 0)}, {"t", waves(f32, {4, 64}, 5)}};

std::vector<Tensor> run(const Graph& g, const NamedTensors& params) {
  CompiledGraph compiled = Session().compile(g);
  compiled.set_params(params);
  return compiled.run(kBatch);
}
double distance(const Tensor& a, const Tensor& b) {
  double worst = 0;
  for (size_t i = 0; i < a.element_count(); ++i)
    worst = std::max(worst, std::abs(load_number(a, i) - load_number(b, i)));
  return worst;
}

}  // namespace

TEST_CASE("adapters mean nothing at first, learn beside frozen weights, and merge into them") {
  struct Case {
    std::string form;
    double merged;  // how far the merged graph may be off: the weight's rounding, times the 32 terms of a product
  };
  for (const Case& c : {Case{"linear", 1e-4}, Case{"matmul", 1e-4}, Case{"transposed", 1e-4}, Case{"half", 32 * 0.002},
                        Case{"blocks", 32 * 0.02}, Case{"blocks_product", 32 * 0.02}, Case{"codes", 0}}) {
    CAPTURE(c.form);
    Graph g = net(c.form);
    NamedTensors params = params_of(g);
    Lora lora = add_lora(g, {.targets = {"net"}, .rank = 4, .alpha = 8});
    REQUIRE(lora.modules.size() == 1);
    CHECK(lora.modules[0].name == "m.net");
    CHECK(lora.modules[0].in == 32);
    CHECK(lora.modules[0].out == 64);
    CHECK(lora.modules[0].in_by_out == (c.form == "matmul" || c.form == "codes"));
    NamedTensors all = params;
    all.merge(lora.initial(3));
    CHECK(distance(run(lora.graph, all)[1], run(g, params)[1]) == 0);

    TrainConfig config;
    config.learning_rate = 0.02, config.groups = lora.groups();
    TrainingSession session(lora.graph, all, config);
    double first = session.step(kBatch).loss, last = 0;
    for (int i = 0; i < 60; ++i) last = session.step(kBatch).loss;
    CHECK(last < 0.2 * first);
    NamedTensors after = session.params();
    for (const auto& param : params) CHECK(after.at(param.first) == param.second);
    if (c.merged == 0) {
      CHECK_THROWS_WITH_AS(merge_lora(lora, after), doctest::Contains("codes whose scales stand beside them"), Error);
      continue;
    }
    NamedTensors merged = merge_lora(lora, after);
    CHECK(merged.size() == params.size());
    double off = distance(run(g, merged)[1], session.evaluate(kBatch)[1]);
    CHECK_MESSAGE(off < c.merged, off);
    CHECK(distance(run(g, merged)[1], run(g, params)[1]) > 0.3);  // they had learned something
  }
}

TEST_CASE("several products of one weight share an adapter") {
  Graph g("twice");
  Value x = g.input("x", f32, {4, 32}), t = g.input("t", f32, {4, 64}), w = g.param("w", f32, {32, 32});
  Value out = g.param("out.weight", f32, {64, 32});
  g.output(mse(linear(linear(linear(x, w), w), out), t), "loss");
  Lora lora = add_lora(g, {.targets = {"w"}, .rank = 2});
  CHECK(lora.modules.size() == 1);
  CHECK(lora.graph.params().size() == 4);
  CHECK_THROWS_WITH_AS(add_lora(g, {.targets = {"v"}}), doctest::Contains("there are 'w', 'w', 'out'"), Error);
  CHECK_THROWS_WITH_AS(add_lora(g, {}), doctest::Contains("no targets are given"), Error);
  CHECK_THROWS_WITH_AS(add_lora(g, {.targets = {"w"}, .rank = 0}), doctest::Contains("a rank from 1 to 65536"), Error);
}

TEST_CASE("a weight that is used as it is and transposed has no adapter that serves both") {
  Graph g("tied");
  Value x = g.input("x", f32, {4, 32}), w = g.param("w", f32, {32, 32});
  g.output(reduce_sum(square(matmul(matmul(x, w), transpose(w, {1, 0}))), {0, 1}), "loss");
  CHECK_THROWS_WITH_AS(add_lora(g, {.targets = {"w"}}), doctest::Contains("'w' is used as it is and transposed"),
                       Error);
}

TEST_CASE("adapters and weights that are not the graph's are not merged") {
  Graph g = net("linear");
  Lora lora = add_lora(g, {.targets = {"net"}, .rank = 4});
  NamedTensors all = params_of(g);
  all.merge(lora.initial(1));
  for (auto [name, shape] : {std::pair<const char*, Shape>{"m.net.lora_B.weight", {64, 2}},
                             {"m.net.lora_A.weight", {4, 33}},
                             {"m.net.weight", {8, 8}}}) {
    NamedTensors wrong = all;
    wrong[name] = Tensor(f32, shape);
    CHECK_THROWS_WITH_AS(merge_lora(lora, wrong), doctest::Contains(name), Error);
    CHECK_THROWS_WITH_AS(merge_lora(lora, wrong), doctest::Contains("and its value"), Error);
  }
}

TEST_CASE("a session over weights in blocks is saved and goes on") {
  Graph g = net("blocks");
  NamedTensors all = params_of(g);
  Lora lora = add_lora(g, {.targets = {"net"}, .rank = 2});
  all.merge(lora.initial(3));
  TrainConfig config;
  config.groups = lora.groups();
  TrainingSession session(lora.graph, all, config), other(lora.graph, all, config);
  test::TemporaryFolder folder;
  session.step(kBatch);
  session.save(folder / "c.safetensors");
  double next = session.step(kBatch).loss;
  other.load(folder / "c.safetensors");
  CHECK(other.step(kBatch).loss == next);
  CHECK(other.params() == session.params());
}

TEST_CASE("adapters have PEFT's names in files, and settings of PEFT's that ours have not are refused") {
  test::TemporaryFolder folder;
  Lora lora = add_lora(net("linear"), {.targets = {"net"}, .rank = 4, .alpha = 8});
  NamedTensors values = lora.initial(1);
  store<double>(values["m.net.lora_B.weight"], 5, 0.5);
  save_lora(folder / "adapter", lora, values);
  auto file = SafetensorsFile::open(folder / "adapter/adapter_model.safetensors");
  CHECK(file.names().size() == 2);
  CHECK(file.tensor("base_model.model.m.net.lora_A.weight").shape() == Shape{4, 32});
  CHECK(test::file_content(folder / "adapter/adapter_config.json").find("\"lora_alpha\": 8.0") != std::string::npos);
  NamedTensors back = load_lora(folder / "adapter", lora);
  CHECK(back == values);

  const std::string config = test::file_content(folder / "adapter/adapter_config.json");
  for (const char* more : {"\"use_rslora\": true", "\"use_dora\": true", "\"alpha_pattern\": {\"net\": 3}"}) {
    test::put_file(folder / "adapter/adapter_config.json", text_of("{", more, ",", config.substr(1)));
    CHECK_THROWS_WITH_AS(load_lora(folder / "adapter", lora), doctest::Contains("which these adapters have not"),
                         Error);
  }
  test::put_file(folder / "adapter/adapter_config.json", config);

  Lora other = add_lora(net("linear"), {.targets = {"net"}, .rank = 2, .alpha = 8});
  CHECK_THROWS_WITH_AS(load_lora(folder / "adapter", other), doctest::Contains("'r' = 4, the graph with 2"), Error);
  test::put_file(folder / "adapter/adapter_config.json", "{}");
  CHECK_THROWS_WITH_AS(load_lora(folder / "adapter", lora), doctest::Contains("no configuration of LoRA"), Error);
  CHECK_THROWS_WITH_AS(load_lora(folder / "none", lora), doctest::Contains("adapter_config.json"), Error);
}

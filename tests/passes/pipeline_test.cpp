// The pass list as a whole: what becomes of a model, and that each pass can be left out.
#include <doctest/doctest.h>

#include "backends/registry.h"
#include "compile/pipeline.h"
#include "ir/rewrite.h"
#include "ir/text.h"
#include "reference/interpreter.h"
#include "rlx/ops.h"
#include "support/compare.h"

namespace rlx {
namespace {

/// Takes every op: what the passes leave is what they made, not what a device lacks.
Target takes_all() {
  Target target{"takes_all", [](const Question&) { return std::optional<std::string>(); }};
  target.fuses_elementwise = [](const Node& node) { return node.op->elementwise; };
  return target;
}

/// A post-norm encoder layer as an importer writes it: everything spelled out.
Graph encoder_layer() {
  Graph g("layer");
  Dim b = Dim::symbol("B"), s = Dim::symbol("S");
  Value x = g.input("x", f32, {b, s, 8}), mask = g.input("mask", f32, {b, s});
  auto dense = [&](Value v, const std::string& name, int64_t in, int64_t out) {
    Value w = g.param(name + ".weight", f32, {out, in}), bias = g.param(name + ".bias", f32, {out});
    return matmul(v, transpose(w, {1, 0})) + bias;
  };
  auto norm = [&](Value v, const std::string& name) {
    return layer_norm(v, g.param(name + ".gamma", f32, {8}), g.param(name + ".beta", f32, {8}));
  };
  auto heads = [&](Value v) { return transpose(reshape(v, {b, s, 2, 4}), {0, 2, 1, 3}); };
  Value q = heads(dense(x, "q", 8, 8)), k = heads(dense(x, "k", 8, 8)), v = heads(dense(x, "v", 8, 8));
  Value scores = matmul(q, transpose(k, {0, 1, 3, 2})) / sqrt(scalar(g, 4, f32));
  scores = scores + (1.0 - reshape(mask, {b, 1, 1, s})) * -10000.0;
  Value mixed = reshape(transpose(matmul(softmax(scores), v), {0, 2, 1, 3}), {b, s, 8});
  Value h = norm(dense(mixed, "out", 8, 8) + x, "norm1");
  Value up = gelu(dense(h, "up", 8, 16));
  Value y = norm(h + dense(up, "down", 16, 8), "norm2");
  Value weights = broadcast_in_dim(mask, {b, s, 8}, {0, 1});
  g.output(reduce_sum(tanh(y * weights) - 0.5, {1}), "pooled");
  return g;
}

struct Data {
  std::vector<Tensor> inputs;
  std::map<std::string, Tensor> params;
  explicit Data(const Graph& g) {
    auto drawn = [&](Ref r) {
      Shape shape;
      for (const Dim& d : g.type(r).dims) shape.push_back(d.bound({{"B", 2}, {"S", 3}}).value());
      return random_tensor(g.type(r).dtype, shape, 7 + size_t(r.node), -1, 1);
    };
    for (Ref r : g.inputs()) inputs.push_back(drawn(r));
    for (Ref r : g.params()) params[g.node(r).name] = drawn(r);
  }
};

std::map<std::string_view, int> counts(const Graph& g) {
  std::map<std::string_view, int> all;
  for (const Node& node : g.nodes()) ++all[node.op->name];
  return all;
}

TEST_CASE("an encoder layer that is spelled out becomes products, an attention, norms and a region") {
  auto n = counts(run_pipeline(encoder_layer(), takes_all(), {}).graph);
  CHECK(n["fused_matmul"] == 6);  // q, k and v, out with its residual, up with its gelu, down with its residual
  CHECK(n["attention"] == 1);
  CHECK(n["layer_norm"] == 2);
  CHECK(n["elementwise_region"] == 2);  // the mask, and the end
  CHECK(n["reduce"] == 1);
  for (std::string_view gone : {"matmul", "linear", "transpose", "softmax", "gelu", "add", "mul", "div", "sqrt"}) {
    CAPTURE(gone);
    CHECK(n[gone] == 0);
  }
}

TEST_CASE("leaving out a pass, or all of them, changes no number") {
  Graph g = encoder_layer();
  Data data(g);
  auto wanted = interpret(g, data.inputs, data.params);
  auto names = pass_names();
  std::vector<std::set<std::string>> skips = {{}, {names.begin(), names.end()}};
  for (const std::string& name : names) skips.push_back({name});
  for (const Target& target : {takes_all(), backend_of(Device::cpu())->target()})
    for (const auto& skip : skips) {
      CompileOptions options;
      options.skip_passes = skip;
      CAPTURE(target.name);
      std::string left_out;
      for (const std::string& name : skip) left_out += name + " ";
      CAPTURE(left_out);
      Pipelined made = run_pipeline(g, target, options);
      CHECK(difference(interpret(made.graph, data.inputs, data.params), wanted, 1e-5) == "");
    }
}

TEST_CASE("branches are compiled like the graph around them, combiners are left alone") {
  Type t{f32, {4}}, scalar_type{f32, {}};
  auto chain = [](Values v) { return tanh(neg(neg(exp(v[0])))); };
  Graph combiner = trace(std::vector{scalar_type, scalar_type}, [](Values v) { return neg(neg(v[0] + v[1])); });
  Graph g;
  Value x = g.input("x", t), c = g.input("c", boolean, {}), zero = scalar(g, 0, f32);
  g.output(if_else(c, {x}, trace(std::vector{t}, chain), trace(std::vector{t}, [](Values v) { return v[0]; }))[0]);
  g.output(reduce_custom({x}, {zero}, {0}, combiner)[0]);
  Graph made = run_pipeline(g, takes_all(), {}).graph;
  for (const Node& node : made.nodes()) {
    if (node.op == &op::if_else) CHECK(counts(*node.attrs.as<IfAttrs>().then_branch)["elementwise_region"] == 1);
    if (node.op == &op::reduce) CHECK(*node.attrs.as<ReduceAttrs>().body == combiner);
  }
}

TEST_CASE("the common form has no regions, nor has a target that names no ops for them") {
  CompileOptions common;
  common.kernel_dispatch = KernelDispatch::common;
  CHECK(counts(run_pipeline(encoder_layer(), takes_all(), common).graph)["elementwise_region"] == 0);
  Target without = takes_all();
  without.fuses_elementwise = {};
  CHECK(counts(run_pipeline(encoder_layer(), without, {}).graph)["elementwise_region"] == 0);
}

TEST_CASE(
    "a target's own passes run before the shared ones and between its stages, and each stage makes its graph legal") {
  // The first stage takes everything and turns sinh, which only its own pass knows, into exp; the next one refuses
  // tanh.
  const auto swapped = [](const OpDef* from, Value (*to)(Value)) {
    return [=](const Graph& g) {
      return rewritten(g, [&](const Site& site) -> std::optional<std::vector<Value>> {
        if (site.node.op != from) return std::nullopt;
        return std::vector{to(site.operands[0])};
      });
    };
  };
  Target target = takes_all();
  target.fuses_elementwise = {};
  target.first = {{"sinh_to_exp", swapped(&op::sinh, exp)}};
  Target last{"no_tanh", [](const Question& q) -> std::optional<std::string> {
                if (q.node.op == &op::tanh) return "tanh is what this stage refuses";
                return std::nullopt;
              }};
  target.next = std::make_shared<const NextStage>(
      NextStage{[](const Graph& g) { return counts(g)["exp"] > 0; }, {{"exp_to_tanh", swapped(&op::exp, tanh)}}, last});
  const auto graph_of = [](Value (*f)(Value)) {
    Graph g;
    g.output(f(g.input("x", f32, {4})));
    return g;
  };
  CHECK(run_pipeline(graph_of(tanh), target, {}).report.count(Verdict::missing) == 0);  // no next stage for it
  const Pipelined two = run_pipeline(graph_of(sinh), target, {});
  CHECK(counts(two.graph)["tanh"] == 1);
  REQUIRE(two.report.count(Verdict::missing) == 1);
  CHECK(two.report.table().find("tanh is what this stage refuses") != std::string::npos);
  CompileOptions options;
  options.skip_passes = {"exp_to_tanh"};
  CHECK_THROWS_WITH_AS(run_pipeline(graph_of(sinh), target, options),
                       doctest::Contains("cannot be skipped: takes_all takes no graph without it"), Error);
}

TEST_CASE("a pass that there is not cannot be left out") {
  CompileOptions options;
  options.skip_passes = {"fuse_everything"};
  CHECK_THROWS_WITH_AS(
      run_pipeline(Graph(), takes_all(), options),
      doctest::Contains(
          "there is no pass 'fuse_everything' to skip; there are prune, merge_equal_nodes, trim_control_flow,"),
      Error);
}

}  // namespace
}  // namespace rlx

// Operations that have constants only for their weights: taken where weights are params or constants, and what is made
// of such; made of others where an input computes them. And the samples of every op with all but the first operand
// given as constants, for what programs do otherwise then.
#include "backends/coreml/coreml.h"
#include "compile/pipeline.h"
#include "coreml/packages.h"
#include "coreml/samples.h"
#include "rlx/coreml.h"
#include "rlx/ops.h"
#include "rlx/rlx.h"
#include "support/sanitized.h"

using namespace rlx;
using namespace rlx::test;

namespace {

/// The verdict on the first node of that op, and why.
std::pair<Verdict, std::string> verdict_on(const DispatchReport& report, std::string_view op) {
  for (const DispatchLine& line : report.lines)
    if (line.op == op) return {line.verdict, line.reason};
  return {Verdict::missing, "no such op"};
}

size_t count_of(const std::string& package, std::string_view type) {
  size_t count = 0;
  const MlPackage opened = MlPackage::open(package);
  for (const auto& [name, function] : opened.model().program.functions)
    for (const mil::Operation& op : function.body().operations) count += op.type == type;
  return count;
}

/// Two layers of lstm in both directions, weights as PyTorch keeps them, as large as are folded for this alone.
Graph two_layers(const Dim& batch, const Dim& steps, int64_t hidden) {
  Graph g("lstm");
  Value x = g.input("x", f32, {batch, steps, 8});
  std::vector<RecurrentWeights> weights;
  for (int64_t layer = 0; layer < 2; ++layer)
    for (int64_t direction = 0; direction < 2; ++direction) {
      auto param = [&](const char* name, Dims dims) { return g.param(text_of(name, layer, direction), f32, dims); };
      weights.push_back({param("w_ih", {4 * hidden, layer ? 2 * hidden : 8}), param("w_hh", {4 * hidden, hidden}),
                         param("b_ih", {4 * hidden}), param("b_hh", {4 * hidden})});
    }
  auto out = lstm(x, weights, true);
  g.output(out[0], "y"), g.output(out[1], "h"), g.output(out[2], "c");
  return g;
}
NamedTensors values_for(const Graph& g, double scale) {
  NamedTensors all;
  for (Ref r : g.params()) all.emplace(g.node(r).name, numbers(shape_of(g.type(r).dims), -scale, scale));
  return all;
}
std::vector<Tensor> reference(const Graph& g, const NamedTensors& params, Tensors inputs) {
  Graph bound = with_leaves(g, [&](Graph& to, const Node& leaf) {
    return leaf.op == &op::input ? to.input(leaf.name, leaf.types[0]) : to.constant(params.at(leaf.name));
  });
  return interpret(bound, inputs);
}

}  // namespace

TEST_CASE(
    "recurrent layers, batch norms and transposed convolutions are single operations where weights are constants") {
  struct Row {
    const OpDef* op;
    std::string_view operation;
    size_t samples;  // that the operation takes
  };
  TemporaryFolder temporary;
  for (const Row& row : {Row{&op::lstm, "lstm", 5}, Row{&op::gru, "gru", 5}, Row{&op::rnn, "rnn", 4},
                         Row{&op::batch_norm_inference, "batch_norm", 1}, Row{&op::instance_norm, "instance_norm", 3},
                         Row{&op::conv_transpose, "conv_transpose", 4}})
    for (DType dtype : {f32, f16}) {
      size_t taken = 0;
      for (size_t s = 0; s < row.op->samples().size(); ++s) {
        CAPTURE(row.op->name);
        CAPTURE(dtype);
        CAPTURE(s);
        laws::Case c = laws::case_of(row.op->samples()[s]);
        for (Type& t : c.types) t.dtype = dtype;
        Graph g = c.graph(*row.op);
        if (!has_elements(g)) continue;
        std::vector<Tensor> inputs = c.inputs();
        size_t weights = row.op == &op::conv_transpose               ? 1
                         : row.op == &op::instance_norm              ? 2
                         : row.op == &op::lstm || row.op == &op::rnn ? 3
                                                                     : 4;
        g = with_constants(g, inputs, [&](size_t i) { return i >= 1 && i <= weights; });
        Pipelined legal = run_pipeline(g, coreml::target({}), {});
        REQUIRE(legal.report.count(Verdict::missing) == 0);
        bool native = verdict_on(legal.report, row.op->name).first == Verdict::native;
        taken += native;
        coreml::Translated made = coreml::translate(legal.graph);
        // Programs of f16 are of iOS 16, and their lstm and rnn of iOS 17.
        bool recurs = row.operation == "lstm" || row.operation == "rnn";
        CHECK(made.opset == (row.op == &op::gru ? 8 : dtype != f16 ? 5 : recurs ? 7 : 6));
        std::string why = judged(folder_for_cases(temporary) / text_of("constant.", row.op->name, ".", dtype, ".", s),
                                 row.op->name, made, g, inputs);
        CHECK_MESSAGE(why.empty(), why);
      }
      CHECK(taken == row.samples);
    }
}

TEST_CASE("weights that are made of params are constants of the package, however large") {
  Packages packages;
  Graph g = two_layers(2, 3, 96);
  NamedTensors params = values_for(g, 0.2);
  std::string path = packages / "lstm_of_params";
  PackageReport report = write_coreml(path, g, params);
  CHECK(verdict_on(report.dispatch, "lstm").first == Verdict::native);
  CHECK(report.minimum_ios == 15);
  CHECK(count_of(path, "lstm") == 4);
  CHECK(count_of(path, "while_loop") == 0);
  uint64_t elements = 0;
  for (const auto& [name, t] : params) elements += t.element_count();
  elements -= 4 * 4 * 96;  // of two biases the operation has one
  CHECK(report.weight_bytes < elements * 4 + 8192);
  Tensor x = numbers({2, 3, 8});
  auto wanted = reference(g, params, std::array{x});
  auto got = CoremlModel::load(path, {.threads = 1}).predict({{"x", x}});
  for (size_t o = 0; o < 3; ++o) CHECK(distance(got[o].second, wanted[o]) < 1e-5);
}

TEST_CASE("open sizes are those of single operations too") {
  Packages packages;
  Dim b = Dim::symbol("B"), s = Dim::symbol("S");
  Graph g = two_layers(b, s, 5);
  Value x = g.input("image", f32, {b, 4, s, s});
  Value w = g.constant(numbers({4, 3, 3, 3})), ones = g.constant(numbers({3}, 0.5, 1));
  Value y = conv_transpose(x, w, {{2, 2}, {1, 0}, {1, 1}});
  g.output(batch_norm_inference(y, ones, ones, ones, ones, 1e-3, 1), "z");
  NamedTensors params = values_for(g, 0.5);
  std::string path = packages / "shapes_single_operations";
  PackageReport report = write_coreml(path, g, params, {.shapes = {{"B", {1, 8}}, {"S", {1, 64}}}});
  for (const char* op : {"lstm", "conv_transpose", "batch_norm_inference"})
    CHECK(verdict_on(report.dispatch, op).first == Verdict::native);
  for (int64_t size : {1, 2, 7}) {
    std::vector<Tensor> in{numbers({size, size + 1, 8}), numbers({size, 4, size + 1, size + 1})};
    auto wanted = reference(substitute(g, {{"B", size}, {"S", size + 1}}), params, in);
    auto got = CoremlModel::load(path, {.threads = 1}).predict({{"x", in[0]}, {"image", in[1]}});
    for (size_t o = 0; o < wanted.size(); ++o) {
      CHECK(got[o].second.shape() == wanted[o].shape());
      CHECK(distance(got[o].second, wanted[o]) < 1e-5);
    }
  }
}

TEST_CASE("weights that an input computes are read by what the op is made of, and the report says so") {
  Graph g;
  Value x = g.input("x", f32, {1, 3, 4}), w = g.input("w", f32, {3, 2, 3});
  g.output(conv_transpose(x, w * 2.0), "y");
  Packages packages;
  std::string path = packages / "computed_weights";
  PackageReport report = write_coreml(path, g);
  auto verdict = verdict_on(report.dispatch, "conv_transpose");
  CHECK(verdict.first == Verdict::composed);
  CHECK(verdict.second == "the operation has constants only for w, and here it is computed from an input");
  CHECK(count_of(path, "conv_transpose") == 0);
  std::vector<Tensor> in{numbers({1, 3, 4}), numbers({3, 2, 3})};
  auto got = run_one(path, {{"x", in[0]}, {"w", in[1]}});
  CHECK(distance(got, interpret(g, in)[0]) < 1e-5);
}

TEST_CASE("a graph on Device::coreml has its params' layers as single operations, and params bound anew count") {
  Graph g = two_layers(2, 3, 4);
  CompiledGraph compiled = Session(Device::coreml()).compile(g);
  CHECK(verdict_on(compiled.report(), "lstm").first == Verdict::native);
  Tensor x = numbers({2, 3, 8});
  for (double scale : {0.3, 1.5}) {
    NamedTensors params = values_for(g, scale);
    for (const auto& [name, t] : params) compiled.set_param(name, t);
    auto got = compiled.run({{"x", x}});
    auto wanted = reference(g, params, std::array{x});
    for (size_t o = 0; o < wanted.size(); ++o) CHECK(distance(got[o], wanted[o]) < 1e-5);
  }
}

TEST_CASE("every op whose operands behind the first are constants gives its numbers") {
  TemporaryFolder temporary;
  coreml::Options options{.narrow = true};
  size_t samples = 0;
  for (size_t number = 0; const OpDef* op : all_ops()) {
    if (left_out(*op) || (test::sanitized() && ++number % 3 != 0)) continue;  // every third, one sample each
    size_t of_op = 0;
    for (size_t s = 0; s < op->samples().size() && !(test::sanitized() && of_op > 0); ++s) {
      laws::Case c = in_f32(op->samples()[s]);
      if (c.types.size() < 2) continue;
      std::optional<Graph> g;
      try {
        g = c.graph(*op);
      } catch (const Error&) {
        continue;  // attributes of f64
      }
      if (!has_elements(*g)) continue;
      std::vector<Tensor> inputs = c.inputs();
      g = with_constants(*g, inputs, [&](size_t i) { return i > 0 || is_block(c.types[i].dtype); });
      if (inputs.empty()) continue;
      Pipelined legal = run_pipeline(*g, coreml::target(options), {});
      if (legal.report.count(Verdict::missing)) continue;  // lowering_test.cpp lists these
      coreml::Translated made;
      try {
        made = coreml::translate(legal.graph, options);
      } catch (const Error& error) {
        if (error.code() != ErrorCode::unsupported) FAIL_CHECK(op->name, " sample ", s, ": ", error.what());
        continue;
      }
      ++samples, ++of_op;
      std::string why =
          judged(folder_for_cases(temporary) / text_of("bound.", op->name, ".", s), op->name, made, *g, inputs);
      CHECK_MESSAGE(why.empty(), op->name, " sample ", s, ", with constants: ", why);
    }
  }
  // A sample that is no longer written would go without a word.
  if (!std::getenv("RLX_COREML_OPS") && !test::sanitized()) CHECK(samples == 890);
  MESSAGE(samples, " samples with constants behind the first operand");
}

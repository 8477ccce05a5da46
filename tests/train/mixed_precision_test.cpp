// Automatic mixed precision: what runs in which type, and steps beside those of PyTorch's autocast and gradient scaler
// (tests/golden/generate/mixed_precision.py).
#include <doctest/doctest.h>

#include <cmath>

#include "passes/mixed_precision.h"
#include "support/io_files.h"
#include "train/problems.h"

using namespace rlx;
using test::LinearRegression;
using test::numbers;

namespace {

Graph net(double factor) {
  Graph g("net");
  Value x = g.input("x", f32, {16, 6}), labels = g.input("labels", i64, {16});
  Value w1 = g.param("w1", f32, {6, 12}), w2 = g.param("w2", f32, {12, 4});
  Value logits = matmul(relu(matmul(x, w1)), w2);
  g.output(mean(softmax_cross_entropy_with_logits(logits, labels), {0}) * factor, "loss");
  return g;
}
NamedTensors weights() { return {{"w1", numbers({6, 12}, 5, 3, 19)}, {"w2", numbers({12, 4}, 3, 2, 17)}}; }
std::vector<NamedTensor> batch() {
  Tensor labels(i64, {16});
  for (int64_t i = 0; i < 16; ++i) store<int64_t>(labels, static_cast<size_t>(i), i * 3 % 4);
  return {{"x", numbers({16, 6}, 7, 1, 23)}, {"labels", labels}};
}

DType dtype_of_op(const Graph& g, std::string_view op) {
  for (const Node& node : g.nodes())
    if (node.op->name == op) return node.types[0].dtype;
  FAIL("no such op");
  return f64;
}

}  // namespace

TEST_CASE("steps in f16 and bf16 follow PyTorch's, and so does the scale of the loss") {
  auto golden = SafetensorsFile::open("tests/golden/mixed_precision/steps.safetensors");
  struct Case {
    std::string name;
    DType compute;
    double scale, factor;
  };
  for (const Case& c : {Case{"f16", f16, 1024, 1}, Case{"f16_overflowing", f16, 0x1p22, 60}, Case{"bf16", bf16, 1, 1}})
    for (bool fused : {true, false}) {
      Tensor wanted = golden.tensor(c.name);
      size_t steps = static_cast<size_t>(wanted.shape()[1]), skipped = 0;
      TrainConfig config;
      config.optimizer = Optimizer::sgd(), config.learning_rate = 0.5 / c.factor, config.fused = fused;
      config.precision = {.compute = c.compute, .loss_scale = c.scale, .growth_interval = 4};
      TrainingSession session(net(c.factor), weights(), config);
      double worst = 0;
      for (size_t i = 0; i < steps; ++i) {
        StepResult r = session.step(batch());
        worst = std::max(worst, std::abs(r.loss - load_number(wanted, i)) / c.factor);
        CHECK_MESSAGE(r.loss_scale == load_number(wanted, steps + i), c.name, " at step ", i);
        skipped += r.skipped;
        CHECK(r.skipped == !std::isfinite(r.grad_norm));
      }
      CHECK_MESSAGE(worst < 2e-3, c.name, " is off by ", worst);
      CHECK(session.steps() == static_cast<int64_t>(steps - skipped));
      CHECK((skipped > 0) == (c.factor > 1));
    }
}

TEST_CASE("a linear regression learns in f16") {
  LinearRegression problem;
  TrainConfig config;
  config.optimizer = Optimizer::sgd(), config.learning_rate = 0.2;
  config.precision = PrecisionPolicy::auto_mixed();
  TrainingSession session(LinearRegression::loss(), problem.initial(0), config);
  double first = 0, last = 0;
  int64_t taken = 0;
  for (int i = 0; i < 61; ++i) {
    StepResult r = session.step(problem.batch());
    REQUIRE(std::isfinite(r.loss));
    taken += !r.skipped;
    (i == 0 ? first : last) = r.loss;
  }
  CHECK(last < 0.1 * first);
  CHECK(taken == session.steps());
  CHECK(session.param("w").dtype() == f32);
}

TEST_CASE("products run in the low type, sums and losses in f32, the rest in what arrives") {
  Graph g("kinds");
  Value x = g.input("x", f32, {4, 8}), w = g.param("w", f32, {8, 8}), b = g.param("b", f32, {8});
  Value hidden = tanh(matmul(x, w) * 3.0);
  Value normed = layer_norm(hidden + b);
  g.output(reduce_sum(exp(matmul(normed, transpose(w, {1, 0}))), {0, 1}), "loss");
  Graph mixed = mixed_precision(g, f16);
  CHECK(dtype_of_op(mixed, "matmul") == f16);
  CHECK(dtype_of_op(mixed, "tanh") == f16);  // behind a product with a number written in the graph
  CHECK(dtype_of_op(mixed, "mul") == f16);
  CHECK(dtype_of_op(mixed, "add") == f32);  // with a param, which is f32
  CHECK(dtype_of_op(mixed, "layer_norm") == f32);
  CHECK(dtype_of_op(mixed, "exp") == f32);
  CHECK(mixed.output_types() == g.output_types());
  CHECK(dtype_of_op(mixed_precision(g, bf16), "matmul") == bf16);
  CHECK(mixed_precision(g, f32) == g);
  // A number that f16 does not hold keeps the op in f32.
  Graph large("large");
  large.output(reduce_sum(matmul(large.input("x", f32, {2, 2}), large.param("w", f32, {2, 2})) * 1e6, {0, 1}), "loss");
  CHECK(dtype_of_op(mixed_precision(large, f16), "mul") == f32);
  CHECK(dtype_of_op(mixed_precision(large, bf16), "mul") == bf16);
  CHECK(precision_of(op::softmax) == OpPrecision::rows);
  CHECK_THROWS_WITH_AS(mixed_precision(g, f64), doctest::Contains("computes in f16 or bf16, got f64"), Error);
}

TEST_CASE("bodies of loops are computed in the low type too") {
  Graph body =
      trace(std::vector<Type>{{f32, {4, 4}}, {f32, {4, 4}}}, [](Values v) { return tanh(matmul(v[0], v[1])); });
  Graph g("loop");
  Value x = g.input("x", f32, {4, 4}), w = g.param("w", f32, {4, 4});
  g.output(reduce_sum(remat({x, w}, body)[0], {0, 1}), "loss");
  Graph mixed = mixed_precision(g, bf16);
  for (const Node& node : mixed.nodes())
    if (node.op == &op::remat) CHECK(dtype_of_op(*node.attrs.as<CallAttrs>().body, "matmul") == bf16);
  TrainConfig config;
  config.precision = PrecisionPolicy::auto_mixed(bf16);
  TrainingSession session(g, {{"w", numbers({4, 4}, 3, 1, 7)}}, config);
  double first = session.step({{"x", numbers({4, 4}, 5, 2, 11)}}).loss;
  CHECK(session.step({{"x", numbers({4, 4}, 5, 2, 11)}}).loss < first);
}

TEST_CASE("the scale of the loss goes into checkpoints") {
  test::TemporaryFolder folder;
  const std::string path = folder / "mixed.safetensors";
  TrainConfig config;
  config.optimizer = Optimizer::adam(), config.learning_rate = 1e-3;
  config.precision = {.compute = f16, .loss_scale = 0x1p22, .growth_interval = 3};
  TrainingSession whole(net(60), weights(), config);
  for (int i = 0; i < 12; ++i) whole.step(batch());
  whole.save(path);
  TrainingSession resumed(net(60), weights(), config);
  resumed.load(path);
  CHECK(resumed.loss_scale() == whole.loss_scale());
  CHECK(resumed.loss_scale() < 0x1p22);
  for (int i = 0; i < 12; ++i) {
    StepResult a = whole.step(batch()), b = resumed.step(batch());
    CHECK(a.loss == b.loss);
    CHECK(a.loss_scale == b.loss_scale);
  }
}

TEST_CASE("gradients that overflow at any scale are an error, and so are those that are accumulated in f32") {
  // The gradient of |w|^(1/2) at 0 is infinite.
  Graph g("root");
  g.output(reduce_sum(sqrt(g.param("w", f32, {2}) * g.input("x", f32, {2})), {0}), "loss");
  NamedTensors zero = {{"w", Tensor(f32, {2})}};
  std::vector<NamedTensor> ones = {{"x", Tensor::of<float>({2}, {1, 1})}};
  TrainConfig config;
  config.precision = {.compute = f16, .loss_scale = 0x1p-38};
  TrainingSession mixed(g, zero, config);
  CHECK(mixed.step(ones).skipped);
  CHECK(mixed.step(ones).skipped);
  CHECK_THROWS_WITH_AS(mixed.step(ones),
                       doctest::Contains("the gradients' norm is inf at step 1; the first number that"), Error);
  TrainingSession full(g, zero, TrainConfig());
  CHECK_THROWS_WITH_AS(full.step(ones), doctest::Contains("Nothing was updated"), Error);
  CHECK(load_number(full.param("w"), 0) == 0);
  CHECK(full.steps() == 0);
}

TEST_CASE("a session goes over to another precision, and the scale of its loss begins anew") {
  LinearRegression problem;
  TrainConfig config;
  config.optimizer = Optimizer::sgd(), config.learning_rate = 0.1;
  TrainingSession session(LinearRegression::loss(), problem.initial(0), config);
  double first = session.step(problem.batch()).loss, last = 0;
  CHECK(&session.with_precision_policy(PrecisionPolicy::auto_mixed()) == &session);
  CHECK(session.loss_scale() == 65536);
  for (int i = 0; i < 40; ++i) last = session.step(problem.batch()).loss;
  CHECK(last < 0.1 * first);
  CHECK(session.loss_scale() < 65536);  // some steps overflowed
  session.accumulate(problem.batch());
  CHECK_THROWS_WITH_AS(session.with_precision_policy({}), doctest::Contains("the gradients of 1 batches wait"), Error);
  session.step_accumulated();
  session.with_precision_policy({});
  CHECK(session.loss_scale() == 1);
  int64_t before = session.steps();
  for (int i = 0; i < 40; ++i) last = session.step(problem.batch()).loss;
  CHECK(session.steps() == before + 40);
  CHECK(last < 1e-4 * first);
  CHECK_THROWS_WITH_AS(session.with_precision_policy({.compute = f64}),
                       doctest::Contains("computes in f32, f16 or bf16, got f64"), Error);
  CHECK(session.step(problem.batch()).loss < 1e-4 * first);
}

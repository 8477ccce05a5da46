// Sophia beside the published algorithm, with both estimates of the Hessian's diagonal:
// tests/golden/generate/sophia.py.
#include <doctest/doctest.h>

#include <cmath>

#include "support/io_files.h"
#include "train/problems.h"

using namespace rlx;
using test::LinearRegression;

namespace {

TrainConfig config_of(HessianEstimate::Kind kind) {
  HessianEstimate estimate{.kind = kind, .every = 5, .beta2 = 0.95, .algorithm = RngAlgorithm::threefry};
  if (kind == HessianEstimate::Kind::gauss_newton_bartlett) estimate.logits = "logits";
  TrainConfig config;
  config.optimizer = Optimizer::sophia({.beta1 = 0.9, .gamma = 0.05, .epsilon = 1e-15, .weight_decay = 0.01}, estimate);
  config.learning_rate = 0.05, config.seed = 7;
  return config;
}
Graph softmax_regression() {
  Graph g("softmax");
  Value x = g.input("x", f32, {8, 3}), labels = g.input("labels", i32, {8}), w = g.param("w", f32, {3, 3});
  Value logits = matmul(x, w);
  g.output(mean(softmax_cross_entropy_with_logits(logits, labels), {0}), "loss");
  g.output(logits, "logits");
  return g;
}
NamedTensors start() {
  Tensor w(f32, {3, 3});
  for (size_t i = 0; i < 9; ++i) store<double>(w, i, 0.1);
  return {{"w", w}};
}
/// The largest distance from the path of the golden script, over all steps.
double distance(TrainingSession& session, const std::vector<NamedTensor>& batch, const Tensor& path) {
  double worst = 0;
  size_t width = static_cast<size_t>(path.shape()[1]);
  for (size_t step = 0; step < static_cast<size_t>(path.shape()[0]); ++step) {
    session.step(batch);
    Tensor w = session.param("w");
    for (size_t i = 0; i < width; ++i)
      worst = std::max(worst, std::abs(load_number(w, i) - load_number(path, step * width + i)));
  }
  return worst;
}

}  // namespace

TEST_CASE("Sophia steps as published, by Hutchinson's estimate and by Gauss, Newton and Bartlett's") {
  auto golden = SafetensorsFile::open("tests/golden/sophia/trajectories.safetensors");
  LinearRegression problem;
  Tensor labels(i32, {8});
  for (int64_t i = 0; i < 8; ++i) store<int64_t>(labels, static_cast<size_t>(i), i % 3);
  for (bool fused : {true, false}) {
    TrainConfig config = config_of(HessianEstimate::Kind::hutchinson);
    config.fused = fused;
    TrainingSession one(LinearRegression::loss(), problem.initial(0.1), config);
    CHECK(distance(one, problem.batch(), golden.tensor("hutchinson")) < 1e-5);
    config = config_of(HessianEstimate::Kind::gauss_newton_bartlett);
    config.fused = fused, config.learning_rate = 0.02;
    TrainingSession two(softmax_regression(), start(), config);
    CHECK(distance(two, {{"x", problem.x}, {"labels", labels}}, golden.tensor("gauss_newton_bartlett")) < 1e-5);
  }
}

TEST_CASE("Sophia's estimates go on from a checkpoint, and lower the loss") {
  LinearRegression problem;
  test::TemporaryFolder folder;
  const std::string path = folder / "sophia.safetensors";
  TrainConfig config = config_of(HessianEstimate::Kind::hutchinson);
  TrainingSession whole(LinearRegression::loss(), problem.initial(0), config);
  double first = whole.step(problem.batch()).loss;
  for (int i = 0; i < 7; ++i) whole.step(problem.batch());
  whole.save(path);
  TrainingSession resumed(LinearRegression::loss(), problem.initial(0), config);
  resumed.load(path);
  double last = first;
  for (int i = 0; i < 43; ++i) {
    last = whole.step(problem.batch()).loss;
    CHECK(resumed.step(problem.batch()).loss == last);
  }
  CHECK(last < 0.5 * first);
}

TEST_CASE("what Sophia cannot be told is said when the session is made") {
  LinearRegression problem;
  auto make = [&](const TrainConfig& c) { TrainingSession(LinearRegression::loss(), problem.initial(0), c); };
  TrainConfig config = config_of(HessianEstimate::Kind::gauss_newton_bartlett);
  CHECK_THROWS_WITH_AS(make(config), doctest::Contains("the output 'logits' (HessianEstimate::logits), which graph"),
                       Error);
  config.optimizer.hessian = {.every = 0};
  CHECK_THROWS_WITH_AS(make(config), doctest::Contains("got every = 0"), Error);
}

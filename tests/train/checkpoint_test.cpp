// Checkpoints: a session that loads one goes on as the one that wrote it would have.
#include <doctest/doctest.h>

#include "support/io_files.h"
#include "train/problems.h"

using namespace rlx;
using test::LinearRegression;

namespace {

TrainConfig config_with(Optimizer optimizer) {
  TrainConfig config;
  config.optimizer = std::move(optimizer), config.learning_rate = LearningRate::cosine(0.1, 50, {.warmup = 5});
  config.ema = 0.9;
  return config;
}

}  // namespace

TEST_CASE("training goes on bit by bit from a checkpoint") {
  LinearRegression problem;
  test::TemporaryFolder folder;
  const std::string path = folder / "checkpoint.safetensors";
  for (const Optimizer& optimizer : {Optimizer::adamw(), Optimizer::adafactor(), Optimizer::muon()}) {
    TrainingSession whole(LinearRegression::loss(), problem.initial(0.1), config_with(optimizer));
    for (int i = 0; i < 7; ++i) whole.step(problem.batch());
    whole.save(path, {{"epoch", "3"}});
    TrainingSession resumed(LinearRegression::loss(), problem.initial(0), config_with(optimizer));
    auto notes = resumed.load(path);
    CHECK(notes.at("epoch") == "3");
    CHECK(resumed.steps() == 7);
    for (int i = 0; i < 5; ++i) CHECK(whole.step(problem.batch()).loss == resumed.step(problem.batch()).loss);
    CHECK(whole.param("w") == resumed.param("w"));
    CHECK(whole.averaged_params().at("w") == resumed.averaged_params().at("w"));
  }
}

TEST_CASE("a checkpoint of something else is refused and changes nothing") {
  LinearRegression problem;
  test::TemporaryFolder folder;
  const std::string path = folder / "other.safetensors";
  TrainingSession adam(LinearRegression::loss(), problem.initial(0.1), config_with(Optimizer::adam()));
  adam.step(problem.batch());
  adam.save(path);
  TrainingSession lion(LinearRegression::loss(), problem.initial(0.5), config_with(Optimizer::lion()));
  CHECK_THROWS_WITH_AS(lion.load(path), doctest::Contains("it was trained as 'w: adam_update"), Error);
  TrainConfig without = config_with(Optimizer::adam());
  without.ema = 0;
  TrainingSession less(LinearRegression::loss(), problem.initial(0.5), without);
  CHECK_THROWS_WITH_AS(less.load(path), doctest::Contains("it has 'mean/w', which this session has not"), Error);
  CHECK(load_number(less.param("w"), 0) == 0.5);
  CHECK(less.steps() == 0);

  write_safetensors(path, problem.initial(0));
  CHECK_THROWS_WITH_AS(less.load(path), doctest::Contains("no training session wrote it"), Error);
  less.accumulate(problem.batch());
  CHECK_THROWS_WITH_AS(less.save(path), doctest::Contains("the gradients of 1 batches wait"), Error);
  CHECK_THROWS_WITH_AS(less.load("/nonexistent/x.safetensors"), doctest::Contains("/nonexistent/x.safetensors"), Error);
}

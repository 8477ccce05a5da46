// Fifty steps of every optimizer and schedule beside those of PyTorch and Optax: tests/golden/generate/training.py.
#include <doctest/doctest.h>

#include <cmath>

#include "rlx/io.h"
#include "train/problems.h"

using namespace rlx;
using test::LinearRegression;

TEST_CASE("optimizers and schedules step as PyTorch's, Optax's and the published updates do") {
  LinearRegression problem;
  auto golden = SafetensorsFile::open("tests/golden/training/trajectories.safetensors");
  struct Case {
    std::string name;
    Optimizer optimizer;
    LearningRate rate;
  };
  const Case cases[] = {
      {"sgd", Optimizer::sgd(), 0.2},
      {"sgd_momentum", Optimizer::sgd({.momentum = 0.9}), 0.05},
      {"sgd_nesterov", Optimizer::sgd({.momentum = 0.9, .nesterov = true, .weight_decay = 0.01}), 0.05},
      {"adam", Optimizer::adam(), 0.1},
      {"adamw", Optimizer::adamw({.weight_decay = 0.1}), 0.1},
      {"adagrad", Optimizer::adagrad(), 0.5},
      {"rmsprop", Optimizer::rmsprop(), 0.02},
      {"rmsprop_centered", Optimizer::rmsprop({.momentum = 0.5, .centered = true}), 0.02},
      {"adafactor", Optimizer::adafactor(), 0.1},
      {"lamb", Optimizer::lamb({.weight_decay = 0.01}), 0.05},
      {"lion", Optimizer::lion({.weight_decay = 0.01}), 0.02},
      {"muon", Optimizer::muon(), 0.02},
      {"linear", Optimizer::sgd(), LearningRate::linear(0.2, 40, {.last = 0.1})},
      {"cosine", Optimizer::sgd(), LearningRate::cosine(0.2, 40, {.warmup = 10, .last = 0.1})},
      {"one_cycle", Optimizer::sgd(), LearningRate::one_cycle(0.2, 50)},
  };
  CHECK(golden.entries().size() == std::size(cases));  // none is left out
  for (const Case& c : cases)
    for (bool fused : {true, false}) {
      TrainConfig config;
      config.optimizer = c.optimizer, config.learning_rate = c.rate, config.fused = fused;
      TrainingSession session(LinearRegression::loss(), problem.initial(0.1), config);
      Tensor path = golden.tensor(c.name);
      double worst = 0;
      for (size_t step = 0; step < 50; ++step) {
        session.step(problem.batch());
        Tensor w = session.param("w");
        for (size_t i = 0; i < 3; ++i)
          worst = std::max(worst, std::abs(load_number(w, i) - load_number(path, step * 3 + i)));
      }
      CHECK_MESSAGE(worst < 1e-5, c.name, std::string(fused ? " in one graph" : " in two"), " is off by ", worst);
    }
}

// What a session writes beside trained params, feeds beside the batch, and computes twice.
#include <doctest/doctest.h>

#include <cmath>
#include <set>

#include "support/io_files.h"
#include "train/problems.h"

using namespace rlx;
using test::LinearRegression;

namespace {

/// y = x w, and a running mean of x that starts at m: m' = 0.9 m + 0.1 mean(x).
Graph with_running_mean(int64_t rows) {
  Graph g("running");
  Value x = g.input("x", f32, {rows, 2}), w = g.param("w", f32, {2}), m = g.param("m", f32, {2});
  Value average = mean(x, {0});
  g.output(reduce_sum(square((x - broadcast_to(m, {rows, 2})) * broadcast_to(w, {rows, 2})), {0, 1}), "loss");
  g.output(m * 0.9 + average * 0.1, "next_m");
  return g;
}
TrainConfig sgd(double lr) {
  TrainConfig config;
  config.optimizer = Optimizer::sgd(), config.learning_rate = lr;
  return config;
}
/// Four layers of a tanh net, wide enough that activations outweigh params.
Graph deep_net(int64_t rows, int64_t width, int64_t layers) {
  Graph g("deep");
  Value x = g.input("x", f32, {rows, width});
  for (int64_t l = 0; l < layers; ++l) x = tanh(matmul(x, g.param(text_of("w", l), f32, {width, width})));
  g.output(mean(square(x), {0, 1}), "loss");
  return g;
}
Tensor spread(Shape shape, int64_t modulus) {
  Tensor t(f32, std::move(shape));
  for (size_t i = 0; i < t.element_count(); ++i)
    store<double>(t, i,
                  static_cast<double>(static_cast<int64_t>(i) * 7 % modulus) / static_cast<double>(modulus) - 0.5);
  return t;
}

}  // namespace

TEST_CASE("a param that is written becomes an output of the loss in every step, and is not trained") {
  NamedTensors initial = {{"w", Tensor::of<float>({2}, {1, 1})}, {"m", Tensor::of<float>({2}, {0, 0})}};
  Tensor x = Tensor::of<float>({2, 2}, {1, 2, 3, 6});
  test::TemporaryFolder folder;
  for (bool fused : {true, false}) {
    TrainConfig config = sgd(0.01);
    config.written = {{"m", "next_m"}}, config.fused = fused;
    TrainingSession session(with_running_mean(2), initial, config);
    double m = 0;
    for (int i = 0; i < 5; ++i) {
      session.step({{"x", x}});
      m = 0.9 * m + 0.1 * 2;
      CHECK(load_number(session.param("m"), 0) == doctest::Approx(m));
    }
    session.evaluate({{"x", x}});
    CHECK(load_number(session.param("m"), 0) == doctest::Approx(m));
    CHECK(load_number(session.params().at("m"), 1) == doctest::Approx(2 * m));
    const std::string path = folder / "written.safetensors";
    session.save(path);
    TrainingSession resumed(with_running_mean(2), initial, config);
    resumed.load(path);
    CHECK(resumed.param("m") == session.param("m"));
    // Each micro-batch writes, and a batch of another size is another loss of the same params.
    session.set_loss(with_running_mean(1));
    session.accumulate({{"x", Tensor::of<float>({1, 2}, {2, 4})}});
    m = 0.9 * m + 0.1 * 2;
    CHECK(load_number(session.param("m"), 0) == doctest::Approx(m));
    session.step_accumulated();
    session.set_loss(with_running_mean(2));
    resumed.step({{"x", x}});
    CHECK(session.step({{"x", x}}).step == 7);
  }
  TrainConfig config = sgd(0.01);
  config.written = {{"m", "loss"}};
  CHECK_THROWS_WITH_AS(TrainingSession(with_running_mean(2), initial, config),
                       doctest::Contains("the param 'm' is f32[2] and becomes the output 'loss', which is f32[]"),
                       Error);
  config.written = {{"m", "next"}};
  CHECK_THROWS_WITH_AS(TrainingSession(with_running_mean(2), initial, config),
                       doctest::Contains("the output 'next', which graph 'running' has not; it has loss, next_m"),
                       Error);
}

TEST_CASE("another loss has the session's params, or is refused") {
  LinearRegression problem;
  TrainingSession session(LinearRegression::loss(), problem.initial(0), sgd(0.1));
  Graph other("other");
  other.output(reduce_sum(other.input("x", f32, {2}) * other.param("w", f32, {2}), {0}), "loss");
  CHECK_THROWS_WITH_AS(session.set_loss(other),
                       doctest::Contains("it has 'w' (f32[2]) where the session has 'w' (f32[3, 1])"), Error);
  CHECK(session.step(problem.batch()).step == 1);
  session.set_learning_rate(0.0);
  double before = load_number(session.param("w"), 0);
  session.step(problem.batch());
  CHECK(load_number(session.param("w"), 0) == before);
}

TEST_CASE("a step's key is new in every step, and the same in a session that resumes") {
  Graph g("dropped");
  Value x = g.input("x", f32, {64}), key = g.input("key", u32, {2}), w = g.param("w", f32, {64});
  g.output(reduce_sum(square(dropout(key, x * w, 0.5)), {0}), "loss");
  NamedTensors initial = {{"w", spread({64}, 13)}};
  std::vector<NamedTensor> batch = {{"x", spread({64}, 11)}};
  TrainConfig config = sgd(0);
  config.key_input = "key", config.seed = 3;
  TrainingSession session(g, initial, config), same(g, initial, config);
  std::set<double> losses;
  for (int i = 0; i < 5; ++i) {
    double loss = session.step(batch).loss;
    CHECK(same.step(batch).loss == loss);
    losses.insert(loss);
  }
  CHECK(losses.size() == 5);
  test::TemporaryFolder folder;
  session.save(folder / "key.safetensors");
  TrainingSession resumed(g, initial, config);
  resumed.load(folder / "key.safetensors");
  CHECK(resumed.step(batch).loss == session.step(batch).loss);
  CHECK(session.accumulate(batch).loss != session.accumulate(batch).loss);  // of each micro-batch too
  config.key_input = "x";
  CHECK_THROWS_WITH_AS(TrainingSession(g, initial, config),
                       doctest::Contains("is to get a key, u32[2], and is f32[64]"), Error);
}

TEST_CASE("parts that are computed twice change no number and hold less") {
  Graph g = deep_net(256, 16, 24);
  NamedTensors initial;
  for (int l = 0; l < 24; ++l) initial[text_of("w", l)] = spread({16, 16}, 17 + l);
  std::vector<NamedTensor> batch = {{"x", spread({256, 16}, 29)}};
  TrainingSession plain(g, initial, sgd(0.1));
  TrainConfig config = sgd(0.1);
  config.checkpoints = 5;
  TrainingSession parts(g, initial, config);
  for (int i = 0; i < 3; ++i) CHECK(plain.step(batch).loss == doctest::Approx(parts.step(batch).loss).epsilon(1e-6));
  for (const auto& param : plain.params()) {
    Tensor other = parts.param(param.first);
    for (size_t i = 0; i < other.element_count(); ++i)
      CHECK(load_number(param.second, i) == doctest::Approx(load_number(other, i)).epsilon(1e-5));
  }
  MESSAGE("activations ", plain.memory().program, " bytes, in five parts ", parts.memory().program);
  CHECK(parts.memory().program < plain.memory().program * 2 / 3);
}

TEST_CASE("params and states are updated where they are, and tensors that were handed out stay") {
  struct Case {
    Optimizer optimizer;
    size_t beside;  // how many values of each param the update reads again after it has new ones, and writes elsewhere
  };
  for (const Case& c :
       {Case{Optimizer::sgd({.momentum = 0.9}), 0}, Case{Optimizer::adamw(), 0},
        Case{Optimizer::rmsprop({.momentum = 0.5, .centered = true}), 0}, Case{Optimizer::adafactor(), 1},
        Case{Optimizer::lamb(), 1}, Case{Optimizer::lion(), 1}, Case{Optimizer::muon(), 2}}) {
    const Optimizer& optimizer = c.optimizer;
    Graph g = deep_net(8, 32, 3);
    NamedTensors initial;
    for (int l = 0; l < 3; ++l) initial[text_of("w", l)] = spread({32, 32}, 17 + l);
    TrainConfig config = sgd(0.01);
    config.optimizer = optimizer, config.ema = 0.9;
    TrainingSession session(g, initial, config);
    std::vector<NamedTensor> batch = {{"x", spread({8, 32}, 29)}};
    session.step(batch);  // the initial tensors are the caller's: this one copies
    initial.clear();
    session.step(batch);
    TrainingMemory memory = session.memory();
    CHECK_MESSAGE(memory.spare <= c.beside * memory.params, op_of(optimizer.rule).name, " writes ", memory.spare,
                  " bytes beside ", memory.params + memory.states);
    CHECK(memory.params == 3 * 32 * 32 * 4);
    Tensor handed_out = session.param("w1");
    float before = handed_out.values<float>()[5];
    session.step(batch);
    CHECK(handed_out.values<float>()[5] == before);
    CHECK(session.param("w1").values<float>()[5] != before);
  }
}

TEST_CASE("a session says how it updates, and why not by the device's own means") {
  LinearRegression problem;
  TrainingSession session(LinearRegression::loss(), problem.initial(0), sgd(0.1));
  CHECK(session.update_path() == UpdatePath::fused);
  CHECK_FALSE(session.eligibility().supported);
  CHECK(session.eligibility().device == Device::from_environment());
  UpdateEligibility coreml = native_update_eligibility(Device::coreml());
  CHECK_FALSE(coreml.supported);
  CHECK(coreml.reason.find("ML Programs") != std::string::npos);
  for (const DeviceInfo& d : devices()) CHECK_FALSE(native_update_eligibility(d.device).reason.empty());
}

TEST_CASE("a rate may warm up to stay") {
  LearningRate rate = LearningRate::constant(0.5, 4);
  CHECK(rate.at(1) == 0);
  CHECK(rate.at(3) == doctest::Approx(0.25));
  CHECK(rate.at(5) == 0.5);
  CHECK(rate.at(500) == 0.5);
  CHECK(LearningRate(0.5).at(1) == 0.5);
}

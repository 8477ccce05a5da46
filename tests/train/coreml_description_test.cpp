// The training tests of the Core ML description, one by one under the names that it gives them, on the device `coreml`
// and on `cpu`: problems, optimizers, rates, numbers of steps and bounds are the description's. (`ane` in a name is the
// description's word for the device. Where there is no CoreML.framework, its ML Programs run by the MIL front end.)
// Expected values are written out in f64 where they can be, else they are those of the device `cpu`.
// tests/CMakeLists.txt lists the names, so that each is a test of ctest too.
#include <doctest/doctest.h>

#include <cmath>

#include "train/problems.h"

using namespace rlx;
using test::LinearRegression;

namespace {

constexpr double kStartWeight = 0.05;  // where a problem begins whose start the description leaves open

const Device kDevices[] = {Device::coreml(), Device::cpu()};

TrainConfig with(Optimizer optimizer, double rate) {
  TrainConfig config;
  config.optimizer = std::move(optimizer), config.learning_rate = rate;
  return config;
}
TrainingSession regression(const Device& device, const TrainConfig& config, double w0 = 0) {
  return TrainingSession(LinearRegression::loss(), LinearRegression().initial(w0), config, Session(device));
}
double weight(const TrainingSession& session, size_t i) { return load_number(session.param("w"), i); }

struct Losses {
  double first = 0, last = 0;
};
/// Of one step and of `more` behind it; each loss is a finite number.
Losses train(TrainingSession& session, const std::vector<NamedTensor>& batch, int more) {
  Losses losses;
  for (int i = 0; i <= more; ++i) {
    losses.last = session.step(batch).loss;
    REQUIRE(std::isfinite(losses.last));
    if (i == 0) losses.first = losses.last;
  }
  return losses;
}

/// The gradient of the loss sum (x w - t)^2: 2 x^T (x w - t).
std::array<double, 3> gradient_of(const LinearRegression& problem, const std::array<double, 3>& w) {
  std::array<double, 3> gradient{};
  for (size_t n = 0; n < 8; ++n) {
    double error = -load_number(problem.t, n);
    for (size_t d = 0; d < 3; ++d) error += load_number(problem.x, n * 3 + d) * w[d];
    for (size_t d = 0; d < 3; ++d) gradient[d] += 2 * error * load_number(problem.x, n * 3 + d);
  }
  return gradient;
}

/// Channels that are scaled, relu, a max pool, a linear layer, the summed cross entropy of two classes. Labels are
/// floats.
struct PooledChannels {
  Tensor x = Tensor(f32, {8, 2, 4, 4}), t = Tensor(f32, {8});

  PooledChannels() {
    for (size_t n = 0; n < 8; ++n) {
      store<double>(t, n, static_cast<double>(n % 2));
      for (size_t c = 0; c < 2; ++c)
        for (size_t p = 0; p < 16; ++p)
          store<double>(x, (n * 2 + c) * 16 + p, (c == n % 2 ? 1 : 0.1) * (1 + 0.05 * static_cast<double>(p)));
    }
  }
  static Graph loss() {
    Graph g("pooled_channels");
    Value x = g.input("x", f32, {8, 2, 4, 4}), t = g.input("t", f32, {8});
    Value s = g.param("S", f32, {1, 2, 1, 1}), w = g.param("W", f32, {8, 2});
    Value pooled = pool(relu(x * broadcast_to(s, {8, 2, 4, 4})), {.kernel_size = {2, 2}, .stride = {2, 2}});
    Value logits = matmul(reshape(pooled, {8, 8}), w);
    g.output(reduce_sum(softmax_cross_entropy_with_logits(logits, t), {0}), "loss");
    return g;
  }
  static NamedTensors initial() {
    Tensor s(f32, {1, 2, 1, 1}), w(f32, {8, 2});
    for (size_t i = 0; i < 2; ++i) store<double>(s, i, 1.0);
    for (size_t i = 0; i < 16; ++i) store<double>(w, i, 0.01);
    return {{"S", s}, {"W", w}};
  }
  std::vector<NamedTensor> batch() const { return {{"x", x}, {"t", t}}; }
};

}  // namespace

TEST_CASE("mlupdatetask_falls_back_to_gradient_path") {
  for (const Device& device : kDevices) {
    CAPTURE(device);
    TrainConfig config = with(Optimizer::sgd(), 0.2);
    config.fused = false;
    TrainingSession session = regression(device, config);
    const UpdateEligibility native = session.eligibility();
    CHECK(native.device == device);
    CHECK_FALSE(native.supported);
    CHECK(native.reason.find(device == Device::cpu() ? "has no trainer of its own" : "MLUpdateTask") !=
          std::string::npos);
    // The request is refused with that reason, and changes nothing: steps go on by gradients, and learn.
    CHECK_THROWS_WITH_AS(session.with_update_path(UpdatePath::native_update), doctest::Contains(native.reason.c_str()),
                         Error);
    CHECK(session.update_path() == UpdatePath::gradient);
    const StepResult first = session.step(LinearRegression().batch());
    CHECK(first.path == UpdatePath::gradient);
    CHECK(session.step(LinearRegression().batch()).loss < first.loss);
    // Likewise where the update is part of the gradients' graph.
    session.with_update_path(UpdatePath::fused);
    CHECK_THROWS_AS(session.with_update_path(UpdatePath::native_update), Error);
    CHECK(session.step(LinearRegression().batch()).path == UpdatePath::fused);
    CHECK(session.with_update_path(UpdatePath::gradient).update_path() == UpdatePath::gradient);
  }
}

TEST_CASE("ane_training_converges_linear_model") {
  for (const Device& device : kDevices) {
    CAPTURE(device);
    TrainingSession session = regression(device, with(Optimizer::sgd(), 0.2));
    const auto [first, last] = train(session, LinearRegression().batch(), 60);
    CHECK(session.steps() == 61);
    CHECK(last < 1e-2 * first);
    CHECK(last < 1e-3);
    for (size_t i = 0; i < 3; ++i) CHECK(std::abs(weight(session, i) - LinearRegression::kSolution[i]) < 5e-2);
  }
}

TEST_CASE("ane_training_with_optimizer_suite") {
  struct Case {
    Optimizer optimizer;
    double rate;
    int steps;
    double part;  // of the first loss, that the last one is below
  };
  const Case cases[] = {{Optimizer::adamw(), 0.1, 200, 0.02},
                        {Optimizer::lion(), 0.02, 200, 0.5},
                        {Optimizer::muon(), 0.02, 50, 1},
                        {Optimizer::sophia(), 0.05, 50, 1}};
  for (const Device& device : kDevices)
    for (const Case& c : cases) {
      CAPTURE(device);
      CAPTURE(op_of(c.optimizer.rule).name);
      TrainingSession session = regression(device, with(c.optimizer, c.rate));
      const auto [first, last] = train(session, LinearRegression().batch(), c.steps - 1);
      CHECK(session.steps() == c.steps);
      CHECK(last < c.part * first);
    }
}

TEST_CASE("ane_gradient_accumulation_matches_single_step") {
  const LinearRegression problem;
  for (const Device& device : kDevices) {
    CAPTURE(device);
    TrainingSession single = regression(device, with(Optimizer::adam(), 0.1), kStartWeight);
    TrainingSession waiting = regression(device, with(Optimizer::adam(), 0.1), kStartWeight);
    single.step(problem.batch());
    for (int i = 0; i < 3; ++i) waiting.accumulate(problem.batch());
    CHECK(waiting.pending_accumulation() == 3);
    CHECK(weight(waiting, 0) == doctest::Approx(kStartWeight));
    CHECK(waiting.step_accumulated() == 3);
    CHECK(waiting.pending_accumulation() == 0);
    for (size_t i = 0; i < 3; ++i) {
      CHECK(std::abs(weight(waiting, i) - weight(single, i)) < 1e-4);
      // Adam's first step is the rate long, against the gradient's sign.
      const double gradient = gradient_of(problem, {kStartWeight, kStartWeight, kStartWeight})[i];
      CHECK(std::abs(weight(waiting, i) - (kStartWeight - std::copysign(0.1, gradient))) < 1e-4);
    }
  }
}

TEST_CASE("ane_fused_on_device_sgd_matches_host") {
  const LinearRegression problem;
  constexpr double kMomentum = 0.9, kRate = 0.05;
  for (const Device& device : kDevices) {
    CAPTURE(device);
    TrainingSession session = regression(device, with(Optimizer::sgd({.momentum = kMomentum}), kRate), kStartWeight);
    CHECK(session.fused_active());
    std::array<double, 3> w{kStartWeight, kStartWeight, kStartWeight}, velocity{};  // the host's
    for (int step = 0; step <= 40; ++step) {
      CHECK(session.step(problem.batch()).path == UpdatePath::fused);
      const std::array<double, 3> gradient = gradient_of(problem, w);
      for (size_t i = 0; i < 3; ++i) {
        velocity[i] = kMomentum * velocity[i] + gradient[i];
        w[i] -= kRate * velocity[i];
        CHECK(std::abs(weight(session, i) - w[i]) < 1e-3);
      }
    }
  }
}

TEST_CASE("ane_gradient_step_matches_cpu") {
  const LinearRegression problem;
  constexpr double kRate = 0.2, kApart = 1e-5;  // sums of eight products of f32 in another order
  TrainConfig config = with(Optimizer::sgd(), kRate);
  config.fused = false;
  TrainingSession cpu = regression(Device::cpu(), config, kStartWeight);
  const StepResult wanted = cpu.step(problem.batch());
  const std::array<double, 3> gradient = gradient_of(problem, {kStartWeight, kStartWeight, kStartWeight});
  for (const Device& device : kDevices) {
    CAPTURE(device);
    TrainingSession session = regression(device, config, kStartWeight);
    const StepResult result = session.step(problem.batch());
    CHECK(result.path == UpdatePath::gradient);
    CHECK(std::abs(result.loss - wanted.loss) < kApart);
    CHECK(std::abs(result.grad_norm - std::hypot(gradient[0], gradient[1], gradient[2])) < kApart);
    for (size_t i = 0; i < 3; ++i) {
      CHECK(std::abs(weight(session, i) - weight(cpu, i)) < kApart);
      CHECK(std::abs(weight(session, i) - (kStartWeight - kRate * gradient[i])) < kApart);
    }
  }
}

TEST_CASE("ane_maxpool_softmax_ce_training_decreases_loss") {
  const PooledChannels problem;
  for (const Device& device : kDevices) {
    CAPTURE(device);
    TrainingSession session(PooledChannels::loss(), PooledChannels::initial(), with(Optimizer::adam(), 0.05),
                            Session(device));
    const auto [first, last] = train(session, problem.batch(), 40);
    CHECK(first == doctest::Approx(8 * std::log(2.0)));  // all weights alike: both classes are as likely
    CHECK(last < 0.5 * first);
  }
}

TEST_CASE("ane_amp_f16_training_converges") {
  for (const Device& device : kDevices) {
    CAPTURE(device);
    TrainConfig config = with(Optimizer::sgd(), 0.2);
    config.precision = PrecisionPolicy::auto_mixed(f16);
    TrainingSession session = regression(device, config);
    const auto [first, last] = train(session, LinearRegression().batch(), 60);
    CHECK(last < 0.1 * first);
    // Its products did run in f16: the weights are not those of f32.
    TrainingSession wide = regression(device, with(Optimizer::sgd(), 0.2));
    train(wide, LinearRegression().batch(), 60);
    CHECK(std::abs(weight(session, 0) - weight(wide, 0)) + std::abs(weight(session, 1) - weight(wide, 1)) > 0);
  }
}

TEST_CASE("a session takes the list of the params that it trains, and the others stay frozen") {
  const PooledChannels problem;
  for (const Device& device : kDevices)
    for (bool fused : {true, false}) {
      CAPTURE(device);
      TrainConfig config = with(Optimizer::adam(), 0.05);
      config.trained = {"W"}, config.fused = fused;
      TrainingSession session(PooledChannels::loss(), PooledChannels::initial(), config, Session(device));
      const auto [first, last] = train(session, problem.batch(), 40);
      CHECK(last < 0.5 * first);
      CHECK(session.param("S") == PooledChannels::initial().at("S"));
      CHECK(session.param("W") != PooledChannels::initial().at("W"));
    }
}

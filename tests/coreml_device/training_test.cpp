// Device::coreml where there is no CoreML.framework: graphs become ML Programs that are written, read back and run, and
// whole training sessions step through them. Expected values are the CPU's.
#include <doctest/doctest.h>

#include <cmath>

#include "rlx/rlx.h"
#include "train/problems.h"

using namespace rlx;
using test::LinearRegression;

namespace {

constexpr double kApart = 1e-5;  // of weights, after five steps of 0.1: the same sums of f32 in another order

TrainConfig adam(bool fused) {
  TrainConfig config;
  config.optimizer = Optimizer::adam(), config.learning_rate = 0.1, config.fused = fused;
  return config;
}

void check_same_params(const TrainingSession& a, const TrainingSession& b, double bound = kApart) {
  for (const auto& entry : a.params()) {
    const std::string& name = entry.first;
    const Tensor& value = entry.second;
    Tensor other = b.param(name);
    REQUIRE(other.type() == value.type());
    for (size_t i = 0; i < value.element_count(); ++i)
      CHECK_MESSAGE(std::abs(load_number(value, i) - load_number(other, i)) < bound, name, "[", i, "] ",
                    load_number(value, i), " and ", load_number(other, i));
  }
}

/// Two classes of 8x8 images: convolution, relu, mean, a linear layer, cross entropy.
struct MiniCnn {
  Tensor x = Tensor(f32, {4, 1, 8, 8}), t = Tensor(f32, {4, 2});
  MiniCnn() {
    for (size_t n = 0; n < 4; ++n) {
      for (size_t i = 0; i < 64; ++i) {
        double stripe = n % 2 ? static_cast<double>(i / 8 % 2) : static_cast<double>(i % 2);
        store<double>(x, n * 64 + i, stripe + static_cast<double>((7 * i + n) % 5) / 20);
      }
      store<double>(t, n * 2 + n % 2, 1.0);
    }
  }
  static Graph loss() {
    Graph g("mini_cnn");
    Value x = g.input("x", f32, {4, 1, 8, 8}), t = g.input("t", f32, {4, 2});
    Value k = g.param("kernel", f32, {3, 1, 3, 3}), b = g.param("bias", f32, {1, 3, 1, 1});
    Value w = g.param("head", f32, {3, 2});
    Value h = relu(conv(x, k, {.stride = {2, 2}, .padding = {1, 1}}) + b);
    Value logits = matmul(mean(h, {2, 3}), w);
    g.output(mean(softmax_cross_entropy(logits, t), {0}), "loss");
    return g;
  }
  static NamedTensors initial() {
    NamedTensors all{
        {"kernel", Tensor(f32, {3, 1, 3, 3})}, {"bias", Tensor(f32, {1, 3, 1, 1})}, {"head", Tensor(f32, {3, 2})}};
    for (auto& [name, value] : all)
      for (size_t i = 0; i < value.element_count(); ++i)  // around W0 = 0.25, and not all alike
        store<double>(value, i, 0.25 + static_cast<double>((5 * i) % 7) / 20 - 0.15);
    return all;
  }
  std::vector<NamedTensor> batch() const { return {{"x", x}, {"t", t}}; }
};

}  // namespace

TEST_CASE("linear regression on Device::coreml, by gradient programs and by one fused program") {
  LinearRegression problem;
  for (bool fused : {true, false}) {
    TrainingSession cpu(LinearRegression::loss(), problem.initial(0.25), adam(fused));
    TrainingSession coreml(LinearRegression::loss(), problem.initial(0.25), adam(fused), Session(Device::coreml()));
    CHECK(coreml.fused_active() == fused);
    for (int i = 0; i < 5; ++i) {
      double wanted = cpu.step(problem.batch()).loss, got = coreml.step(problem.batch()).loss;
      CHECK(std::abs(got - wanted) < 1e-3 * std::max(1.0, wanted));
    }
    check_same_params(cpu, coreml);
    // They have moved: five steps of 0.1.
    CHECK(std::abs(load_number(coreml.param("w"), 0) - 0.25) > 0.1);
  }
}

TEST_CASE("a mini CNN on Device::coreml") {
  MiniCnn problem;
  for (bool fused : {true, false}) {
    TrainingSession cpu(MiniCnn::loss(), MiniCnn::initial(), adam(fused));
    TrainingSession coreml(MiniCnn::loss(), MiniCnn::initial(), adam(fused), Session(Device::coreml()));
    double first = 0, last = 0;
    for (int i = 0; i < 5; ++i) {
      cpu.step(problem.batch());
      last = coreml.step(problem.batch()).loss;
      if (i == 0) first = last;
    }
    CHECK(last < first);
    check_same_params(cpu, coreml);
  }
}

TEST_CASE("automatic mixed precision on Device::coreml, with its loss scale") {
  MiniCnn problem;
  for (bool fused : {true, false}) {
    CAPTURE(fused);
    TrainConfig config = adam(fused);
    config.precision = PrecisionPolicy::auto_mixed(f16);
    TrainingSession cpu(MiniCnn::loss(), MiniCnn::initial(), config);
    TrainingSession coreml(MiniCnn::loss(), MiniCnn::initial(), config, Session(Device::coreml()));
    TrainingSession wide(MiniCnn::loss(), MiniCnn::initial(), adam(fused), Session(Device::coreml()));
    double first = 0, last = 0;
    for (int i = 0; i < 5; ++i) {
      StepResult wanted = cpu.step(problem.batch()), got = coreml.step(problem.batch());
      wide.step(problem.batch());
      CHECK(got.loss_scale == wanted.loss_scale);
      CHECK(got.skipped == wanted.skipped);
      last = got.loss;
      if (i == 0) first = last;
    }
    CHECK(last < first);
    check_same_params(cpu, coreml, 2e-3);
    // It did compute in f16: the weights are not those of f32.
    double apart = 0;
    for (const auto& entry : wide.params())
      for (size_t i = 0; i < entry.second.element_count(); ++i)
        apart = std::max(apart, std::abs(load_number(entry.second, i) - load_number(coreml.param(entry.first), i)));
    CHECK(apart > 0);
  }
}

TEST_CASE("accumulated gradients on Device::coreml") {
  LinearRegression problem;
  TrainingSession cpu(LinearRegression::loss(), problem.initial(0.25), adam(true));
  TrainingSession coreml(LinearRegression::loss(), problem.initial(0.25), adam(true), Session(Device::coreml()));
  for (int i = 0; i < 5; ++i) {
    for (int k = 0; k < 3; ++k) cpu.accumulate(problem.batch()), coreml.accumulate(problem.batch());
    CHECK(coreml.pending_accumulation() == 3);
    CHECK(cpu.step_accumulated() == 3);
    CHECK(coreml.step_accumulated() == 3);
  }
  check_same_params(cpu, coreml);
}

TEST_CASE("params are part of the package, and can be bound anew") {
  Graph g("layer");
  Value x = g.input("x", f32, {2, 3}), w = g.param("w", f32, {3, 2});
  g.output(gelu(matmul(x, w)), "y");
  g.output(reduce_sum(x, {0, 1}), "sum");                                 // a scalar
  g.output(compare(x, scalar(g, 0.0, f32), Comparison::gt), "positive");  // bools, which no feature is of
  CompiledGraph coreml = Session(Device::coreml()).compile(g), cpu = Session().compile(g);
  Tensor input = Tensor::of<float>({2, 3}, {-1, 0, 1, 2, 3, -4});
  CHECK_THROWS_AS(coreml.run({{"x", input}}), Error);
  for (float scale : {1.0f, -0.5f}) {
    Tensor weight = Tensor::of<float>({3, 2}, {scale, 2, 0.5f, scale, 1, -scale});
    coreml.set_param("w", weight), cpu.set_param("w", weight);
    auto got = coreml.run({{"x", input}}), wanted = cpu.run({{"x", input}});
    REQUIRE(got.size() == 3);
    for (size_t o = 0; o < 3; ++o) {
      REQUIRE(got[o].type() == wanted[o].type());
      for (size_t i = 0; i < wanted[o].element_count(); ++i)
        CHECK(load_number(got[o], i) == doctest::Approx(load_number(wanted[o], i)).epsilon(1e-5));
    }
  }
  CHECK(coreml.memory_bytes() > 0);
}

TEST_CASE("the report says what Device::coreml is here") {
  Graph g("one");
  g.output(relu(g.input("x", f32, {4})), "y");
  CompiledGraph compiled = Session(Device::coreml(ComputeUnits::ane)).compile(g);
  CHECK(compiled.report().target.starts_with("coreml:ane"));
  CHECK(compiled.report().all_native());
#ifndef __APPLE__
  CHECK(compiled.report().target.find("no CoreML.framework here") != std::string::npos);
  for (const DeviceInfo& d : devices())
    if (d.device.backend() == "coreml") {
      CHECK(d.available);
      CHECK(d.description.find("no CoreML.framework") != std::string::npos);
    }
#endif
  CHECK(is_available(Device::coreml()));
  // What no program can hold is refused, with the reason, when it is compiled.
  Graph wide("wide");
  wide.output(wide.input("x", f64, {4}) + wide.input("y", f64, {4}), "z");
  CHECK_THROWS_WITH_AS(Session(Device::coreml()).compile(wide), doctest::Contains("Core ML has no f64"), Error);
  CHECK_FALSE(supports(wide, Device::coreml()));
  // A wrong type is named.
  CHECK_THROWS_WITH_AS(compiled.run({{"x", Tensor(f32, {5})}}), doctest::Contains("input 'x' is f32[4]"), Error);
}

TEST_CASE("integers of 64 bits cross the boundary with all their bits, as inputs, indices and results") {
  constexpr int64_t kLarge = int64_t{1} << 40;
  Graph g("words");
  const Value x = g.input("x", i64, {4}), y = g.input("y", u64, {2, 2});
  const Value at = g.input("at", i64, {3}), table = g.param("table", f32, {5, 2});
  g.output(x * 3 + 1, "z");
  g.output(y, "same");
  g.output(take(table, at, 0), "rows");
  CHECK(supports(g, Device::coreml()));
  CompiledGraph compiled = Session(Device::coreml()).compile(g);
  CHECK(compiled.report().count(Verdict::missing) == 0);
  compiled.set_param("table", Tensor::of<float>({5, 2}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
  auto out = compiled.run({{"x", Tensor::of<int64_t>({4}, {kLarge + 7, -kLarge, -1, 0})},
                           {"y", Tensor::of<uint64_t>({2, 2}, {~uint64_t{0}, 1, uint64_t{1} << 63, 0})},
                           {"at", Tensor::of<int64_t>({3}, {4, 0, 2})}});
  CHECK(out[0] == Tensor::of<int64_t>({4}, {3 * kLarge + 22, 1 - 3 * kLarge, -2, 1}));
  CHECK(out[1] == Tensor::of<uint64_t>({2, 2}, {~uint64_t{0}, 1, uint64_t{1} << 63, 0}));
  CHECK(out[2] == Tensor::of<float>({3, 2}, {8, 9, 0, 1, 4, 5}));
}

TEST_CASE("memory of the caller is written to") {
  Graph g("twice");
  g.output(g.input("x", f32, {3}) * 2.0, "y");
  CompiledGraph compiled = Session(Device::coreml()).compile(g);
  std::vector<float> out(3, -1);
  std::vector<Tensor> in{Tensor::of<float>({3}, {1, 2, 3})};
  std::span<std::byte> memory = std::as_writable_bytes(std::span(out));
  compiled.run_into_memory(in, std::span(&memory, 1));
  CHECK(out == std::vector<float>{2, 4, 6});
}

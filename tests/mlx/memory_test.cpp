// MLX's memory: tensors, states and what training keeps stay on the device mlx, in each of its modes.
#include <doctest/doctest.h>

#include <atomic>
#include <cmath>
#include <thread>

#include "mlx/modes.h"
#include "reference/interpreter.h"
#include "rlx/element.h"
#include "rlx/ops.h"
#include "rlx/session.h"
#include "rlx/train.h"
#include "support/compare.h"
#include "train/problems.h"

using namespace rlx;

namespace {

constexpr int64_t kPlaces = 512, kWidth = 64;

/// One token of a decoder: its keys and values are written into the cache at "at", and it attends to all places.
Graph decoding() {
  Graph g("decoding");
  Value x = g.input("x", f32, {1, 1, kWidth}), at = g.input("at", i32, {});
  const auto projected = [&](const char* name) {
    return reshape(linear(x, g.param(name, f32, {kWidth, kWidth})), {1, 1, 1, kWidth});
  };
  Value k = dynamic_update_axis(g.input("k", f32, {1, 1, kPlaces, kWidth}), projected("wk"), 2, at);
  Value v = dynamic_update_axis(g.input("v", f32, {1, 1, kPlaces, kWidth}), projected("wv"), 2, at);
  g.output(attention(projected("wq"), k, v, {.heads = 1}), "y");
  g.output(k, "k");
  g.output(v, "v");
  return g;
}
std::map<std::string, Tensor> weights() {
  std::map<std::string, Tensor> params;
  uint32_t seed = 1;
  for (const char* name : {"wk", "wv", "wq"}) params[name] = random_tensor(f32, {kWidth, kWidth}, ++seed);
  return params;
}
CompiledGraph decoder_on(const Device& device) {
  CompileOptions options;
  options.donate = {"k", "v"};
  CompiledGraph compiled = Session(device).compile(decoding(), options);
  for (const auto& [name, value] : weights()) compiled.set_param(name, value);
  return compiled;
}
std::vector<NamedTensor> token(int step) {
  return {{"x", random_tensor(f32, {1, 1, kWidth}, 100 + static_cast<uint32_t>(step))},
          {"at", Tensor::scalar<int32_t>(step)}};
}
constexpr uint64_t kTokenBytes = kWidth * 4 + 4, kResultBytes = kWidth * 4;

/// What the reference gives for the tokens one after another, and the caches after the last.
struct Followed {
  std::vector<Tensor> ys;
  Tensor k = Tensor(f32, {1, 1, kPlaces, kWidth}), v = k;
};
Followed by_reference(int tokens) {
  const Graph g = decoding();
  Followed f;
  for (int step = 0; step < tokens; ++step) {
    const auto in = token(step);
    const auto out = interpret(g, std::vector{in[0].second, in[1].second, f.k, f.v}, weights());
    f.ys.push_back(out[0]), f.k = out[1], f.v = out[2];
  }
  return f;
}

}  // namespace

TEST_CASE("a decoder's cache stays on the device: a token moves its own bytes and its result's") {
  const Followed wanted = by_reference(4);
  for (const Device& device : test::mlx_modes()) {
    CAPTURE(device.name());
    const CompiledGraph step = decoder_on(device);
    GraphState state = step.new_state();
    for (int t = 0; t < 4; ++t) {
      const Transfers before = transfers_of(device);
      const std::vector<Tensor> got = step.run(token(t), state);
      CHECK(transfers_of(device) - before == Transfers{.host_waits = 1,
                                                       .copies_to_device = 2,
                                                       .bytes_to_device = kTokenBytes,
                                                       .copies_to_host = 1,
                                                       .bytes_to_host = kResultBytes});
      CHECK(difference(got.at(0), wanted.ys[static_cast<size_t>(t)], 1e-5) == "");
    }
    CHECK(difference(state.tensor("k"), wanted.k, 1e-5) == "");
    CHECK(difference(state.tensor("v"), wanted.v, 1e-5) == "");
  }
}

TEST_CASE("a copy of a state goes its own way, and copies nothing until it does") {
  for (const Device& device : test::mlx_modes()) {
    CAPTURE(device.name());
    const CompiledGraph step = decoder_on(device);
    GraphState state = step.new_state();
    step.run(token(0), state);
    const Transfers before = transfers_of(device);
    GraphState fork = state.copy();
    CHECK(transfers_of(device) == before);
    const Tensor first = state.tensor("k");
    step.run(token(1), state);
    CHECK(fork.tensor("k") == first);
    CHECK(!(state.tensor("k") == first));
    step.run(token(1), fork);
    CHECK(fork.tensor("k") == state.tensor("k"));
    CHECK(fork.why_torn() == "");
  }
}

TEST_CASE("outputs stay on the device and are fed to the next run; several runs are in flight") {
  Graph g("twice");
  g.output(g.input("x", f32, {1000}) * 2.0, "x");
  const Tensor one = full(f32, {1000}, 1);
  for (const Device& device : test::mlx_modes()) {
    CAPTURE(device.name());
    const CompiledGraph twice = Session(device).compile(g);
    DeviceTensor x = device_put(one, device);
    const Transfers before = transfers_of(device);
    std::vector<PendingRun> runs;
    for (int i = 0; i < 10; ++i) {
      runs.push_back(twice.submit(std::span(&x, 1)));
      x = runs.back().outputs()[0];
    }
    x.ready().wait();
    CHECK(transfers_of(device) == before);
    CHECK(x.to_host() == full(f32, {1000}, 1024));
    CHECK(runs[2].outputs()[0].to_host() == full(f32, {1000}, 8));
    x.write(one);
    CHECK(twice.submit(std::span(&x, 1)).get()[0] == full(f32, {1000}, 2));
  }
}

TEST_CASE("a param is a tensor of the device, and one that is donated elsewhere is not overwritten") {
  Graph adds("adds"), grows("grows");
  adds.output(adds.input("x", f32, {4}) + adds.param("w", f32, {4}));
  grows.output(grows.input("w", f32, {4}) + 1.0, "w");
  CompileOptions options;
  options.donate = {"w"};
  for (const Device& device : test::mlx_modes()) {
    CAPTURE(device.name());
    Session session(device);
    CompiledGraph sum = session.compile(adds);
    const CompiledGraph more = session.compile(grows, options);
    const DeviceTensor w = device_put(full(f32, {4}, 5), device);
    const Transfers before = transfers_of(device);
    sum.set_param("w", w);
    CHECK((transfers_of(device) - before).bytes_to_device == 0);
    CHECK(more.submit(std::span(&w, 1)).get()[0] == full(f32, {4}, 6));
    CHECK(sum.run({{"x", full(f32, {4}, 1)}})[0] == full(f32, {4}, 6));
    CHECK(w.why_gone() != "");
  }
}

TEST_CASE("steps of training copy batches there, and the loss and the norm back, and nothing else") {
  const test::LinearRegression problem;
  const auto session_on = [&](const Device& device) {
    TrainConfig config;
    config.optimizer = Optimizer::adamw(), config.learning_rate = 0.05, config.ema = 0.9;
    return TrainingSession(test::LinearRegression::loss(), problem.initial(0.1), config, Session(device));
  };
  TrainingSession here = session_on(Device::cpu());
  for (int i = 0; i < 20; ++i) here.step(problem.batch());
  for (const Device& device : test::mlx_modes()) {
    CAPTURE(device.name());
    TrainingSession session = session_on(device);
    const Transfers before = transfers_of(device);
    for (int i = 0; i < 20; ++i) session.step(problem.batch());
    const Transfers moved = transfers_of(device) - before;
    // A batch is f32[8, 3] and f32[8, 1]; the learning rate and the step's number are 4 bytes each.
    CHECK(moved.bytes_to_device == 20 * (96 + 32 + 4 + 4));
    CHECK(moved.bytes_to_host == 20 * 2 * 4);
    for (const auto& [name, value] : here.params()) CHECK(difference(session.params().at(name), value, 1e-5) == "");
  }
}

TEST_CASE("four threads with a state each, and runs in the background between them, count what each was given") {
  Graph g("sum");
  g.output(g.input("s", f32, {64}) + g.input("x", f32, {64}), "s");
  CompileOptions options;
  options.donate = {"s"};
  const Tensor one = full(f32, {64}, 1);
  for (const Device& device : test::mlx_modes()) {
    CAPTURE(device.name());
    const CompiledGraph sum = Session(device).compile(g, options);
    GraphState shared = sum.new_state();
    std::atomic<int> wrong = 0;
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t)
      threads.emplace_back([&] {
        GraphState own = sum.new_state();
        for (int i = 0; i < 25; ++i) {
          if (i % 2) sum.run_async({{"x", one}}, shared);
          else sum.run({{"x", one}}, shared);
          sum.run({{"x", one}}, own);
        }
        wrong += own.tensor("s").values<float>()[63] != 25;
      });
    for (std::thread& thread : threads) thread.join();
    CHECK(wrong == 0);
    CHECK(shared.tensor("s").values<float>()[17] == 100);
  }
}

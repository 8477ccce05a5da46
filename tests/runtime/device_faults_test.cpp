// What goes wrong on a device: every kind of fault at every place of three programs is an error that names the device,
// and afterwards the session goes on. Runs that are cancelled at random leave no memory behind.
#include <doctest/doctest.h>

#include <chrono>
#include <random>
#include <regex>
#include <thread>

#include "backends/registry.h"
#include "devices/simulated/faults.h"
#include "devices/simulated/memory.h"
#include "rlx/ops.h"
#include "rlx/session.h"
#include "rlx/train.h"
#include "runtime/simulated_devices.h"
#include "runtime/small_model.h"

using namespace rlx;
using namespace std::chrono_literals;
using simulated::Fault;

namespace {

using test::kLoopback;

size_t blocks_there() {
  const auto memory = backend_of(kLoopback)->memory();
  return dynamic_cast<const simulated::SimulatedMemory&>(*memory).blocks();
}

/// How long a run may take before it is cancelled: short where a run is to stall.
auto deadline = 60000ms;

/// Waits as whoever has a deadline does: then it cancels.
std::vector<Tensor> waited_for(const PendingRun& run) {
  if (!run.wait_for(deadline)) run.cancel();
  return run.get();
}

/// Programs whose numbers are checked: each compiles, copies there, runs and copies back.
using Checked = std::function<void()>;

void run_model() {
  const Graph g = test::small_model();
  const test::Params params = test::small_params();
  const auto inputs = test::small_inputs(5);
  CompiledGraph compiled = Session(kLoopback, {1}).compile(g);
  compiled.set_params(params);
  const auto got = waited_for(compiled.run_async({{"tokens", inputs[0]}, {"gate", inputs[1]}}));
  const auto wanted = test::by_reference(g, inputs, params);
  for (size_t o = 0; o < wanted.size(); ++o) CHECK(difference(got[o], wanted[o], test::kSmallModelTolerance) == "");
}

void run_chain() {
  Graph g("sum");
  Value x = g.input("x", f32, {3});
  g.output(x + g.input("y", f32, {3}), "x");
  CompileOptions options;
  options.donate = {"x"};
  const CompiledGraph add = Session(kLoopback, {1}).compile(g, options);
  const DeviceTensor one = device_put(Tensor::of<float>({3}, {1, 1, 1}), kLoopback);
  DeviceTensor sum = device_put(Tensor(f32, {3}), kLoopback);
  std::vector<PendingRun> runs;
  for (int i = 0; i < 4; ++i) {
    runs.push_back(add.submit(std::vector{sum, one}));
    sum = runs.back().outputs()[0];
  }
  for (const PendingRun& run : runs)
    if (!run.wait_for(deadline)) run.cancel();
  const Tensor got = sum.to_host();  // what it throws is for the caller, and CHECK would catch it
  CHECK(got == Tensor::of<float>({3}, {4, 4, 4}));
}

void run_on_the_host() {
  Graph condition("goes_on"), body("step"), g("powers");
  condition.output(compare(condition.input("n", f32, {}), condition.constant(Tensor::scalar(100.f)), Comparison::lt));
  body.output(body.input("n", f32, {}) * 2.0);
  g.output(while_loop({g.input("n", f32, {})}, {1, condition, body})[0]);
  const Tensor got = waited_for(Session(kLoopback, {1}).compile(g).run_async({{"n", Tensor::scalar(3.f)}}))[0];
  CHECK(got == Tensor::scalar(192.f));
}

/// What became of a program: empty if its numbers are right, else the error's text.
std::pair<ErrorCode, std::string> outcome_of(const Checked& program) {
  try {
    program();
  } catch (const Error& e) {
    return {e.code(), e.what()};
  }
  return {};
}

}  // namespace

TEST_CASE(
    "every fault at every place is an error that names the device and the node, its cause first, and the session goes "
    "on") {
  auto& faults = simulated::loopback_faults();
  const std::pair<const char*, Checked> programs[] = {
      {"model", run_model}, {"chain", run_chain}, {"loop", run_on_the_host}};
  // What the error names: a graph, or one of its inputs, params or outputs; a tensor that was put there by hand has no
  // name, but a type.
  const auto node_of = [](const std::string& graph) {
    return std::regex("(((input|param|output) '[\\w.]+' of (the run of )?|a run of )'" + graph + "' on|compiling '" +
                      graph + "' for|a tensor of f32\\[3\\] on) loopback");
  };
  const std::map<std::string_view, std::regex> nodes = {
      {"model", node_of("small_model")}, {"chain", node_of("sum")}, {"loop", node_of("powers")}};
  const std::map<Fault, ErrorCode> codes = {{Fault::allocate, ErrorCode::out_of_memory},
                                            {Fault::write, ErrorCode::io},
                                            {Fault::read, ErrorCode::io},
                                            {Fault::launch, ErrorCode::io},
                                            {Fault::compile, ErrorCode::io},
                                            {Fault::lose, ErrorCode::device_lost},
                                            {Fault::stall, ErrorCode::cancelled}};
  const std::map<Fault, std::string> causes = {{Fault::allocate, "loopback has no memory left for"},
                                               {Fault::write, "loopback failed at a copy to it"},
                                               {Fault::read, "loopback failed at a copy from it"},
                                               {Fault::launch, "loopback failed at the run of '"},
                                               {Fault::compile, "loopback failed at compiling '"},
                                               {Fault::lose, "loopback was lost while it began the run of '"},
                                               {Fault::stall, "the run of '"}};
  size_t happened = 0;
  for (const auto& named : programs)
    for (size_t k = 0; k < names_of(Fault{}).size(); ++k) {
      const Fault fault = static_cast<Fault>(k);
      for (int64_t nth = 1;; ++nth) {
        CAPTURE(named.first);
        CAPTURE(names_of(Fault{})[k]);
        CAPTURE(nth);
        faults.ask(fault, nth);
        deadline = fault == Fault::stall ? 100ms : 60000ms;
        const auto outcome = outcome_of(named.second);
        const std::string& text = outcome.second;
        deadline = 60000ms;
        const bool has_happened = !faults.is_waiting(fault);
        faults.reset();
        if (!has_happened) {  // the program has no such occasion any more
          CHECK(nth > 1);
          if (fault != Fault::stall)
            CHECK(text == "");  // with a short deadline a slow machine cancels what does not stall
          break;
        }
        ++happened;
        CHECK(outcome.first == codes.at(fault));
        CHECK_MESSAGE(text.starts_with(causes.at(fault)), text);
        const bool names_a_node = std::regex_search(text, nodes.at(named.first));
        CHECK_MESSAGE(names_a_node, text);
        CHECK(outcome_of(named.second).second == "");
        REQUIRE(nth < 200);
      }
    }
  MESSAGE(happened, " faults");
  CHECK(happened > 60);
}

TEST_CASE("a device that is lost says so until it is there again, and nothing waits for ever") {
  auto& faults = simulated::loopback_faults();
  const DeviceTensor held = device_put(Tensor(f32, {2}), kLoopback);
  held.ready().wait();
  faults.ask(Fault::lose, 1);
  for (int i = 0; i < 3; ++i) {
    const auto [code, text] = outcome_of(run_on_the_host);
    CHECK(code == ErrorCode::device_lost);
    CHECK(text.find("loopback") != std::string::npos);
  }
  CHECK_THROWS_WITH_AS(held.to_host(), doctest::Contains("loopback is lost"), Error);
  faults.reset();
  CHECK(outcome_of(run_on_the_host).second == "");
}

TEST_CASE("what ended a committed run is said by sync_pending, once, and not by the run behind it") {
  auto& faults = simulated::loopback_faults();
  Graph g("twice");
  g.output(g.input("x", f32, {2}) * 2.0);
  const CompiledGraph twice = Session(kLoopback, {1}).compile(g);
  const std::vector<NamedTensor> one = {{"x", Tensor::of<float>({2}, {1, 1})}};
  twice.run(one);
  faults.ask(Fault::launch, 1);
  for (int i = 0; i < 3; ++i) twice.commit_no_wait(one);
  CHECK(twice.run(one)[0] == Tensor::of<float>({2}, {2, 2}));
  CHECK(!faults.is_waiting(Fault::launch));
  CHECK_THROWS_WITH_AS(twice.sync_pending(), doctest::Contains("loopback failed at the run of 'twice'"), Error);
  CHECK(twice.sync_pending().empty());
  faults.reset();
}

TEST_CASE("ten thousand runs, some of them cancelled, leave no memory on the device") {
  const size_t before = blocks_there();
  {
    Graph g("sum");
    Value x = g.input("x", f32, {64});
    g.output(x + g.input("y", f32, {64}), "x");
    g.output(x * 2.0, "twice");
    CompileOptions options;
    options.donate = {"x"};
    const Session session(kLoopback, {1});
    const CompiledGraph update = session.compile(g, options), plain = session.compile(g);
    const DeviceTensor one = device_put(Tensor(f32, {64}), kLoopback);
    std::minstd_rand random(7);
    DeviceTensor state = device_put(Tensor(f32, {64}), kLoopback);
    for (int i = 0; i < 10000; ++i) {
      const bool updates = random() % 2 == 0;
      const PendingRun run = (updates ? update : plain).submit(std::vector{state, one});
      if (random() % 5 == 0) run.cancel();
      if (updates) state = run.outputs()[0];
      if (random() % 8 == 0) {
        try {
          run.wait();
        } catch (const Error& e) {
          REQUIRE(e.code() == ErrorCode::cancelled);
          state.write(Tensor(f32, {64}));  // torn, and whole again
        }
      }
    }
    try {
      state.to_host();
    } catch (const Error& e) {
      CHECK(e.code() == ErrorCode::cancelled);
    }
  }
  for (int i = 0; i < 2000 && blocks_there() != before; ++i) std::this_thread::sleep_for(1ms);
  CHECK(blocks_there() == before);
}

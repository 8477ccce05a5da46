// Training on a device with memory of its own: what is kept from step to step stays there.
#include <doctest/doctest.h>

#include "devices/simulated/faults.h"
#include "support/io_files.h"
#include "train/problems.h"

using namespace rlx;
using simulated::Fault;
using test::LinearRegression;

namespace {

const Device kLoopback("loopback");

TrainingSession session_on(const Device& device, bool fused = true) {
  TrainConfig config;
  config.optimizer = Optimizer::adamw(), config.learning_rate = 0.05, config.ema = 0.9, config.fused = fused;
  return {LinearRegression::loss(), LinearRegression().initial(0.1), config, Session(device, {1})};
}
std::string bits_differ(const NamedTensors& a, const NamedTensors& b) {
  for (const auto& [name, value] : a)
    if (!(b.at(name) == value)) return name;
  return a.size() == b.size() ? "" : "the number of tensors";
}

}  // namespace

TEST_CASE("a hundred steps copy the batches there, and the loss and the gradients' norm back, and nothing else") {
  const LinearRegression problem;
  for (const Device& device : {kLoopback, Device("tiny")}) {
    TrainingSession session = session_on(device);
    const Transfers before = transfers_of(device);
    for (int i = 0; i < 100; ++i) session.step(problem.batch());
    // A batch is f32[8, 3] and f32[8, 1]; the learning rate and the step's number are 4 bytes each.
    CHECK(transfers_of(device) - before == Transfers{.host_waits = 200,
                                                     .copies_to_device = 400,
                                                     .bytes_to_device = 100 * (96 + 32 + 4 + 4),
                                                     .copies_to_host = 200,
                                                     .bytes_to_host = 200 * 4,
                                                     .donated_copies = 0});
    const Transfers at_end = transfers_of(device);
    session.params();
    CHECK(transfers_of(device) - at_end == Transfers{.host_waits = 1, .copies_to_host = 1, .bytes_to_host = 12});
    CHECK(session.memory().spare == 0);
  }
}

TEST_CASE("steps on a simulated device give the bits of the processor that it computes by") {
  const LinearRegression problem;
  for (bool fused : {true, false}) {
    TrainingSession here = session_on(Device::cpu(), fused), there = session_on(kLoopback, fused);
    for (int i = 0; i < 20; ++i) CHECK(here.step(problem.batch()).loss == there.step(problem.batch()).loss);
    for (int i = 0; i < 3; ++i) here.accumulate(problem.batch()), there.accumulate(problem.batch());
    CHECK(bits_differ(here.pending_gradients(), there.pending_gradients()) == "");
    here.step_accumulated(), there.step_accumulated();
    CHECK(bits_differ(here.params(), there.params()) == "");
    CHECK(bits_differ(here.averaged_params(), there.averaged_params()) == "");
    CHECK(here.evaluate(problem.batch()) == there.evaluate(problem.batch()));
    CHECK(here.evaluate(problem.batch(), true) == there.evaluate(problem.batch(), true));
  }
}

TEST_CASE("a checkpoint of a device restores the same bits, there and on another device") {
  const LinearRegression problem;
  test::TemporaryFolder folder;
  const std::string path = folder / "checkpoint.safetensors", again = folder / "again.safetensors";
  TrainingSession session = session_on(kLoopback);
  for (int i = 0; i < 10; ++i) session.step(problem.batch());
  session.save(path);
  for (const Device& device : {kLoopback, Device::cpu()}) {
    TrainingSession resumed = session_on(device);
    resumed.load(path);
    resumed.save(again);
    CHECK(test::file_content(path) == test::file_content(again));
    TrainingSession whole = session_on(kLoopback);
    for (int i = 0; i < 10; ++i) whole.step(problem.batch());
    for (int i = 0; i < 10; ++i) CHECK(resumed.step(problem.batch()).loss == whole.step(problem.batch()).loss);
    CHECK(bits_differ(resumed.params(), whole.params()) == "");
  }
}

TEST_CASE("a step that fails on the device leaves a session that says so, until it loads a checkpoint") {
  const LinearRegression problem;
  test::TemporaryFolder folder;
  const std::string path = folder / "checkpoint.safetensors";
  auto& faults = simulated::loopback_faults();
  TrainingSession session = session_on(kLoopback);
  session.step(problem.batch());
  session.save(path);
  const NamedTensors trained = session.params();
  // No memory for the batch: nothing has begun, and nothing is lost.
  faults.ask(Fault::allocate, 1);
  CHECK(test::message_of([&] { session.step(problem.batch()); }).find("loopback has no memory left") == 0);
  CHECK(bits_differ(session.params(), trained) == "");
  for (Fault fault : {Fault::launch, Fault::lose, Fault::read}) {
    faults.ask(fault, 1);
    const std::string message = test::message_of([&] { session.step(problem.batch()); });
    CHECK_MESSAGE(message.find("loopback") != std::string::npos, message);
    faults.reset();
    CHECK(
        test::message_of([&] { session.step(problem.batch()); }).starts_with("an earlier step failed while it wrote"));
    CHECK(test::message_of([&] { session.params(); }).starts_with("an earlier step failed while it wrote"));
    session.load(path);
    CHECK(bits_differ(session.params(), trained) == "");
    CHECK(session.step(problem.batch()).step == 2);
    session.load(path);
  }
}

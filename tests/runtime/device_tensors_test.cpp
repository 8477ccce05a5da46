// Tensors on devices and runs in the background, on every device that runs graphs: the host's own memory and memory
// that the host cannot point into have one meaning.
#include <doctest/doctest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <thread>

#include "backends/registry.h"
#include "rlx/ops.h"
#include "rlx/session.h"
#include "runtime/small_model.h"
#include "support/io_files.h"
#include "support/sanitized.h"

using namespace rlx;
using test::message_of;
using namespace std::chrono_literals;

namespace {

std::vector<Device> running_devices() {
  std::vector<Device> all;
  for (const DeviceInfo& d : devices())
    if (d.available) all.push_back(d.device);
  return all;
}

/// x f32[n], y f32[n] -> "x" = x + y: with x donated, an update.
Graph adding(Dim n = 4) {
  Graph g("adding");
  Value x = g.input("x", f32, {n}), y = g.input("y", f32, {n});
  g.output(x + y, "x");
  return g;
}
const Tensor kOnes = Tensor::of<float>({4}, {1, 1, 1, 1}), kCount = Tensor::of<float>({4}, {0, 1, 2, 3});

/// x f32[] -> a loop of so many trips that nobody waits for its end.
Graph endless() {
  Graph condition("goes_on"), body("step");
  Value c = condition.input("x", f32, {});
  condition.output(compare(c, full_like(c, -1.0), Comparison::gt));
  Value x = body.input("x", f32, {});
  body.output(abs(sin(x)) + 1.0);
  Graph g("endless");
  g.output(while_loop({g.input("x", f32, {})}, {1, condition, body})[0]);
  return g;
}

ErrorCode code_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& e) {
    return e.code();
  }
  return ErrorCode(0);
}

}  // namespace

TEST_CASE("a tensor comes back from a device as it went there, in every dtype that the device has") {
  for (const Device& device : running_devices()) {
    CAPTURE(device.name());
    for (DType t : {boolean, i4, i8, u16, i32, u64, f16, bf16, f32, c64, q8_0}) {
      const Shape shape = t == q8_0 ? Shape{2, 64} : Shape{3, 5, 2};
      Tensor sent = Tensor::uninitialized(t, shape);
      for (size_t i = 0; i < sent.byte_count(); ++i) sent.mutable_data()[i] = std::byte(t == boolean ? i % 2 : i * 37);
      const DeviceTensor there = device_put(sent, device);
      CHECK(there.device() == device);
      CHECK(there.type() == sent.type());
      CHECK(there.to_host() == sent);
      for (const Device& other : running_devices()) CHECK(there.to(other).to_host() == sent);
    }
    CHECK(device_put(Tensor(f32, {0, 3}), device).to_host() == Tensor(f32, {0, 3}));
    CHECK(device_put(Tensor::scalar(7.f), device).to_host() == Tensor::scalar(7.f));
  }
}

TEST_CASE("the host's own memory is shared, and borrowed elements that nobody keeps are copied") {
  const Tensor sent = kCount;
  CHECK(device_put(sent, Device::cpu()).to_host().data() == sent.data());
  CHECK(memory_of(Device::cpu()).host_access == HostAccess::direct);
  CHECK(memory_of(Device("loopback")).host_access == HostAccess::none);
  for (const Device& device : running_devices()) {
    std::vector<float> own = {5, 6, 7, 8};
    const auto borrowed = Tensor::borrow(f32, {4}, std::as_bytes(std::span(own)));
    const DeviceTensor there = device_put(borrowed, device);
    const PendingRun run = Session(device, {1}).compile(adding()).run_async({{"x", borrowed}, {"y", kOnes}});
    own.assign(4, -1);
    CHECK(there.to_host() == Tensor::of<float>({4}, {5, 6, 7, 8}));
    CHECK(run.get()[0] == Tensor::of<float>({4}, {6, 7, 8, 9}));
  }
}

TEST_CASE("runs follow one another by what they read, without waiting on the host") {
  for (const Device& device : running_devices()) {
    CAPTURE(device.name());
    const CompiledGraph add = Session(device, {1}).compile(adding());
    const DeviceTensor one = device_put(kOnes, device);
    DeviceTensor sum = device_put(kCount, device);
    std::vector<DeviceTensor> all;
    for (int i = 0; i < 50; ++i) {
      const PendingRun run = add.submit(std::vector{sum, one});
      sum = run.outputs()[0];
      all.push_back(sum);
    }
    CHECK(sum.to_host() == Tensor::of<float>({4}, {50, 51, 52, 53}));
    for (int i = 0; i < 50; ++i) CHECK(all[size_t(i)].to_host().values<float>()[0] == float(i + 1));
  }
}

TEST_CASE("a model in the background gives what it gives while its caller waits, many at a time") {
  const Graph g = test::small_model();
  const test::Params params = test::small_params();
  for (const Device& device : running_devices()) {
    CAPTURE(device.name());
    CompiledGraph compiled = Session(device, {2}).compile(g);
    compiled.set_params(params);
    std::vector<std::pair<std::vector<Tensor>, PendingRun>> runs;
    for (int64_t n = 1; n < 12; ++n) {
      auto inputs = test::small_inputs(n, uint64_t(n));
      PendingRun run = compiled.run_async({{"tokens", inputs[0]}, {"gate", inputs[1]}});
      runs.emplace_back(std::move(inputs), std::move(run));
    }
    for (auto& [inputs, run] : runs) {
      const auto wanted = test::by_reference(g, inputs, params), got = run.get();
      REQUIRE(got.size() == wanted.size());
      for (size_t o = 0; o < got.size(); ++o) CHECK(difference(got[o], wanted[o], test::kSmallModelTolerance) == "");
    }
    CHECK(code_of([&] {
            compiled.run_async({{"tokens", kOnes}, {"gate", Tensor::scalar(true)}});
          }) == ErrorCode::shape_mismatch);
    CHECK(code_of([&] { compiled.run_async({{"token", kOnes}}); }) == ErrorCode::not_found);
  }
}

TEST_CASE(
    "a graph remembers runs that are committed: who runs it waits for them, and sync_pending has the last results") {
  Graph g("counting"), condition("goes_on"), body("step");
  Value n = condition.input("n", f32, {});
  condition.output(compare(n, full_like(n, 100000.0), Comparison::lt));
  body.output(body.input("n", f32, {}) + 1.0);
  g.output(while_loop({g.input("n", f32, {})}, {1, condition, body})[0], "end");
  const auto from = [](float start) { return std::vector<NamedTensor>{{"n", Tensor::scalar(start)}}; };
  for (const Device& device : running_devices()) {
    if (!supports(g, device)) continue;
    CAPTURE(device.name());
    const CompiledGraph counting = Session(device, {1}).compile(g);
    counting.run(from(99999));
    CHECK(counting.sync_pending().empty());
    counting.commit_no_wait(from(0));
    counting.commit_no_wait(from(100001));
    const auto begin = std::chrono::steady_clock::now();
    CHECK(counting.run(from(100002))[0] == Tensor::scalar(100002.f));
    const auto ran = std::chrono::steady_clock::now();
    const std::vector<Tensor> last = counting.sync_pending();
    const auto had = std::chrono::steady_clock::now();
    CHECK(ran - begin > had - ran);  // the loop ended while `run` waited
    REQUIRE(last.size() == 1);
    CHECK(last[0] == Tensor::scalar(100001.f));
    CHECK(counting.sync_pending().empty());
  }
}

TEST_CASE("a graph is freed though nobody asked for the results of its committed runs") {
  const auto owner = std::make_shared<const std::vector<float>>(2, 3.F);
  std::weak_ptr<const std::vector<float>> kept = owner;
  Graph g("scaled");
  g.output(g.input("x", f32, {2}) * g.param("w", f32, {2}), "y");
  {
    CompiledGraph scaled = Session(Device::cpu(), {1}).compile(g);
    scaled.set_param("w", Tensor::borrow(f32, {2}, std::as_bytes(std::span(*owner)), owner));
    const std::vector<NamedTensor> one = {{"x", Tensor::of<float>({2}, {1, 1})}};
    for (int i = 0; i < 100; ++i) scaled.commit_no_wait(one);
    CHECK(scaled.run(one)[0] == Tensor::of<float>({2}, {3, 3}));
  }
  const long own = 1;  // `owner` above
  for (int i = 0; i < 1000 && kept.use_count() > own; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  CHECK(kept.use_count() == own);
}

TEST_CASE("params may be on the device, and stay as they were bound when the tensor is written anew") {
  Graph g("scaled");
  g.output(g.input("x", f32, {4}) * g.param("w", f32, {4}), "y");
  for (const Device& device : running_devices()) {
    CAPTURE(device.name());
    CompiledGraph compiled = Session(device, {1}).compile(g);
    DeviceTensor w = device_put(kCount, device);
    compiled.set_param("w", w);
    w.write(kOnes);
    CHECK(compiled.run({{"x", Tensor::of<float>({4}, {2, 2, 2, 2})}})[0] == Tensor::of<float>({4}, {0, 2, 4, 6}));
    CHECK(w.to_host() == kOnes);
    compiled.set_param("w", w);
    CHECK(compiled.run({{"x", kCount}})[0] == kCount);
    const Device other = device == Device::cpu() ? Device("loopback") : Device::cpu();
    CHECK(message_of([&] { compiled.set_param("w", device_put(kOnes, other)); }) ==
          text_of("param 'w' is on ", other, "; 'scaled' was compiled for ", device));
  }
}

TEST_CASE("a param is what the tensor held when it was bound, in a graph that compiles at its first run too") {
  Graph g("scaled");
  g.output(g.input("x", f32, {4}) * g.param("w", f32, {4}), "y");
  CompileOptions lazy;
  lazy.mode = CompileMode::lazy;
  for (const Device& device : running_devices()) {
    CAPTURE(device.name());
    CompiledGraph compiled = Session(device, {1}).compile(g, lazy);
    DeviceTensor w = device_put(kCount, device);
    compiled.set_param("w", w);
    w.write(kOnes);
    CHECK(compiled.run({{"x", kOnes}})[0] == kCount);
  }
}

TEST_CASE("a param that is donated elsewhere stays what it is, and an input is not lost to a run that cannot begin") {
  Graph g("scaled");
  g.output(g.input("x", f32, {4}) * g.param("w", f32, {4}), "x");
  CompileOptions donating;
  donating.donate = {"x"};
  for (const Device& device : running_devices()) {
    CAPTURE(device.name());
    const Session session(device, {1});
    CompiledGraph scaled = session.compile(g, donating);
    const CompiledGraph add = session.compile(adding(), donating);
    const DeviceTensor w = device_put(kCount, device), x = device_put(kOnes, device);
    CHECK(message_of([&] { scaled.submit(std::vector{x}); }).find("param 'w' (f32[4])") != std::string::npos);
    CHECK(x.to_host() == kOnes);
    scaled.set_param("w", w);
    CHECK(add.submit(std::vector{w, x}).get()[0] == Tensor::of<float>({4}, {1, 2, 3, 4}));
    CHECK(scaled.submit(std::vector{x}).get()[0] == kCount);
  }
}

TEST_CASE("a child of fork runs in the background, and ends") {
  if (test::sanitized()) return;  // their run times do not go on in a child
  const CompiledGraph add = Session(Device::cpu(), {1}).compile(adding());
  add.run_async({{"x", kOnes}, {"y", kOnes}}).wait();  // a thread that the child will not have
  device_put(kOnes, Device("loopback")).ready().wait();
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    int status = 1;
    try {
      std::atomic<bool> called = false;
      const PendingRun run = add.run_async({{"x", kOnes}, {"y", kCount}});
      run.event().on_done([&](std::exception_ptr) { called = true; });
      const bool is_right = run.get()[0] == Tensor::of<float>({4}, {1, 2, 3, 4});
      for (int i = 0; i < 5000 && !called; ++i) std::this_thread::sleep_for(1ms);
      status = is_right && called ? 0 : 2;
    } catch (...) {
    }
    std::exit(status);  // with what runs at the end of a process
  }
  int status = -1;
  for (int i = 0; i < 20000 && waitpid(child, &status, WNOHANG) == 0; ++i) std::this_thread::sleep_for(1ms);
  const bool has_ended = status != -1;
  if (!has_ended) kill(child, SIGKILL);
  CHECK(has_ended);
  CHECK(status == 0);
}

// In a process of its own: the end of the process is what is tested.
TEST_CASE("(child) begins runs without an end" * doctest::skip()) {
  for (const char* name : {"cpu", "loopback"}) {
    const PendingRun run = Session(Device(name), {1}).compile(endless()).run_async({{"x", Tensor::scalar(0.5f)}});
    CHECK_FALSE(run.wait_for(20ms));
  }
}
TEST_CASE("a process ends while runs without an end go on") {
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    execl("/proc/self/exe", "runtime", "--no-skip", "-tc=(child) begins runs without an end",
          static_cast<char*>(nullptr));
    _exit(1);
  }
  int status = -1;
  for (int i = 0; i < 60000 && waitpid(child, &status, WNOHANG) == 0; ++i) std::this_thread::sleep_for(1ms);
  const bool has_ended = status != -1;
  if (!has_ended) kill(child, SIGKILL);
  CHECK(has_ended);
  CHECK(status == 0);
}

TEST_CASE("of two donated inputs the one whose name the output has is updated, whichever comes first") {
  for (const Device& device : running_devices())
    for (const char* updated : {"x", "y"}) {
      CAPTURE(device.name());
      CAPTURE(updated);
      Graph g("adding");
      Value x = g.input("x", f32, {4}), y = g.input("y", f32, {4});
      g.output(x + y, updated);
      CompileOptions options;
      options.donate = {"x", "y"};
      const CompiledGraph add = Session(device, {1}).compile(g, options);
      const std::vector<Tensor> sums = add.run_ordered(std::vector<Tensor>{kCount, kOnes});
      CHECK(difference(sums[0], Tensor::of<float>({4}, {1, 2, 3, 4})) == "");
      CHECK(add.signature().modes[0] == (updated[0] == 'x' ? ArgumentMode::update : ArgumentMode::donated));
    }
}

TEST_CASE("an input that is donated is gone, whatever the device, and says which run took it") {
  for (const Device& device : running_devices()) {
    CAPTURE(device.name());
    CompileOptions options;
    options.donate = {"x"};
    const CompiledGraph add = Session(device, {1}).compile(adding(), options);
    CHECK(add.signature().modes[0] == ArgumentMode::update);
    CHECK(add.signature().modes[1] == ArgumentMode::read);
    DeviceTensor sum = device_put(kCount, device);
    const DeviceTensor one = device_put(kOnes, device);
    DeviceTensor first = sum;
    const Tensor before = device_put(kCount, Device::cpu()).to_host();  // shared by the CPU's: never written
    for (int i = 0; i < 20; ++i) sum = add.submit(std::vector{sum, one}).outputs()[0];
    CHECK(sum.to_host() == Tensor::of<float>({4}, {20, 21, 22, 23}));
    CHECK(before == Tensor::of<float>({4}, {0, 1, 2, 3}));
    CHECK(kCount == before);
    CHECK(first.why_gone() == text_of("it was donated to the run of 'adding' on ", device, " as input 'x'"));
    CHECK(message_of([&] { first.to_host(); }).find("is gone: it was donated to the run of 'adding'") !=
          std::string::npos);
    CHECK(message_of([&] {
            add.submit(std::vector{first, one});
          }).find("while feeding input 'x'") != std::string::npos);
    first.write(kOnes);
    CHECK(first.to_host() == kOnes);
    CHECK(message_of([&] {
            add.submit(std::vector{one, one});
          }) == "input 'x' is donated, and its tensor is input 'y' as well");
    CHECK(one.to_host() == kOnes);
  }
}

TEST_CASE("an update waits for the runs that still read the old value") {
  for (const Device& device : running_devices()) {
    CAPTURE(device.name());
    CompileOptions donating;
    donating.donate = {"x"};
    const Session session(device, {1});
    const CompiledGraph update = session.compile(adding(), donating), read = session.compile(adding());
    const DeviceTensor one = device_put(kOnes, device);
    for (int round = 0; round < 30; ++round) {
      DeviceTensor x = device_put(kCount, device);
      std::vector<DeviceTensor> seen;
      for (int i = 0; i < 4; ++i) {
        seen.push_back(read.submit(std::vector{x, one}).outputs()[0]);
        x = update.submit(std::vector{x, one}).outputs()[0];
      }
      x.write(kOnes);
      for (int i = 0; i < 4; ++i) CHECK(seen[size_t(i)].to_host().values<float>()[3] == float(4 + i));
      CHECK(x.to_host() == kOnes);
    }
  }
}

TEST_CASE("what was donated to a run that has not begun can be written anew, and the run reads the old value") {
  for (const Device& device : running_devices()) {
    CAPTURE(device.name());
    if (!supports(endless(), device) || !backend_of(device)->cancels_loops()) continue;
    const Session session(device, {1});
    CompileOptions donating;
    donating.donate = {"x"};
    Graph g("scaled");
    Value scaled = g.input("x", f32, {4}), by = g.input("by", f32, {});
    g.output(scaled * by, "x");
    const CompiledGraph scale = session.compile(g, donating);
    // The factor comes from a run that takes a while: until then the donated value lies where it was.
    Graph slow("slow"), condition("goes_on"), body("step");
    Value n = condition.input("n", f32, {});
    condition.output(compare(n, full_like(n, 20000.0), Comparison::lt));
    body.output(body.input("n", f32, {}) + 1.0);
    slow.output(while_loop({slow.input("n", f32, {})}, {1, condition, body})[0]);
    const CompiledGraph counting = session.compile(slow);
    for (int round = 0; round < 5; ++round) {
      const PendingRun factor = counting.run_async({{"n", Tensor::scalar(0.f)}});
      DeviceTensor x = device_put(kOnes, device);
      const PendingRun run = scale.submit(std::vector{x, factor.outputs()[0]});
      x.write(kCount);
      CHECK(run.get()[0] == Tensor::of<float>({4}, {20000, 20000, 20000, 20000}));
      CHECK(x.to_host() == kCount);
    }
  }
}

TEST_CASE("inputs of another device, and of another type, are refused by name") {
  const CompiledGraph add = Session(Device("loopback")).compile(adding());
  DeviceTensor here = device_put(kOnes, Device::cpu()), there = device_put(kOnes, Device("loopback"));
  CHECK(message_of([&] {
          add.submit(std::vector{there, here});
        }) == "input 'y' is on cpu; 'adding' was compiled for loopback");
  CHECK(message_of([&] { add.submit(std::vector{there}); }) == "graph 'adding' has 2 inputs, got 1");
  CHECK(message_of([&] {
          add.submit(std::vector{there, DeviceTensor()});
        }) == "a DeviceTensor that was made without a tensor holds none");
  CHECK(code_of([&] {
          add.submit(std::vector{there, device_put(Tensor(f32, {5}), Device("loopback"))});
        }) == ErrorCode::shape_mismatch);
  CHECK(message_of([&] { there.write(Tensor(f32, {5})); }) == "a tensor of f32[4] on loopback was written with f32[5]");
}

TEST_CASE("a run is cancelled before its next trip, and what it was to write is torn until it is written") {
  for (const Device& device : running_devices()) {
    const Graph g = endless();
    if (!supports(g, device)) continue;
    if (!backend_of(device)->cancels_loops()) continue;  // nothing stops what has begun
    CAPTURE(device.name());
    const CompiledGraph compiled = Session(device, {1}).compile(g);
    const PendingRun run = compiled.run_async({{"x", Tensor::scalar(0.5f)}});
    CHECK_FALSE(run.wait_for(20ms));
    CHECK_FALSE(run.is_done());
    run.cancel();
    CHECK(code_of([&] { run.wait(); }) == ErrorCode::cancelled);
    CHECK(message_of([&] { run.get(); }).find("was cancelled") != std::string::npos);
    DeviceTensor torn = run.outputs()[0];
    CHECK(code_of([&] { torn.to_host(); }) == ErrorCode::cancelled);
    torn.write(Tensor::scalar(3.f));
    CHECK(torn.to_host() == Tensor::scalar(3.f));

    const CompiledGraph add = Session(device, {1}).compile(adding());
    CHECK(add.run({{"x", kOnes}, {"y", kOnes}})[0] == Tensor::of<float>({4}, {2, 2, 2, 2}));
  }
}

TEST_CASE("what waits for a run that failed fails with its cause") {
  for (const Device& device : {Device::cpu(), Device("loopback")}) {
    CAPTURE(device.name());
    const Session session(device, {1});
    const CompiledGraph slow = session.compile(endless());
    Graph next("next");
    next.output(next.input("x", f32, {}) * 2.0);
    const CompiledGraph twice = session.compile(next);
    const PendingRun first = slow.run_async({{"x", Tensor::scalar(0.5f)}});
    const PendingRun second = twice.submit(first.outputs()), third = twice.submit(second.outputs());
    first.cancel();
    CHECK(message_of([&] { third.wait(); }).find("the run of 'endless'") != std::string::npos);
    CHECK(code_of([&] { third.outputs()[0].to_host(); }) == ErrorCode::cancelled);
  }
}

TEST_CASE("independent runs overlap where the device has several queues") {
  const Device device("loopback");
  const CompiledGraph slow = Session(device, {1}).compile(endless());
  const CompiledGraph add = Session(device, {1}).compile(adding());
  const PendingRun long_one = slow.run_async({{"x", Tensor::scalar(0.5f)}});
  CHECK(add.run({{"x", kOnes}, {"y", kOnes}})[0].values<float>()[0] == 2.f);  // ends while the other goes on
  CHECK_FALSE(long_one.is_done());
  long_one.cancel();
  CHECK_THROWS_AS(long_one.wait(), Error);
}

TEST_CASE("limits are read when a graph is compiled, and memory that is left when a tensor is made") {
  const Device tiny("tiny");
  CHECK(Session(tiny).compile(adding(1 << 18)).run({{"x", Tensor(f32, {1 << 18})}, {"y", Tensor(f32, {1 << 18})}})[0] ==
        Tensor(f32, {1 << 18}));
  const std::string refused = message_of([&] { Session(tiny).compile(adding((1 << 18) + 1)); });
  CHECK(refused.find("f32[262145] takes 1048580 bytes, and a buffer may have 1048576") != std::string::npos);
  CHECK_FALSE(supports(adding((1 << 18) + 1), tiny));
  CHECK(message_of([&] { device_put(Tensor(f32, {1 << 19}), tiny); }) ==
        "a tensor of 2097152 bytes is larger than a buffer of tiny may be, which is 1048576 bytes\n"
        "  while putting a tensor of f32[524288] on tiny");
  Graph many("many");
  std::vector<Value> all;
  for (int i = 0; i < 8; ++i) all.push_back(many.input(text_of("x", i), f32, {2}));
  many.output(concatenate(all, 0));
  CHECK(dispatch_report(many, tiny).table().find("9 operands and results, and a launch may have 8 buffers") !=
        std::string::npos);
  Graph wide("wide");
  wide.output(wide.input("x", f64, {2}) + 1.0);
  CHECK(message_of([&] { Session(tiny).compile(wide); }).find("there is no f64") != std::string::npos);

  const Device loopback("loopback");
  std::vector<DeviceTensor> held;
  const ErrorCode code = code_of([&] {
    for (int i = 0; i < 20; ++i) held.push_back(device_put(Tensor::uninitialized(u8, {60 << 20}), loopback));
  });
  CHECK(code == ErrorCode::out_of_memory);
  CHECK(held.size() == 8);  // of 512 MiB
  for (DeviceTensor& t : held) t.ready().wait();
  held.clear();
  CHECK(device_put(Tensor::uninitialized(u8, {60 << 20}), loopback).to_host().byte_count() == size_t(60) << 20);
}

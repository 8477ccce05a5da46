// What runs copy and wait for on devices with memory of their own, and what a trace shows of them.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "rlx/ops.h"
#include "rlx/session.h"
#include "runtime/simulated_devices.h"

using namespace rlx;

namespace {

using test::kLoopback, test::kTiny;

Tensor filled(const Shape& shape, float value) {
  Tensor t(f32, shape);
  std::fill(t.mutable_values<float>().begin(), t.mutable_values<float>().end(), value);
  return t;
}
/// "x" f32[n], "y" f32[n] -> "x" = x + y: with x donated, an update.
Graph adding(int64_t n) {
  Graph g("adding");
  Value x = g.input("x", f32, {n}), y = g.input("y", f32, {n});
  g.output(x + y, "x");
  return g;
}
CompiledGraph updating(const Device& device, int64_t n) {
  CompileOptions options;
  options.donate = {"x"};
  return Session(device, {1}).compile(adding(n), options);
}
/// Two inputs of 12 and 8 bytes; outputs of 12, 4 and 8.
Graph three_outputs() {
  Graph g("three");
  Value a = g.input("a", f32, {3}), b = g.input("b", f32, {2});
  g.output(a * 2.0, "twice");
  g.output(reduce_sum(a, {0}), "sum");
  g.output(b + 1.0, "more");
  return g;
}
/// "x" f32[64, 64] -> the same after so many products with itself: some milliseconds.
Graph slow(const std::string& name) {
  Graph body("step"), g(name);
  Value v = body.input("v", f32, {64, 64});
  body.output(tanh(matmul(v, v)));
  Value x = g.input("x", f32, {64, 64});
  // Some milliseconds on any processor, far more than passes between two submits.
  g.output(scan(g, {x}, {1, 0, 1200, false, body})[0], "y");
  return g;
}
/// The launches of a trace: begin and end in microseconds, and the queue.
struct Span {
  double begin, end;
  int queue;
};
std::vector<Span> launches_in(const std::string& trace) {
  std::vector<Span> spans;
  const auto parsed = nlohmann::json::parse(trace);
  for (const auto& event : parsed.at("traceEvents"))
    if (event.at("cat") == "queue" && event.at("name").get<std::string>().starts_with("a run of")) {
      const double begin = event.at("ts");
      spans.push_back({begin, begin + event.at("dur").get<double>(), event.at("tid")});
    }
  return spans;
}
bool overlap(const Span& a, const Span& b) { return a.begin < b.end && b.begin < a.end; }

}  // namespace

TEST_CASE("the host waits once for each tensor that it reads of a run, and copies what goes in and comes out") {
  const std::vector<NamedTensor> inputs = {{"a", filled({3}, 1)}, {"b", filled({2}, 1)}};
  for (const Device& device : {kLoopback, kTiny}) {
    CAPTURE(device.name());
    const CompiledGraph three = Session(device, {1}).compile(three_outputs());
    const Transfers wanted{.host_waits = 3,
                           .copies_to_device = 2,
                           .bytes_to_device = 20,
                           .copies_to_host = 3,
                           .bytes_to_host = 24,
                           .donated_copies = 0};
    CHECK(three.profile(inputs).transfers == wanted);
    Transfers before = transfers_of(device);
    three.run(inputs);
    CHECK(transfers_of(device) - before == wanted);
    before = transfers_of(device);
    const PendingRun run = three.run_async(inputs);
    run.get();
    CHECK(run.profile().transfers == wanted);
    CHECK(transfers_of(device) - before == wanted);
  }
  const CompiledGraph here = Session(Device::cpu(), {1}).compile(three_outputs());
  CHECK(here.profile(inputs).transfers == Transfers());
  CHECK(transfers_of(Device::cpu()) == Transfers());
}

TEST_CASE("runs that feed one another on the device copy nothing in between, and nobody waits") {
  const CompiledGraph add = updating(kLoopback, 16);
  const DeviceTensor one = device_put(filled({16}, 1), kLoopback);
  DeviceTensor sum = device_put(filled({16}, 0), kLoopback);
  const Transfers before = transfers_of(kLoopback);
  for (int i = 0; i < 50; ++i) sum = add.submit(std::array{sum, one}).outputs()[0];
  CHECK(transfers_of(kLoopback) == before);
  CHECK(sum.to_host() == filled({16}, 50));
  CHECK(transfers_of(kLoopback) - before == Transfers{.host_waits = 1, .copies_to_host = 1, .bytes_to_host = 64});
}

TEST_CASE("a donated input that somebody else still reads is copied first, and counted") {
  Graph g("scaled");
  g.output(g.input("x", f32, {8}) * g.param("w", f32, {8}), "y");
  const DeviceTensor one = device_put(filled({8}, 1), kLoopback), shared = device_put(filled({8}, 2), kLoopback);
  CompiledGraph scaled = Session(kLoopback, {1}).compile(g);
  scaled.set_param("w", shared);
  const CompiledGraph add = updating(kLoopback, 8);
  const PendingRun run = add.submit(std::array{shared, one});
  CHECK(run.get()[0] == filled({8}, 3));
  CHECK(run.profile().transfers.donated_copies == 1);
  CHECK(scaled.run({{"x", filled({8}, 5)}})[0] == filled({8}, 10));
  const PendingRun owned = add.submit(std::array{device_put(filled({8}, 2), kLoopback), one});
  owned.wait();
  CHECK(owned.profile().transfers.donated_copies == 0);
}

TEST_CASE("where the host's memory is the device's, a donated tensor that the caller shares is counted too") {
  const CompiledGraph add = updating(Device::cpu(), 8);
  const DeviceTensor one = device_put(filled({8}, 1), Device::cpu());
  const Tensor mine = filled({8}, 2);
  const PendingRun shared = add.submit(std::array{device_put(mine, Device::cpu()), one});
  CHECK(shared.get()[0] == filled({8}, 3));
  CHECK(shared.profile().transfers == Transfers{.donated_copies = 1});
  CHECK(mine == filled({8}, 2));
  const DeviceTensor alone =
      device_put(filled({8}, 2), Device::cpu());  // the tensor of the host is gone by the next line
  const PendingRun owned = add.submit(std::array{alone, one});
  CHECK(owned.get()[0] == filled({8}, 3));
  CHECK(owned.profile().transfers == Transfers());
}

TEST_CASE("a profile shows the launch with its steps in it, between the copies") {
  const CompiledGraph three = Session(kLoopback, {1}).compile(three_outputs());
  const Profile profile = three.profile({{"a", filled({3}, 1)}, {"b", filled({2}, 1)}});
  REQUIRE(profile.work.size() == 6);
  const Profile::Work& launch = profile.work[2];
  CHECK(launch.name == "a run of 'three'");
  for (size_t i = 0; i < 2; ++i) {
    CHECK(profile.work[i].name.ends_with("bytes to the device"));
    CHECK(profile.work[i].start_us + profile.work[i].duration_us <= launch.start_us);
  }
  for (size_t i = 3; i < 6; ++i) {
    CHECK(profile.work[i].name.ends_with("bytes from the device"));
    CHECK(profile.work[i].start_us >= launch.start_us + launch.duration_us);
  }
  REQUIRE(!profile.steps.empty());
  for (const Profile::Step& step : profile.steps) {
    CHECK(step.start_us >= launch.start_us);
    CHECK(step.start_us + step.duration_us <= profile.total_us);
  }
  const std::string table = profile.table();
  CHECK_MESSAGE(table.find("2 copies to the device (20 bytes), 3 to the host (24 bytes)") != std::string::npos, table);
  CHECK_MESSAGE(table.find("waited 3 times") != std::string::npos, table);
}

TEST_CASE("a trace shows that independent launches overlap, and that dependent ones never do") {
  const CompiledGraph first = Session(kLoopback, {1}).compile(slow("first")),
                      second = Session(kLoopback, {1}).compile(slow("second"));
  const DeviceTensor x = device_put(filled({64, 64}, 0.01F), kLoopback);
  int overlapping = 0;
  for (int i = 0; i < 20; ++i) {
    const PendingRun a = first.submit(std::array{x}), b = second.submit(std::array{x});
    const auto spans = launches_in(perfetto_json(std::array{a.profile(), b.profile()}));
    REQUIRE(spans.size() == 2);
    if (!overlap(spans[0], spans[1])) continue;
    ++overlapping;
    CHECK(spans[0].queue != spans[1].queue);
  }
  MESSAGE(overlapping, " of 20 pairs overlap");
  CHECK(overlapping > 0);
  for (int i = 0; i < 20; ++i) {
    const PendingRun a = first.submit(std::array{x}), b = second.submit(std::array{a.outputs()[0]});
    const auto spans = launches_in(perfetto_json(std::array{a.profile(), b.profile()}));
    REQUIRE(spans.size() == 2);
    CHECK(spans[1].begin >= spans[0].end);
  }
}

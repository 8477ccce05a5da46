// Backends from outside of the library, in this process: what they are given, and what happens when they do wrong.
#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <map>

#include "backends/registry.h"
#include "judge/contract.h"
#include "passes/bound_values.h"
#include "plugin/fake_backend.h"
#include "rlx/plugin.h"

using namespace rlx;
using namespace std::chrono_literals;
using test::FakeBackend;

namespace {

/// They are registered once, and stay: no name may be used twice in this file.
FakeBackend& made(const std::string& name, bool memory = true, bool asynchronous = false) {
  return *new FakeBackend(name, memory, asynchronous);
}

const Tensor kX = Tensor::of<float>({3}, {1, 2, 3}), kY = Tensor::of<float>({3}, {10, 20, 30});
const Tensor kSum = Tensor::of<float>({3}, {11, 22, 33});

std::vector<Tensor> sum_on(const Device& device) {
  return Session(device).compile(FakeBackend::adding(3)).run_ordered(std::vector{kX, kY});
}

/// Runs it, which must fail with that code and all of these words.
template <class F>
void fails(ErrorCode code, std::vector<std::string> words, F run) {
  try {
    run();
  } catch (const Error& e) {
    CAPTURE(e.what());
    CHECK(e.code() == code);
    for (const std::string& word : words) {
      CAPTURE(word);
      CHECK(std::string(e.what()).find(word) != std::string::npos);
    }
    return;
  } catch (...) {
  }
  FAIL_CHECK("it did not fail with an rlx::Error: " << words.front());
}

/// Until it holds, for at most ten seconds: work of a backend ends on threads of its own.
template <class F>
bool holds_soon(F condition) {
  for (const auto end = std::chrono::steady_clock::now() + 10s; std::chrono::steady_clock::now() < end;) {
    if (condition()) return true;
    std::this_thread::sleep_for(1ms);
  }
  return false;
}

}  // namespace

TEST_CASE("a backend of either kind, asynchronous or not, adds, keeps the contract of devices, and loses nothing") {
  for (const bool memory : {false, true})
    for (const bool asynchronous : {false, true}) {
      const std::string name = std::string("adds_") + (memory ? "there" : "here") + (asynchronous ? "_later" : "_now");
      CAPTURE(name);
      FakeBackend& fake = made(name, memory, asynchronous);
      fake.describe = [&](rlx_target& t) { t.updates_in_place = asynchronous; };
      const Device device = fake.registered();
      REQUIRE(is_available(device));
      CHECK((memory_of(device).host_access == HostAccess::direct) == !memory);
      CHECK(sum_on(device)[0] == kSum);
      for (const ContractRule& rule : contract_rules()) {
        const Judged judged = judge_rule(rule, device);
        CAPTURE(rule.name);
        CAPTURE(judged.why);
        CHECK(judged.judgement != Judgement::wrong);
      }
      CHECK(holds_soon([&] { return fake.buffers == 0; }));
      CHECK(holds_soon([&] { return fake.executables == 0; }));
    }
}

TEST_CASE("a table that is not whole is refused, with what is missing") {
  const auto refused = [](const rlx_backend& t, const char* why) {
    CAPTURE(why);
    rlx_error* error = nullptr;
    CHECK(FakeBackend::api().register_backend(&t, &error) == RLX_INVALID_ARGUMENT);
    CHECK(std::string(rlx_error_message(error)).find(why) != std::string::npos);
    rlx_error_free(error);
    CHECK(FakeBackend::api().register_backend(&t, nullptr) == RLX_INVALID_ARGUMENT);
  };
  FakeBackend fake("not_whole");
  rlx_backend t = fake.table();
  for (const size_t size : {size_t{0}, size_t{12}, size_t{5000}, SIZE_MAX}) {
    t.struct_size = size;
    refused(t, "set it to sizeof(rlx_backend)");
  }
  t = fake.table(), t.struct_size = offsetof(rlx_backend, launch);
  refused(t, "the table of the backend 'not_whole' has no function 'launch'");
  t = fake.table(), t.struct_size = sizeof(size_t);
  refused(t, "has no name");
  t = fake.table(), t.name = nullptr;
  refused(t, "has no name");
  t = fake.table(), t.open = nullptr;
  refused(t, "no function 'open'");
  t = fake.table(), t.supports = nullptr;
  refused(t, "no function 'supports'");
  t = fake.table(), t.compile = nullptr;
  refused(t, "no function 'compile'");
  t = fake.table(), t.read = nullptr;
  refused(t, "no function 'read'");
  t = fake.table(), t.allocate = nullptr;
  refused(t, "no function 'allocate'");
  t = fake.table(), t.device_count = -1;
  refused(t, "says that it has -1 devices");
  t = fake.table(), t.options = "fast 12";
  refused(t, "the option '12'");
  t = fake.table(), t.name = "two words";
  refused(t, "letters, digits and underscores");
  t = fake.table(), t.name = "cpu";
  refused(t, "there is a backend 'cpu' already");
  CHECK(FakeBackend::api().register_backend(nullptr, nullptr) == RLX_INVALID_ARGUMENT);
}

TEST_CASE("a table that ends early is of an older header, and has no memory of its own") {
  FakeBackend& fake = made("older", false);
  rlx_backend t = fake.table();
  t.struct_size = offsetof(rlx_backend, allocate);
  t.allocate = [](void*, size_t, void**, rlx_error**) { return RLX_INTERNAL; };  // behind its end: not read
  REQUIRE(FakeBackend::api().register_backend(&t, nullptr) == RLX_OK);
  CHECK(sum_on(Device("older"))[0] == kSum);
}

TEST_CASE("devices and options of a backend are spelled like any other") {
  static std::vector<std::string> opened;
  FakeBackend& fake = made("many");
  rlx_backend t = fake.table();
  t.device_count = 2, t.options = "fast  exact", t.description = "many of them";
  t.open = [](void* context, int ordinal, const char* options, rlx_target*, void** device, rlx_error**) {
    opened.push_back(text_of(ordinal, "/", options));
    *device = context;
    return RLX_OK;
  };
  REQUIRE(FakeBackend::api().register_backend(&t, nullptr) == RLX_OK);
  CHECK(sum_on(Device::parse("many:1:exact:fast"))[0] == kSum);
  CHECK(std::count(opened.begin(), opened.end(), "1/exact fast") == 1);
  CHECK_THROWS_WITH_AS(Device::parse("many:slow"), doctest::Contains("'many' has the options fast, exact"), Error);
  size_t listed = 0;
  for (const DeviceInfo& d : devices()) listed += d.device.backend() == "many" && d.description == "many of them";
  CHECK(listed == 2);
}

TEST_CASE("a name that this build lists without a backend may be given one") {
  REQUIRE_FALSE(is_available(Device("wgpu")));
  FakeBackend& fake = made("wgpu");
  CHECK(sum_on(fake.registered())[0] == kSum);
  const auto all = devices();
  CHECK(std::count_if(all.begin(), all.end(), [](const DeviceInfo& d) { return d.device.backend() == "wgpu"; }) == 1);
}

TEST_CASE("what a backend fails at is an error that names it and what it was doing") {
  FakeBackend& fake = made("fails");
  const Device device = fake.registered();
  CHECK(sum_on(device)[0] == kSum);
  const auto with = [&](const char* at, auto what) {
    fake.instead = [at, what](const std::string& function, rlx_error** error) {
      return function == at ? what(error) : RLX_OK;
    };
  };
  const auto says = [](rlx_status status, const char* message) {
    return [=](rlx_error** error) { return FakeBackend::api().fail(error, status, message); };
  };
  with("compile", says(RLX_UNSUPPORTED, "no such luck"));
  fails(ErrorCode::unsupported, {"the backend 'fails' failed at compiling 'adding': no such luck", "for fails"},
        [&] { sum_on(device); });
  with("launch", says(RLX_IO_ERROR, "a fan stands still"));
  fails(ErrorCode::io, {"the backend 'fails' failed at a launch of 'adding': a fan stands still"},
        [&] { sum_on(device); });
  with("allocate", says(RLX_OUT_OF_MEMORY, "all of it is taken"));
  fails(ErrorCode::out_of_memory, {"the backend 'fails' failed at allocating 12 bytes: all of it is taken"},
        [&] { sum_on(device); });
  with("write", says(RLX_IO_ERROR, "a cable is loose"));
  fails(ErrorCode::io, {"'fails' failed at a copy of 12 bytes to the device: a cable is loose"},
        [&] { sum_on(device); });
  with("read", says(RLX_DEVICE_LOST, "it is gone"));
  fails(ErrorCode::device_lost, {"'fails' failed at a copy of 12 bytes to the host: it is gone"},
        [&] { sum_on(device); });
  with("launch", [](rlx_error**) { return RLX_IO_ERROR; });
  fails(ErrorCode::io, {"'fails'", "it gave the status 6 and no reason"}, [&] { sum_on(device); });
  with("launch", [](rlx_error**) { return static_cast<rlx_status>(12); });
  fails(ErrorCode::internal, {"'fails'", "it gave the status 12 and no reason"}, [&] { sum_on(device); });
  with("launch", [](rlx_error** error) { return FakeBackend::api().fail(error, RLX_OK, "all is well"); });
  fails(ErrorCode::internal, {"'fails'", "all is well"}, [&] { sum_on(device); });

  with("launch", [](rlx_error**) -> rlx_status { throw std::runtime_error("boom"); });
  fails(ErrorCode::internal, {"the backend 'fails' threw at a launch of 'adding': boom"}, [&] { sum_on(device); });
  with("compile", [](rlx_error**) -> rlx_status { throw 7; });
  fails(ErrorCode::internal, {"the backend 'fails' threw at compiling 'adding': what is no std::exception"},
        [&] { sum_on(device); });
  with("allocate", [](rlx_error**) -> rlx_status { throw std::bad_alloc(); });
  fails(ErrorCode::out_of_memory, {"the backend 'fails' threw at allocating"}, [&] { sum_on(device); });
  with("write", [](rlx_error** error) -> rlx_status {
    FakeBackend::api().fail(error, RLX_IO_ERROR, "stored before");
    throw std::runtime_error("and thrown");
  });
  fails(ErrorCode::internal, {"the backend 'fails' threw at a copy", "and thrown"}, [&] { sum_on(device); });

  fake.instead = nullptr;
  CHECK(sum_on(device)[0] == kSum);  // it goes on
  CHECK(holds_soon([&] { return fake.buffers == 0 && fake.executables == 0; }));
}

TEST_CASE("a device that says it gave memory, and did not, is caught") {
  FakeBackend& fake = made("empty_handed");
  rlx_backend t = fake.table();
  t.allocate = [](void*, size_t, void**, rlx_error**) { return RLX_OK; };
  REQUIRE(FakeBackend::api().register_backend(&t, nullptr) == RLX_OK);
  fails(ErrorCode::internal, {"'empty_handed' failed at allocating 12 bytes", "gave no buffer"},
        [] { device_put(kX, Device("empty_handed")); });
}

TEST_CASE("a device that does not open is not available, and nobody else minds") {
  FakeBackend& fake = made("shut");
  fake.instead = [](const std::string& function, rlx_error** error) {
    return function == "open" ? FakeBackend::api().fail(error, RLX_NOT_FOUND, "the door is shut") : RLX_OK;
  };
  const Device device = fake.registered();
  CHECK_FALSE(is_available(device));
  fails(ErrorCode::not_found, {"device 'shut' is not available", "the door is shut"}, [&] { Session s(device); });

  FakeBackend& throwing = made("shut_by_throwing");
  throwing.instead = [](const std::string&, rlx_error**) -> rlx_status { throw std::runtime_error("slam"); };
  CHECK_FALSE(is_available(throwing.registered()));

  FakeBackend& away = made("away");
  away.describe = [](rlx_target& t) { t.unavailable = "it is in the other room"; };
  fails(ErrorCode::not_found, {"it is in the other room"}, [&] { Session s(away.registered()); });

  const auto wrong = [](const char* name, std::function<void(rlx_target&)> describe, const char* why) {
    FakeBackend& odd = made(name);
    odd.describe = std::move(describe);
    fails(ErrorCode::not_found, {why}, [&] { Session s(odd.registered()); });
  };
  wrong(
      "odd_dtypes", [](rlx_target& t) { t.absent_dtypes = "f64 f63"; }, "f63");
  wrong(
      "odd_index", [](rlx_target& t) { t.index_bits = 3; }, "its index_bits are 3");
  wrong(
      "odd_alignment", [](rlx_target& t) { t.alignment = 24; }, "its alignment is 24");

  Graph g;
  g.output(tanh(g.input("x", f32, {2})));
  CHECK(Session(Device::cpu()).compile(g).run_ordered(std::vector{Tensor::of<float>({2}, {0, 0})}).size() == 1);
}

TEST_CASE("a refusal is in the report, and so is what goes wrong while it is asked for") {
  FakeBackend& fake = made("refuses");
  const Device device = fake.registered();
  Graph g;
  g.output(tanh(g.input("x", f32, {2})));
  const auto reason = [&] {
    for (const DispatchLine& line : dispatch_report(g, device).lines)
      if (line.verdict == Verdict::missing) return line.reason;
    return std::string();
  };
  CHECK(reason().find("it adds f32, and nothing else") != std::string::npos);
  fake.instead = [](const std::string& function, rlx_error**) -> rlx_status {
    if (function == "supports") throw std::runtime_error("it never was asked before");
    return RLX_OK;
  };
  CHECK(reason().find("the backend 'refuses' threw at being asked for") != std::string::npos);
  fake.instead = [](const std::string& function, rlx_error**) {
    return function == "supports" ? RLX_INTERNAL : RLX_OK;
  };
  CHECK(reason().find("says not why") != std::string::npos);
  fails(ErrorCode::unsupported, {"says not why"}, [&] { Session(device).compile(g); });
}

TEST_CASE("the limits of a device are kept when a graph is compiled") {
  FakeBackend& fake = made("limited");
  fake.describe = [](rlx_target& t) { t.largest_buffer = 64, t.absent_dtypes = "f64"; };
  const Device device = fake.registered();
  CHECK(supports(FakeBackend::adding(16), device));
  CHECK_FALSE(supports(FakeBackend::adding(17), device));
  const CompiledGraph any = Session(device).compile(FakeBackend::adding(Dim::symbol("N")));
  const Tensor large(f32, {17});
  fails(ErrorCode::out_of_memory, {"larger than a buffer"}, [&] { any.run_ordered(std::vector{large, large}); });
}

TEST_CASE("a graph is compiled for the sizes that it is run with, and kept for the next run") {
  FakeBackend& fake = made("sizes", false);
  std::vector<std::string> types;
  fake.at_compile = [&](const rlx_graph_view& g) { types.emplace_back(rlx_type_of(&g, g.outputs[0])->text); };
  const CompiledGraph add = Session(fake.registered()).compile(FakeBackend::adding(Dim::symbol("N")));
  CHECK(types.empty());
  for (const int64_t n : {3, 5, 3, 5, 0}) {
    const Tensor x(f32, {n});
    CHECK(add.run_ordered(std::vector{x, x})[0] == x);
  }
  CHECK(types == std::vector<std::string>{"f32[3]", "f32[5]", "f32[0]"});
  for (int64_t n = 10; n < 60; ++n) add.run_ordered(std::vector{Tensor(f32, {n}), Tensor(f32, {n})});
  CHECK(fake.executables <= 16);
  fails(ErrorCode::shape_mismatch, {"'y'"}, [&] { add.run_ordered(std::vector{kX, Tensor(f32, {4})}); });
}

TEST_CASE("params go with every launch, and have another version once they are bound anew") {
  for (const bool memory : {false, true}) {
    FakeBackend& fake = made(memory ? "params_there" : "params_here", memory);
    std::vector<uint64_t> versions;
    fake.at_launch = [&](const rlx_launch& run) { versions.push_back(run.params[0]->version); };
    Graph g("weighted");
    g.output(g.input("x", f32, {3}) + g.param("w", f32, {3}));
    CompiledGraph add = Session(fake.registered()).compile(g);
    fails(ErrorCode::invalid_argument, {"'w'", "not bound"}, [&] { add.run_ordered(std::vector{kX}); });
    add.set_param("w", kY);
    CHECK(add.run_ordered(std::vector{kX})[0] == kSum);
    CHECK(add.run_ordered(std::vector{kX})[0] == kSum);
    add.set_param("w", kX);
    CHECK(add.run_ordered(std::vector{kY})[0] == kSum);
    REQUIRE(versions.size() == 3);
    CHECK(versions[0] == versions[1]);
    CHECK(versions[1] != versions[2]);
  }
}

TEST_CASE("work that is ended twice, or ended and said to have failed, loses the device; other ids are refused") {
  CHECK(FakeBackend::api().complete({0}, RLX_OK, nullptr) == RLX_INVALID_ARGUMENT);
  CHECK(FakeBackend::api().complete({UINT64_MAX}, RLX_OK, nullptr) == RLX_INVALID_ARGUMENT);
  {
    FakeBackend& fake = made("twice", true, true);
    const Device device = fake.registered();
    const DeviceTensor before = device_put(kX, device);
    before.ready().wait();
    rlx_status second = RLX_OK;
    fake.end = [&](rlx_completion c) {
      CHECK(FakeBackend::api().complete({c.id + 1}, RLX_OK, nullptr) == RLX_INVALID_ARGUMENT);  // not begun yet
      CHECK(FakeBackend::api().complete(c, RLX_OK, nullptr) == RLX_OK);
      second = FakeBackend::api().complete(c, RLX_OK, nullptr);
    };
    device_put(kX, device).ready().wait();
    CHECK(second == RLX_INVALID_ARGUMENT);
    fails(ErrorCode::device_lost, {"twice is lost: its backend ended a piece of work a second time"},
          [&] { before.to_host(); });
    fails(ErrorCode::device_lost, {"twice is lost"}, [&] { device_put(kX, device); });
  }
  FakeBackend& fake = made("ended_and_failed", true, true);
  const Device device = fake.registered();
  fake.end = [&](rlx_completion c) { FakeBackend::api().complete(c, RLX_OK, nullptr), throw std::runtime_error("so"); };
  device_put(kX, device).ready().wait();
  fails(ErrorCode::device_lost, {"ended a piece of work whose beginning it said had failed"},
        [&] { device_put(kX, device); });
}

TEST_CASE("work that ends badly later fails its event with the backend's reason") {
  FakeBackend& fake = made("fails_later", true, true);
  const Device device = fake.registered();
  const CompiledGraph add = Session(device).compile(FakeBackend::adding(3));
  const DeviceTensor x = device_put(kX, device), y = device_put(kY, device);
  wait_for_all(std::vector{x.ready(), y.ready()});
  fake.end = [](rlx_completion c) {
    std::thread([c] { FakeBackend::api().complete(c, RLX_IO_ERROR, "a fuse has blown"); }).detach();
  };
  const PendingRun run = add.submit(std::vector{x, y});
  fails(ErrorCode::io, {"the backend 'fails_later' failed at a launch of 'adding': a fuse has blown"},
        [&] { run.wait(); });
  fails(ErrorCode::io, {"a fuse has blown"}, [&] { run.outputs()[0].to_host(); });
  fake.end = nullptr;
  CHECK(add.submit(std::vector{x, y}).get()[0] == kSum);
}

TEST_CASE(
    "work that never ends: a deadline is kept, cancelling ends it in the end, and its memory stays until it is over") {
  FakeBackend& fake = made("never", true, true);
  fake.describe = [](rlx_target& t) { t.cancel_milliseconds = 50; };
  const Device device = fake.registered();
  const CompiledGraph add = Session(device).compile(FakeBackend::adding(3));
  rlx_completion stuck{};
  bool was_cancelled = false;
  {
    const DeviceTensor x = device_put(kX, device), y = device_put(kY, device);
    wait_for_all(std::vector{x.ready(), y.ready()});
    const rlx_cancel* cancel = nullptr;
    fake.at_launch = [&](const rlx_launch& run) { cancel = run.cancel; };
    fake.end = [&](rlx_completion c) { stuck = c; };
    const PendingRun run = add.submit(std::vector{x, y});
    CHECK_FALSE(run.wait_for(30ms));
    CHECK_FALSE(FakeBackend::api().is_cancelled(cancel));
    run.cancel();
    was_cancelled = FakeBackend::api().is_cancelled(cancel);
    fails(ErrorCode::device_lost,
          {"never is lost: a launch of 'adding' was cancelled, and its backend has not ended it within 50 ms"},
          [&] { run.wait(); });
    fails(ErrorCode::device_lost, {"was cancelled"}, [&] { run.outputs()[0].to_host(); });
  }
  CHECK(was_cancelled);
  CHECK(fake.buffers == 3);  // the backend may still be at it
  CHECK(FakeBackend::api().complete(stuck, RLX_OK, nullptr) == RLX_OK);
  CHECK(fake.buffers == 0);
  fails(ErrorCode::device_lost, {"never is lost"}, [&] { device_put(kX, device); });
}

TEST_CASE("a launch that looks whether it was cancelled ends with that, and the device goes on") {
  for (const bool memory : {false, true}) {
    FakeBackend& fake = made(memory ? "stops_there" : "stops_here", memory);
    const Device device = fake.registered();
    std::atomic<bool> goes_on{true};
    const rlx_cancel* cancel = nullptr;
    fake.at_launch = [&](const rlx_launch& run) { cancel = run.cancel; };
    fake.instead = [&](const std::string& function, rlx_error** error) {
      if (function != "launch" || !goes_on) return RLX_OK;
      while (!FakeBackend::api().is_cancelled(cancel)) std::this_thread::sleep_for(1ms);
      return FakeBackend::api().fail(error, RLX_CANCELLED, "it was told to");
    };
    const CompiledGraph add = Session(device).compile(FakeBackend::adding(3));
    const PendingRun run = add.run_async({{"x", kX}, {"y", kY}});
    CHECK_FALSE(run.wait_for(20ms));
    run.cancel();
    fails(ErrorCode::cancelled, {"it was told to"}, [&] { run.wait(); });
    goes_on = false;
    CHECK(add.run_ordered(std::vector{kX, kY})[0] == kSum);
  }
}

TEST_CASE("a graph is data to a backend: types, attributes with their defaults, constants, bodies") {
  FakeBackend& fake = made("looks");
  std::map<std::string, std::string> seen;
  rlx_backend t = fake.table();
  static std::map<std::string, std::string>* notes = nullptr;
  notes = &seen;
  t.supports = [](void*, const rlx_graph_view* g, rlx_error**) {
    const rlx_node& node = *g->nodes[g->node_count - 1];
    std::string text;
    for (size_t i = 0; i < node.operand_count; ++i) {
      const rlx_value v = node.operands[i];
      text += text_of(g->nodes[v.node]->op, " ", rlx_type_of(g, v)->text, "; ");
    }
    for (size_t i = 0; i < node.attribute_count; ++i) {
      const rlx_attribute& a = *node.attributes[i];
      text += text_of(a.name, "=", a.graph ? text_of("graph of ", a.graph->node_count) : std::string(a.text), "(");
      for (size_t k = 0; k < a.count; ++k)
        text += text_of(k ? "," : "", a.integers ? static_cast<double>(a.integers[k]) : a.numbers[k]);
      text += a.integers || !a.count ? ") " : " float) ";
    }
    (*notes)[node.op] = text_of(text, "-> ", node.results[0]->text, " ", node.results[0]->size);
    return RLX_OK;
  };
  REQUIRE(FakeBackend::api().register_backend(&t, nullptr) == RLX_OK);

  Graph g("looked_at");
  const Dim n = Dim::symbol("N");
  Value x = g.input("x", f32, {n, 4}), w = g.param("w", f32, {4, 2});
  g.output(dot_general(x, w, {{}, {}, {1}, {0}, {}}));
  g.output(transpose(x, {1, 0}));
  g.output(compare(x, x, Comparison::lt));
  g.output(leaky_relu(x, 0.25));
  Graph condition("goes_on"), body("step");
  Value c = condition.input("c", f32, {1});
  condition.output(reshape(compare(c, full_like(c, 9.0), Comparison::lt), {}));
  Value b = body.input("b", f32, {1});
  body.output(b + b);
  g.output(while_loop({g.input("z", f32, {1})}, {1, condition, body})[0]);
  const Target target = backend_of(Device("looks"))->target();
  for (const Node& node : g.nodes()) {
    std::vector<Type> types;
    for (Ref r : node.operands) types.push_back(g.type(r));
    CHECK_FALSE(target.refuses({node, types, [&](size_t i) { return is_weight(g, node.operands[i]); }}));
  }

  CHECK(seen["dot_general"] ==
        "input f32[N, 4]; param f32[4, 2]; lhs_batch=[]() rhs_batch=[]() lhs_contract=[1](1) rhs_contract=[0](0) "
        "accumulate=none() -> f32[N, 2] -1");
  CHECK(seen["transpose"] == "input f32[N, 4]; permutation=[1, 0](1,0) -> f32[4, N] -1");
  CHECK(seen["compare"].find("direction=lt() total_order=false(0) -> bool[N, 4] -1") != std::string::npos);
  CHECK(seen["leaky_relu"].find("0.25(0.25 float)") != std::string::npos);
  CHECK(seen["while_loop"].find("condition=graph of ") != std::string::npos);
  CHECK(seen["while_loop"].find("body=graph of 2(") != std::string::npos);
  CHECK(seen["while_loop"].find("-> f32[1] 4") != std::string::npos);
}

TEST_CASE("a constant is handed over with its elements, and an output may be an input") {
  FakeBackend& fake = made("constants", false);
  Graph g("constants");
  Value x = g.input("x", f32, {3});
  g.output(x + g.constant(kY), "sum");
  g.output(x, "same");
  const auto out = Session(fake.registered()).compile(g).run_ordered(std::vector{kX});
  CHECK(out[0] == kSum);
  CHECK(out[1] == kX);
}

TEST_CASE("a profile of a run has a step for its launch") {
  FakeBackend& fake = made("timed", true, true);
  const Profile profile = Session(fake.registered()).compile(FakeBackend::adding(3)).profile({{"x", kX}, {"y", kY}});
  REQUIRE(profile.steps.size() == 1);
  CHECK(profile.steps[0].node == "adding");
  CHECK(profile.steps[0].kernel == "timed");
}

TEST_CASE("the time of a launch in a profile does not have what it waited for") {
  FakeBackend& fake = made("busy", true);  // its two launches go through one queue
  fake.describe = [](rlx_target& t) { t.is_asynchronous = false; };
  fake.at_launch = [](const rlx_launch&) { std::this_thread::sleep_for(40ms); };
  const CompiledGraph adding = Session(fake.registered()).compile(FakeBackend::adding(3));
  std::vector<PendingRun> before;
  for (int i = 0; i < 8; ++i) before.push_back(adding.run_async({{"x", kX}, {"y", kY}}));
  const Profile profile = adding.profile({{"x", kX}, {"y", kY}});
  REQUIRE(profile.steps.size() == 1);
  CHECK(profile.steps[0].duration_us >= 40'000);
  CHECK(profile.steps[0].duration_us < 110'000);  // those before it take 160,000 by two threads
  for (PendingRun& run : before) run.wait();
}

TEST_CASE("what a trace shows on one queue of a backend does not overlap") {
  for (const bool asynchronous : {false, true}) {
    FakeBackend& fake = made(asynchronous ? "tracks_later" : "tracks_now", true, asynchronous);
    const CompiledGraph add = Session(fake.registered()).compile(FakeBackend::adding(3));
    if (asynchronous)
      fake.end = [](rlx_completion c) {
        std::thread([c] {
          std::this_thread::sleep_for(20ms);
          FakeBackend::api().complete(c, RLX_OK, nullptr);
        }).detach();
      };
    else fake.at_launch = [](const rlx_launch&) { std::this_thread::sleep_for(20ms); };
    std::vector<PendingRun> runs;
    for (int i = 0; i < 4; ++i) runs.push_back(add.run_async({{"x", kX}, {"y", kY}}));
    std::vector<DeviceWork> work;
    for (const PendingRun& run : runs) {
      run.wait();
      work.push_back(*run.event().work());
    }
    int at_the_same_time = 0;
    for (size_t a = 0; a < work.size(); ++a)
      for (size_t b = 0; b < a; ++b) {
        if (work[a].start >= work[b].end || work[b].start >= work[a].end) continue;
        ++at_the_same_time;
        CHECK(work[a].queue != work[b].queue);
      }
    CHECK(at_the_same_time > 0);
  }
}

TEST_CASE("a child of fork calls nothing of a backend that its parent opened, and is told so") {
  for (const bool memory : {false, true}) {
    FakeBackend& fake = made(memory ? "parents_there" : "parents_here", memory, true);
    const Device device = fake.registered();
    auto adding = std::make_unique<CompiledGraph>(Session(device).compile(FakeBackend::adding(3)));
    auto there = std::make_unique<DeviceTensor>(device_put(kX, device));
    there->to_host();
    const int buffers = fake.buffers, executables = fake.executables, launches = fake.launches;
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      const auto is_refused = [](auto run) {
        try {
          run();
        } catch (const Error& e) {
          return std::string(e.what()).find("cannot be used in a child of fork") != std::string::npos;
        }
        return false;
      };
      const bool told = is_refused([&] {
                          adding->run_ordered(std::vector{kX, kY});
                        }) &&
                        is_refused([&] { Session(device).compile(FakeBackend::adding(5)); });
      there.reset(), adding.reset();
      _exit(!told                                                                                     ? 1
            : fake.buffers != buffers || fake.executables != executables || fake.launches != launches ? 2
                                                                                                      : 0);
    }
    int status = -1;
    for (int i = 0; i < 20'000 && waitpid(child, &status, WNOHANG) == 0; ++i) std::this_thread::sleep_for(1ms);
    if (status == -1) kill(child, SIGKILL);
    CHECK(status == 0);
    CHECK(adding->run_ordered(std::vector{kX, kY})[0] == kSum);
  }
}

// In a process of its own, whose end is what is tested: the backend counts in a variable that the end destroys.
TEST_CASE("(child) ends while a backend is at work" * doctest::skip()) {
  FakeBackend& fake = made("at_work", std::getenv("RLX_TEST_MEMORY") != nullptr, true);
  static std::atomic<bool> has_ended{false};
  std::atexit([] { std::quick_exit(has_ended ? 0 : 3); });  // runs after what the library does at the end
  fake.end = [](rlx_completion c) {
    std::thread([c] {
      std::this_thread::sleep_for(300ms);
      has_ended = true;
      FakeBackend::api().complete(c, RLX_OK, nullptr);
    }).detach();
  };
  const CompiledGraph adding = Session(fake.registered()).compile(FakeBackend::adding(3));
  std::thread([&adding] {
    try {
      adding.run_ordered(std::vector{kX, kY});
    } catch (const Error&) {  // its result is not read any more
    }
  }).detach();
  std::this_thread::sleep_for(100ms);
  std::exit(4);
}
TEST_CASE("the end of a process waits for what a backend is at") {
  for (const bool memory : {false, true}) {
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      if (memory) setenv("RLX_TEST_MEMORY", "1", 1);
      execl("/proc/self/exe", "plugin", "--no-skip", "-tc=(child) ends while a backend is at work",
            static_cast<char*>(nullptr));
      _exit(1);
    }
    int status = -1;
    waitpid(child, &status, 0);
    CHECK(WEXITSTATUS(status) == 0);
  }
}

TEST_CASE("(child) ends while a launch goes on that ends only once it is cancelled" * doctest::skip()) {
  static FakeBackend& fake = made("to_be_cancelled", std::getenv("RLX_TEST_MEMORY") != nullptr);
  static std::atomic<bool> is_gone{false}, has_ended{false};
  static std::unique_ptr<CompiledGraph> adding;
  static std::unique_ptr<DeviceTensor> there;
  static std::shared_ptr<DeviceMemory> memory;
  std::atexit([] {  // runs after what the library does at the end
    const int buffers = fake.buffers, executables = fake.executables;
    bool is_refused = !fake.has_memory;
    if (memory && fake.has_memory) try {
        memory->allocate(4);
      } catch (const Error& e) {
        is_refused = std::string(e.what()).find("the process is ending") != std::string::npos;
      }
    there.reset(), adding.reset();
    const bool is_called = !is_refused || fake.buffers != buffers || fake.executables != executables;
    std::quick_exit(!has_ended ? 3 : is_called ? 5 : 0);
  });
  fake.describe = [](rlx_target&) {
    static const std::shared_ptr<void> made_in_open(nullptr, [](void*) { is_gone = true; });
  };
  std::atomic<bool> has_begun{false};
  fake.at_launch = [&](const rlx_launch& run) {
    has_begun = true;
    while (!FakeBackend::api().is_cancelled(run.cancel)) std::this_thread::sleep_for(1ms);
    std::this_thread::sleep_for(100ms);
    has_ended = !is_gone;
  };
  const Device device = fake.registered();
  adding = std::make_unique<CompiledGraph>(Session(device).compile(FakeBackend::adding(3)));
  there = std::make_unique<DeviceTensor>(device_put(kX, device));
  memory = backend_of(device)->memory();
  std::thread([] {
    try {
      adding->run_ordered(std::vector{kX, kY});
    } catch (const Error&) {  // of a device with memory: nothing is read from it any more
    }
  }).detach();
  while (!has_begun) std::this_thread::sleep_for(1ms);
  std::exit(4);
}
TEST_CASE("when a process ends, its launches are cancelled and waited for, and nothing of a backend is called after") {
  for (const bool memory : {false, true}) {
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      if (memory) setenv("RLX_TEST_MEMORY", "1", 1);
      execl("/proc/self/exe", "plugin", "--no-skip", "-tc=(child) ends while a launch goes on that*",
            static_cast<char*>(nullptr));
      _exit(1);
    }
    int status = -1;
    for (int i = 0; i < 20'000 && waitpid(child, &status, WNOHANG) == 0; ++i) std::this_thread::sleep_for(1ms);
    if (status == -1) kill(child, SIGKILL);
    CHECK(status == 0);
  }
}

TEST_CASE("what is no library of a plugin's is an error that says so") {
  fails(ErrorCode::io, {"no library that can be loaded", "while loading 'nowhere.so'"},
        [] { load_plugin("nowhere.so"); });
  fails(ErrorCode::io, {"no library that can be loaded"}, [] { load_plugin(""); });
}

// States (rlx/state.h): what a graph carries from run to run stays where it is, on every device, forks, is saved, and
// is torn by what fails on the way.
#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>

#include "backends/registry.h"
#include "devices/simulated/faults.h"
#include "devices/simulated/memory.h"
#include "runtime/graph_state.h"
#include "runtime/simulated_devices.h"
#include "runtime/small_model.h"
#include "support/io_files.h"

using namespace rlx;
using test::message_of;
using namespace std::chrono_literals;

namespace {

using test::kLoopback, test::kTiny;

const std::vector<Device> kDevices = {Device::cpu(), kLoopback, kTiny};

/// One token of a decoder: writes its keys and values into the cache at "at", and attends to the first T places. The
/// extent of "total", which has no elements, says how many these are.
Graph cached(Dim capacity = 16) {
  Graph g("cached");
  const Dim total = Dim::symbol("T");
  Value x = g.input("x", f32, {1, 1, 8}), at = g.input("at", i32, {});
  g.input("total", u8, {total, 0});
  const auto heads = [](Value v) { return transpose(reshape(v, {1, 1, 2, 4}), {0, 2, 1, 3}); };
  const auto projected = [&](const char* name) { return heads(linear(x, g.param(name, f32, {8, 8}))); };
  Value k = dynamic_update_axis(g.input("k", f32, {1, 2, capacity, 4}), projected("wk"), 2, at);
  Value v = dynamic_update_axis(g.input("v", f32, {1, 2, capacity, 4}), projected("wv"), 2, at);
  const auto seen = [&](Value cache) { return slice_axis(cache, 2, 0, total); };
  Value y = attention(projected("wq"), seen(k), seen(v), {.heads = 2});
  g.output(k, "k");
  g.output(reshape(transpose(y, {0, 2, 1, 3}), {1, 1, 8}), "y");
  g.output(v, "v");
  return g;
}
test::Params weights() {
  test::Params params;
  uint32_t seed = 1;
  for (const char* name : {"wk", "wv", "wq"}) params[name] = random_tensor(f32, {8, 8}, ++seed);
  return params;
}
CompiledGraph compiled_for(const Device& device, const Graph& g) {
  CompileOptions options;
  options.donate = {"k", "v"};
  CompiledGraph compiled = Session(device, {1}).compile(g, options);
  compiled.set_params(weights());
  return compiled;
}
std::vector<NamedTensor> token(int step, uint32_t seed = 100) {
  return {{"x", random_tensor(f32, {1, 1, 8}, seed + static_cast<uint32_t>(step))},
          {"at", Tensor::scalar<int32_t>(step)},
          {"total", Tensor(u8, {step + 1, 0})}};
}
/// What the reference gives for tokens one after another: y of each, and the caches after the last.
struct Followed {
  std::vector<Tensor> ys;
  Tensor k = Tensor(f32, {1, 2, 16, 4}), v = k;
};
Followed by_reference(int tokens, uint32_t seed = 100, Followed from = {}, int first = 0) {
  const Graph g = cached();
  for (int step = first; step < first + tokens; ++step) {
    std::vector<Tensor> in;
    for (auto& [name, value] : token(step, seed)) in.push_back(value);
    in.push_back(from.k), in.push_back(from.v);
    const auto out = test::by_reference(g, in, weights());
    from.k = out[0], from.ys.push_back(out[1]), from.v = out[2];
  }
  return from;
}
/// Where the elements of a state lie: host addresses, or blocks of a device.
std::vector<const void*> places(const GraphState& state) {
  std::vector<const void*> all;
  for (const auto& t : state.impl().tensors)
    all.push_back(t->buffer.block ? static_cast<const void*>(t->buffer.block.get()) : t->host.data());
  return all;
}
bool says(const std::string& message, std::initializer_list<const char*> parts) {
  for (const char* part : parts)
    if (message.find(part) == std::string::npos) {
      MESSAGE("'", std::string(part), "' is not in '", message, "'");
      return false;
    }
  return true;
}
/// "n" counts down to 0 by `by`: never, where that is 0. "s" is updated in each trip.
CompiledGraph counting_down(const Device& device) {
  Graph condition("goes_on"), body("step"), g("countdown");
  condition.output(compare(condition.input("n", f32, {}), condition.constant(Tensor::scalar(0.f)), Comparison::gt));
  condition.input("s", f32, {4}), condition.input("by", f32, {});
  Value n = body.input("n", f32, {}), s = body.input("s", f32, {4}), by = body.input("by", f32, {});
  body.output(n - by), body.output(s + 1.0), body.output(by);
  auto results =
      while_loop({g.input("n", f32, {}), g.input("s", f32, {4}), g.input("by", f32, {})}, {3, condition, body});
  g.output(results[1], "s");
  g.output(results[0], "left");
  CompileOptions options;
  options.donate = {"s"};
  return Session(device, {1}).compile(g, options);
}
std::vector<NamedTensor> counting(float n, float by) { return {{"n", Tensor::scalar(n)}, {"by", Tensor::scalar(by)}}; }

}  // namespace

TEST_CASE("a state is updated where it is, and its graph gives what the reference gives with values handed on") {
  const Followed wanted = by_reference(16);
  for (const Device& device : kDevices) {
    CAPTURE(device.name());
    const CompiledGraph step = compiled_for(device, cached());
    CHECK(step.updates_in_place());
    GraphState state = step.new_state();
    CHECK(state.device() == device);
    CHECK(state.byte_count() == 2 * 2 * 16 * 4 * 4);
    CHECK(state.entries()[0].name == "k");
    CHECK(state.entries()[1].shape == Shape{1, 2, 16, 4});
    CHECK(state.tensor("k") == Tensor(f32, {1, 2, 16, 4}));
    const auto before = places(state);
    for (int t = 0; t < 16; ++t) {
      const std::vector<Tensor> got = step.run(token(t), state);
      REQUIRE(got.size() == 1);
      CHECK(difference(got[0], wanted.ys[static_cast<size_t>(t)], 1e-5) == "");
      CHECK(places(state) == before);
    }
    CHECK(difference(state.tensor("k"), wanted.k, 1e-5) == "");
    CHECK(difference(state.tensors().at("v"), wanted.v, 1e-5) == "");
    CHECK(state.why_torn() == "");
  }
}

TEST_CASE(
    "a run with a state exchanges the other inputs and outputs with its device, and copies nothing of the state") {
  for (const Device& device : {kLoopback, kTiny}) {
    CAPTURE(device.name());
    const CompiledGraph step = compiled_for(device, cached());
    GraphState state = step.new_state();
    step.run(token(0), state);
    const Transfers before = transfers_of(device);
    step.run(token(1), state);
    const Transfers wanted{.host_waits = 1,
                           .copies_to_device = 3,
                           .bytes_to_device = 32 + 4,
                           .copies_to_host = 1,
                           .bytes_to_host = 32,
                           .donated_copies = 0};
    CHECK(transfers_of(device) - before == wanted);
    const Profile profile = step.profile(token(2), state);
    CHECK(profile.transfers == wanted);
    CHECK(!profile.steps.empty());
    for (const Profile::Step& s : profile.steps) CHECK(s.op != "copy");
  }
  const CompiledGraph step = compiled_for(Device::cpu(), cached());
  GraphState state = step.new_state();
  const Profile profile = step.profile(token(0), state);
  CHECK(profile.transfers == Transfers());
  CHECK(!profile.steps.empty());
  for (const Profile::Step& s : profile.steps) CHECK(s.op != "copy");
}

TEST_CASE("runs begun one behind another on one state, in the background, come one after another") {
  const Followed wanted = by_reference(16);
  for (const Device& device : kDevices) {
    CAPTURE(device.name());
    const CompiledGraph step = compiled_for(device, cached());
    GraphState state = step.new_state();
    const auto before = places(state);
    std::vector<PendingRun> runs;
    for (int t = 0; t < 15; ++t) runs.push_back(step.run_async(token(t), state));
    const std::vector<Tensor> last = step.run(token(15), state);  // waits for those before it
    for (size_t t = 0; t < 15; ++t) CHECK(difference(runs[t].get()[0], wanted.ys[t], 1e-5) == "");
    CHECK(difference(last[0], wanted.ys[15], 1e-5) == "");
    CHECK(places(state) == before);
  }
}

TEST_CASE("states of one graph, and copies of a state, go their own ways") {
  const Followed a = by_reference(5, 100), b = by_reference(3, 500), forked = by_reference(4, 900, a, 5);
  for (const Device& device : kDevices) {
    CAPTURE(device.name());
    const CompiledGraph step = compiled_for(device, cached());
    GraphState one = step.new_state(), other = step.new_state();
    for (int t = 0; t < 5; ++t) {
      step.run(token(t, 100), one);
      if (t < 3) step.run(token(t, 500), other);
    }
    GraphState fork = one.copy();
    for (int t = 5; t < 9; ++t) step.run(token(t, 900), fork);
    CHECK(difference(one.tensor("k"), a.k, 1e-5) == "");
    CHECK(difference(other.tensor("v"), b.v, 1e-5) == "");
    CHECK(difference(fork.tensor("v"), forked.v, 1e-5) == "");
    GraphState moved = std::move(one);
    CHECK(difference(moved.tensor("v"), a.v, 1e-5) == "");
    CHECK(says(message_of([&] { one.tensor("v"); }), {"moved away"}));  // NOLINT: what is wrong is said
  }
}

TEST_CASE("a state is dropped with its memory, also while a run with it goes on") {
  const auto blocks = [] {
    return dynamic_cast<const simulated::SimulatedMemory&>(*backend_of(kLoopback)->memory()).blocks();
  };
  const CompiledGraph step = compiled_for(kLoopback, cached());
  {
    GraphState warm = step.new_state();
    step.run(token(0), warm);
  }
  const size_t before = blocks();
  {
    std::optional<GraphState> state = step.new_state();
    CHECK(blocks() == before + 2);
    GraphState fork = state->copy();
    CHECK(blocks() == before + 4);
    const PendingRun run = step.run_async(token(0), *state);
    state.reset();
    CHECK(difference(run.get()[0], by_reference(1).ys[0], 1e-5) == "");
  }
  while (blocks() != before) std::this_thread::sleep_for(1ms);  // ctest ends a test that waits for ever
}

TEST_CASE("a state is saved, and goes on where it is loaded: with another graph, on another device") {
  const test::TemporaryFolder folder;
  const Followed wanted = by_reference(4, 100, by_reference(4, 100), 4);
  const std::string path = folder / "state.safetensors";
  const CompiledGraph first = compiled_for(Device::cpu(), cached());
  GraphState state = first.new_state();
  for (int t = 0; t < 4; ++t) first.run(token(t), state);
  state.save(path);
  for (const Device& device : kDevices) {
    const CompiledGraph again = compiled_for(device, cached());
    GraphState loaded = again.load_state(path);
    for (int t = 4; t < 8; ++t) again.run(token(t), loaded);
    CHECK(difference(loaded.tensor("k"), wanted.k, 1e-5) == "");
    if (device == Device::cpu()) {  // it fits every graph with these tensors
      first.run(token(8), loaded);
      again.run(token(9), loaded);
    }
  }
  const Tensor k(f32, {1, 2, 16, 4}), more(f32, {3});
  write_safetensors(path, {{"k", k}});
  CHECK(says(message_of([&] { first.load_state(path); }),
             {"the file has no 'v' (f32[1, 2, 16, 4]), which 'cached' updates; it has 'k'", "while loading a state"}));
  write_safetensors(path, {{"k", k}, {"v", k}, {"w", more}});
  CHECK(says(message_of([&] { first.load_state(path); }), {"'cached' updates no input 'w'; it updates 'k', 'v'"}));
  write_safetensors(path, {{"k", k}, {"v", more}});
  CHECK(says(message_of([&] { first.load_state(path); }), {"input 'v' of 'cached' is f32[1, 2, 16, 4], got f32[3]"}));
  CHECK(says(message_of([&] { first.load_state(path + ".none"); }), {"state.safetensors.none"}));
}

TEST_CASE("a state's first values are copies, and symbols in its types come from them or from extents") {
  const CompiledGraph step = compiled_for(Device::cpu(), cached(Dim::symbol("C")));
  Tensor k = random_tensor(f32, {1, 2, 20, 4}, 3);
  const Tensor kept = Tensor::of<float>(k.shape(), k.values<float>());
  GraphState given = step.new_state({{"k", k}});
  CHECK(given.entries()[1].shape == Shape{1, 2, 20, 4});
  CHECK(given.tensor("v") == Tensor(f32, {1, 2, 20, 4}));
  step.run(token(0), given);
  CHECK(k == kept);
  CHECK(given.tensor("k") != kept);
  GraphState sized = step.new_state({}, {{"C", 24}});
  CHECK(sized.entries()[0].shape == Shape{1, 2, 24, 4});
  step.run(token(3), sized);  // another extent, in turn
  step.run(token(1), given);
  CHECK(says(message_of([&] { step.new_state(); }), {"has 'k' (f32[1, 2, C, 4]), whose extent C is not known"}));
  CHECK(says(message_of([&] {
               step.new_state({{"k", k}}, {{"C", 21}});
             }),
             {"an extent of 20 does not fit the dim C", "giving 'k' of a state of 'cached' f32[1, 2, 20, 4]"}));
  CHECK(says(message_of([&] {
               step.new_state({{"k", k}, {"v", Tensor(f32, {1, 2, 21, 4})}});
             }),
             {"an extent of 21 does not fit the dim C", "giving 'v'"}));
  CHECK(says(message_of([&] { step.new_state({{"q", k}}); }), {"'cached' updates no input 'q'"}));
  CHECK(says(message_of([&] { step.new_state({}, {{"C", -3}}); }), {"-3"}));
}

TEST_CASE("a state may have no elements, and one state serves two graphs in turn") {
  const auto scaled = [](double factor) {
    Graph g("scaled");
    Value s = g.input("s", f32, {Dim::symbol("N")}) * factor + g.input("x", f32, {Dim::symbol("N")});
    g.output(reduce_sum(s, Axes{0}), "sum"), g.output(s, "s");
    return g;
  };
  CompileOptions options;
  options.donate = {"s"};
  for (const Device& device : kDevices) {
    CAPTURE(device.name());
    const Session session(device, {1});
    const CompiledGraph twice = session.compile(scaled(2), options), thrice = session.compile(scaled(3), options);
    for (int64_t n : {0, 3}) {
      GraphState state = twice.new_state({}, {{"N", n}});
      Tensor x(f32, {n});
      std::fill_n(x.mutable_values<float>().begin(), n, 1.0f);
      for (int round = 0; round < 2; ++round) {  // 1, 4, 9, 28
        twice.run({{"x", x}}, state);
        CHECK(thrice.run({{"x", x}}, state)[0] == Tensor::scalar(static_cast<float>(n * (round ? 28 : 4))));
      }
      CHECK(state.tensor("s").shape() == Shape{n});
    }
  }
}

TEST_CASE("a state that does not fit is an error that names what does not") {
  const CompiledGraph step = compiled_for(Device::cpu(), cached());
  GraphState state = step.new_state();
  const CompiledGraph longer = compiled_for(Device::cpu(), cached(17)), there = compiled_for(kLoopback, cached());
  CHECK(says(message_of([&] { longer.run(token(0), state); }),
             {"the state of 'cached' on cpu has 'k' (f32[1, 2, 16, 4]), which is f32[1, 2, 17, 4] in 'cached'"}));
  CHECK(says(message_of([&] { there.run(token(0), state); }),
             {"the state of 'cached' on cpu was given to 'cached', which was compiled for loopback"}));
  const CompiledGraph countdown = counting_down(Device::cpu());
  CHECK(says(message_of([&] { countdown.run(counting(1, 1), state); }),
             {"the state of 'cached' on cpu has no 's' (f32[4]), which 'countdown' updates; it has 'k', 'v'"}));
  Graph one("one");
  one.output(one.input("k", f32, {1, 2, 16, 4}) * 2.0, "k");
  CHECK(says(message_of([&] { compiled_for(Device::cpu(), one); }), {"'v'"}));  // donates what it has not
  CompileOptions options;
  options.donate = {"k"};
  const CompiledGraph less = Session(Device::cpu(), {1}).compile(one, options);
  CHECK(says(message_of([&] { less.run({}, state); }),
             {"the state of 'cached' on cpu has 'v' (f32[1, 2, 16, 4]), which 'one' does not update; it updates 'k'"}));
  CHECK(says(message_of([&] { Session(Device::cpu(), {1}).compile(cached()).new_state(); }),
             {"graph 'cached' updates no input, so that it has no state: donate inputs"}));
  CHECK(says(message_of([&] { state.tensor("q"); }), {"the state of 'cached' has no 'q'; it has 'k', 'v'"}));
  CHECK(says(message_of([&] { state.reset({{"k", Tensor(f32, {2})}}); }), {"has 'k' (f32[1, 2, 16, 4]), got f32[2]"}));
  std::vector<NamedTensor> twice = token(0);
  twice.emplace_back("k", Tensor(f32, {1, 2, 16, 4}));
  CHECK(says(message_of([&] { step.run(twice, state); }), {"input 'k' of 'cached' is in the state"}));
  twice.back().first = "z";
  CHECK(says(message_of([&] { step.run(twice, state); }), {"graph 'cached' has no input 'z'"}));
  CHECK(says(message_of([&] { step.run_ordered(std::vector<Tensor>(2), state); }),
             {"3 inputs that are not in its state, got 2"}));
  // None of this has touched it.
  CHECK(state.why_torn() == "");
  CHECK(difference(step.run(token(0), state)[0], by_reference(1).ys[0], 1e-5) == "");
}

TEST_CASE("what is wrong before a run begins leaves a state as it is") {
  for (const Device& device : kDevices) {
    CAPTURE(device.name());
    const CompiledGraph step = compiled_for(device, cached());
    GraphState state = step.new_state();
    step.run(token(0), state);
    std::vector<NamedTensor> wrong = token(1);
    wrong[0].second = Tensor(f32, {1, 1, 9});
    CHECK_THROWS_AS(step.run(wrong, state), Error);
    CHECK_THROWS_AS(step.run_async(wrong, state), Error);
    wrong = token(1);
    wrong[2].second = Tensor(u8, {17, 0});  // more places than there are
    if (device == Device::cpu()) CHECK_THROWS_AS(step.run(wrong, state), Error);
    CHECK(state.why_torn() == "");
    CHECK(difference(step.run(token(1), state)[0], by_reference(2).ys[1], 1e-5) == "");
  }
}

TEST_CASE("a run that is cancelled or fails leaves its state torn, which says so until it is reset") {
  for (const Device& device : {Device::cpu(), kLoopback}) {
    CAPTURE(device.name());
    const CompiledGraph countdown = counting_down(device);
    GraphState state = countdown.new_state({{"s", Tensor::of<float>({4}, {1, 2, 3, 4})}});
    countdown.run(counting(3, 1), state);
    CHECK(state.tensor("s") == Tensor::of<float>({4}, {4, 5, 6, 7}));
    GraphState fork = state.copy();
    const PendingRun endless = countdown.run_async(counting(1, 0), state);
    CHECK(!endless.wait_for(5ms));
    const PendingRun behind = countdown.run_async(counting(1, 1), state);
    endless.cancel();
    CHECK_THROWS_AS(endless.wait(), Error);
    CHECK_THROWS_AS(behind.wait(), Error);
    CHECK(says(state.why_torn(), {"the run of 'countdown'", "was cancelled"}));
    for (const auto& use : std::vector<std::function<void()>>{
             [&] { countdown.run(counting(1, 1), state); }, [&] { countdown.run_async(counting(1, 1), state); },
             [&] { state.tensor("s"); }, [&] { state.copy(); }, [&] { state.save("/nowhere"); }})
      CHECK(says(message_of(use), {"the state of 'countdown' on", "is torn", "was cancelled", "reset it"}));
    state.reset({{"s", Tensor::of<float>({4}, {5, 5, 5, 5})}});
    CHECK(state.why_torn() == "");
    countdown.run(counting(2, 1), state);
    CHECK(state.tensor("s") == Tensor::of<float>({4}, {7, 7, 7, 7}));
    state.reset();
    CHECK(state.tensor("s") == Tensor(f32, {4}));
    CHECK(fork.tensor("s") == Tensor::of<float>({4}, {4, 5, 6, 7}));
  }
  const CompiledGraph step = compiled_for(kLoopback, cached());
  GraphState state = step.new_state();
  step.run(token(0), state);
  simulated::loopback_faults().ask(simulated::Fault::launch, 1);
  CHECK_THROWS_AS(step.run(token(1), state), Error);
  CHECK(says(message_of([&] { step.run(token(1), state); }), {"is torn", "loopback failed at the run of 'cached'"}));
  simulated::loopback_faults().reset();
  state.reset();
  CHECK(difference(step.run(token(0), state)[0], by_reference(1).ys[0], 1e-5) == "");
  simulated::loopback_faults().ask(simulated::Fault::allocate, 1);  // before it begins: nothing is torn
  CHECK_THROWS_AS(step.run(token(1), state), Error);
  simulated::loopback_faults().reset();
  CHECK(difference(step.run(token(1), state)[0], by_reference(2).ys[1], 1e-5) == "");
}

TEST_CASE("an update that cannot be made in place gives the same values, and a profile counts it") {
  // The old value is read after the new one is there.
  Graph g("late");
  Value s = g.input("s", f32, {8}), x = g.input("x", f32, {8});
  Value next = s + x;
  g.output(next, "s");
  g.output(reduce_sum(next, {0}) * reduce_sum(s * 2.0, {0}), "y");
  CompileOptions options;
  options.donate = {"s"};
  for (const Device& device : kDevices) {
    CAPTURE(device.name());
    const CompiledGraph late = Session(device, {1}).compile(g, options);
    GraphState state = late.new_state();
    Tensor value(f32, {8});
    for (uint32_t t = 0; t < 5; ++t) {
      const Tensor added = random_tensor(f32, {8}, t);
      const std::vector<Tensor> wanted = interpret(g, std::vector{value, added});
      CHECK(difference(late.run({{"x", added}}, state)[0], wanted[1], 1e-5) == "");
      value = wanted[0];
      CHECK(difference(state.tensor("s"), value, 1e-6) == "");
    }
  }
  const CompiledGraph late = Session(Device::cpu(), {1}).compile(g, options);
  GraphState state = late.new_state();
  CHECK(late.profile({{"x", Tensor(f32, {8})}}, state).transfers.donated_copies == 1);
}

TEST_CASE("threads with a state each go side by side, and those that share one wait for each other") {
  Graph g("sum");
  g.output(g.input("s", f32, {64}) + g.input("x", f32, {64}), "s");
  CompileOptions options;
  options.donate = {"s"};
  Tensor one(f32, {64});
  for (float& v : one.mutable_values<float>()) v = 1;
  for (const Device& device : kDevices) {
    CAPTURE(device.name());
    const CompiledGraph sum = Session(device, {1}).compile(g, options);
    GraphState shared = sum.new_state();
    std::atomic<int> wrong = 0;
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t)
      threads.emplace_back([&, t] {
        GraphState own = sum.new_state();
        for (int i = 0; i < 50; ++i) {
          if ((i + t) % 3 == 0) sum.run_async({{"x", one}}, shared);
          else sum.run({{"x", one}}, shared);
          sum.run({{"x", one}}, own);
          if (i % 10 == t) {
            GraphState fork = own.copy();
            sum.run({{"x", one}}, fork);
            wrong += fork.tensor("s").values<float>()[63] != static_cast<float>(i + 2);
          }
        }
        wrong += own.tensor("s").values<float>()[0] != 50;
      });
    for (std::thread& thread : threads) thread.join();
    CHECK(wrong == 0);
    CHECK(shared.tensor("s").values<float>()[17] == 200);
  }
}

TEST_CASE("a state gets more room, keeps its values, and goes on") {
  const Followed wanted = by_reference(9);
  for (const Device& device : kDevices) {
    CAPTURE(device.name());
    const CompiledGraph compiled = compiled_for(device, cached(Dim::symbol("C")));
    GraphState small = compiled.new_state({}, {{"C", 6}});
    for (int step = 0; step < 5; ++step) compiled.run(token(step), small);
    GraphState large = compiled.resized_state(small, {{"C", 16}});
    CHECK(large.byte_count() == size_t{2} * 2 * 16 * 4 * sizeof(float));
    for (int step = 5; step < 9; ++step)
      CHECK(difference(compiled.run(token(step), large)[0], wanted.ys[static_cast<size_t>(step)], 1e-5) == "");
    CHECK(difference(large.tensor("k"), wanted.k, 1e-5) == "");
    CHECK(difference(large.tensor("v"), wanted.v, 1e-5) == "");  // and zeros behind
    // The first one is as it was, and a smaller one has the front of each head.
    CHECK(small.tensor("k").shape() == Shape{1, 2, 6, 4});
    const GraphState front = compiled.resized_state(large, {{"C", 3}});
    const Tensor k = front.tensor("k"), whole = large.tensor("k");
    for (size_t head = 0; head < 2; ++head)
      for (size_t i = 0; i < 12; ++i) CHECK(k.values<float>()[head * 12 + i] == whole.values<float>()[head * 64 + i]);
    CHECK(message_of([&] { compiled.resized_state(small, {}); }).find("whose extent C is not known") !=
          std::string::npos);
    // One that its owner needs no more goes tensor by tensor, where the host computes. It may be used again once reset.
    GraphState old = small.copy();
    old.impl().is_given_up = true;
    GraphState taken = compiled.resized_state(old, {{"C", 16}});
    for (int step = 5; step < 9; ++step)
      CHECK(difference(compiled.run(token(step), taken)[0], wanted.ys[static_cast<size_t>(step)], 1e-5) == "");
    CHECK(taken.tensor("k") == large.tensor("k"));
    if (device == Device::cpu()) {
      CHECK(old.impl().tensors[0]->host.byte_count() == 0);
      CHECK(message_of([&] { compiled.run(token(5), old); }).find("became those of a resized state") !=
            std::string::npos);
      old.reset({{"k", small.tensor("k")}, {"v", small.tensor("v")}});
      CHECK(difference(compiled.run(token(5), old)[0], wanted.ys[5], 1e-5) == "");
    }
  }
  const CompiledGraph here = compiled_for(Device::cpu(), cached(Dim::symbol("C")));
  const CompiledGraph there = compiled_for(kLoopback, cached(Dim::symbol("C")));
  const GraphState state = here.new_state({}, {{"C", 6}});
  CHECK(message_of([&] {
          there.resized_state(state, {{"C", 8}});
        }).find("was compiled for loopback") != std::string::npos);
}

TEST_CASE("extents of a state are found from values of several symbols, and a symbol that it has not is an error") {
  Graph g("products");
  const Dim a = Dim::symbol("A"), b = Dim::symbol("B"), c = Dim::symbol("C");
  CompileOptions options;
  const auto updated = [&](const char* name, Dims dims) {
    g.output(g.input(name, f32, std::move(dims)) + 1.0, name);
    options.donate.insert(name);
  };
  // Each tells a symbol of the one before it.
  updated("abc", {a * b * c}), updated("ab", {a * b}), updated("a", {a});
  const CompiledGraph compiled = Session(Device::cpu(), {1}).compile(g, options);
  const GraphState state =
      compiled.new_state({{"abc", Tensor(f32, {30})}, {"ab", Tensor(f32, {6})}, {"a", Tensor(f32, {2})}});
  CHECK(state.byte_count() == 38 * sizeof(float));
  CHECK(compiled.new_state({{"abc", Tensor(f32, {30})}}, {{"A", 3}, {"B", 2}}).byte_count() == 39 * sizeof(float));
  CHECK(says(message_of([&] {
               compiled.new_state({}, {{"A", 3}, {"B", 2}, {"C", 5}, {"D", 7}});
             }),
             {"`extents` has D = 7", "'abc' (f32[A*B*C]), 'ab' (f32[A*B]), 'a' (f32[A])"}));
}

// CompileOptions::bounds: the most that symbols can be. Results are those of a compile without bounds, a run with more
// is refused in every way in which a run begins, and the CPU takes the memory of the bounds at once.
#include <doctest/doctest.h>

#include <cstring>

#include "backends/cpu/schedule.h"
#include "ir/rewrite.h"
#include "rlx/artifact.h"
#include "runtime/small_model.h"
#include "support/io_files.h"

using namespace rlx;
using test::message_of;

namespace {

CompiledGraph bounded(const Device& device, const Graph& g, Bindings bounds) {
  CompileOptions options;
  options.bounds = std::move(bounds);
  CompiledGraph compiled = Session(device, {1}).compile(g, options);
  return compiled;
}

const char* const kRefusal = "'N' is 9 in a run of 'small_model', which was compiled for at most 8";

/// The message of a run of `g` on the CPU with these inputs.
std::string refusal_of(const Graph& g, Bindings bounds, std::vector<Tensor> inputs) {
  const CompiledGraph compiled = bounded(Device::cpu(), g, std::move(bounds));
  return message_of([&] { compiled.run_ordered(inputs); });
}

}  // namespace

TEST_CASE("within its bounds a graph gives what it gives without them, and beyond them an error, on every device") {
  const Graph g = test::small_model();
  const test::Params params = test::small_params();
  for (const DeviceInfo& info : devices()) {
    if (!info.available) continue;
    const Device device = info.device;
    CAPTURE(device);
    CompiledGraph compiled = bounded(device, g, {{"N", 8}});
    compiled.set_params(params);
    for (int64_t n : {5, 8, 1, 3}) {
      CAPTURE(n);
      const auto inputs = test::small_inputs(n);
      CHECK(difference(compiled.run_ordered(inputs), test::by_reference(g, inputs, params), 2e-4) == "");
    }
    const auto nine = test::small_inputs(9);
    CHECK(message_of([&] { compiled.run_ordered(nine); }).find(kRefusal) != std::string::npos);
    const std::vector<NamedTensor> named = {{"tokens", nine[0]}, {"gate", nine[1]}};
    CHECK(message_of([&] { compiled.run_async(named).get(); }).find(kRefusal) != std::string::npos);
    CHECK(message_of([&] { compiled.profile(named); }).find(kRefusal) != std::string::npos);
    std::vector<float> hidden(9 * 16), pooled(16);
    std::vector<int32_t> best(9 * 2);
    const std::vector<std::span<std::byte>> memory = {std::as_writable_bytes(std::span(hidden)),
                                                      std::as_writable_bytes(std::span(pooled)),
                                                      std::as_writable_bytes(std::span(best))};
    CHECK(message_of([&] { compiled.run_into_memory(nine, memory); }).find(kRefusal) != std::string::npos);
    const auto eight = test::small_inputs(8);  // and the graph goes on
    CHECK(difference(compiled.run_ordered(eight), test::by_reference(g, eight, params), 2e-4) == "");
  }
}

TEST_CASE("a state that is larger than a bound is refused, and stays as it was") {
  Graph g("sum");
  g.output(g.input("total", f32, {Dim::symbol("N")}) + 1.0, "total");
  CompileOptions options;
  options.bounds = {{"N", 4}}, options.donate = {"total"};
  const CompiledGraph compiled = Session(Device::cpu(), {1}).compile(g, options);
  GraphState state = compiled.new_state({{"total", random_tensor(f32, {6}, 1)}});
  const Tensor before = state.tensor("total");
  CHECK(message_of([&] { compiled.run(std::vector<NamedTensor>{}, state); }).find("at most 4") != std::string::npos);
  const Tensor after = state.tensor("total");
  CHECK(std::memcmp(before.data(), after.data(), before.byte_count()) == 0);
}

TEST_CASE("a symbol that no dim has alone is bounded as well") {
  Graph g("pairs");
  const Dim n = Dim::symbol("N"), m = Dim::symbol("M");
  const Value x = g.input("x", f32, {n * 2, m}), y = g.input("y", f32, {m});
  g.output(reduce_sum(x, {0}) + y);
  const auto inputs = [](int64_t rows, int64_t columns) {
    return std::vector<Tensor>{Tensor(f32, {rows, columns}), Tensor(f32, {columns})};
  };
  const Bindings bounds = {{"N", 3}};
  CHECK_NOTHROW(bounded(Device::cpu(), g, bounds).run_ordered(inputs(6, 50)));
  CHECK(refusal_of(g, bounds, inputs(8, 1)).find("'N' is 4") != std::string::npos);
  CHECK(refusal_of(g, {{"M", 3}}, inputs(8, 4)).find("'M' is 4") != std::string::npos);
  CHECK(refusal_of(g, bounds, inputs(7, 1)).find("2*N") != std::string::npos);  // what is wrong without a bound
}

TEST_CASE("bounds that make no sense are errors of the compile") {
  const Graph g = test::small_model();
  const auto message = [&](Bindings bounds) {
    return message_of([&] { bounded(Device::cpu(), g, std::move(bounds)); });
  };
  CHECK(message({{"M", 4}}).find("have no symbol 'M'; they have 'N'") != std::string::npos);
  CHECK(message({{"N", 0}}).find("the most that 'N' can be is 0; it is at least 1") != std::string::npos);
  CHECK(message_of([&] {
          bounded(Device::cpu(), test::small_model(4), {{"N", 4}});
        }).find("they have none") != std::string::npos);
}

TEST_CASE("bounds are kept in the file of a compiled graph") {
  const test::TemporaryFolder folder;
  const std::string path = folder / "bounded.rlxc";
  const test::Params params = test::small_params();
  bounded(Device::cpu(), test::small_model(), {{"N", 8}}).save(path, {params.begin(), params.end()});
  CHECK(artifact_info(path).options.bounds == Bindings{{"N", 8}});
  const CompiledGraph loaded = Session(Device::cpu(), {1}).load(path);
  CHECK(message_of([&] { loaded.run_ordered(test::small_inputs(9)); }).find(kRefusal) != std::string::npos);
  CHECK(loaded.run_ordered(test::small_inputs(8)).size() == 3);
}

TEST_CASE("with bounds a schedule plans its arena once, for exactly what they need, and without it grows") {
  const Dim n = Dim::symbol("N");
  Graph g("steps");
  Value x = g.input("x", f32, {4, 8}), past = g.input("past", f32, {n, 8});
  g.output(matmul(softmax(matmul(tanh(x) * 2.0, transpose(past, {1, 0})), 1), past));
  const auto planned = [&](int64_t first, Bindings bounds) {
    auto numbered = std::make_unique<Graph>(substitute(g, {{"N", first}}));
    const Graph& fixed = *numbered;
    static cpu::PackedCache packed;
    cpu::ScheduleRequest request{fixed, 1, {}, packed, [](const std::string&) { return nullptr; }};
    request.bounds = std::move(bounds);
    return std::make_unique<cpu::MovableSchedule>(g, std::move(numbered), Bindings{{"N", first}}, std::move(request));
  };
  const auto schedule = planned(5, {{"N", 2000}});
  REQUIRE(schedule->can_move());
  const size_t arenas = schedule->arena_count(), bytes = schedule->executor().arena_bytes();
  for (int64_t extent = 6; extent <= 2000; ++extent) REQUIRE(schedule->move({{"N", extent}}));
  CHECK(schedule->arena_count() == arenas);
  CHECK(schedule->executor().arena_bytes() == bytes);
  CHECK(bytes == planned(2000, {})->executor().arena_bytes());

  // What no machine has is not taken.
  CHECK(planned(5, {{"N", int64_t{1} << 50}})->executor().arena_bytes() == planned(5, {})->executor().arena_bytes());
}

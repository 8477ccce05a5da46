// Plans that move from extents to extents (plan/movable_plan.h): whatever the order of the extents, a run gives the
// bits that a plan made for its own extents gives, and what the reference gives.
#include <doctest/doctest.h>

#include <atomic>
#include <cstring>
#include <random>
#include <thread>

#include "backends/cpu/schedule.h"
#include "ir/rewrite.h"
#include "rlx/kernel.h"
#include "rlx/ops/control.h"
#include "runtime/small_model.h"

using namespace rlx;

namespace {

/// A chain of ops over x[N, 8] and y[M, 8] that views, concatenates, updates in place, multiplies and attends.
Graph random_graph(std::mt19937& random) {
  const Dim n = Dim::symbol("N"), m = Dim::symbol("M");
  Graph g("moved");
  Value w = g.param("w", f32, {8, 8});
  std::vector<Value> values = {g.input("x", f32, {n, 8}), g.input("y", f32, {m, 8})};
  const auto any = [&] { return values[random() % values.size()]; };
  for (int i = 0; i < 7; ++i) {
    Value a = any();
    switch (random() % 9) {
      case 0: values.push_back(tanh(a) * 0.5 + a); break;
      case 1: values.push_back(linear(a, w)); break;
      case 2: values.push_back(concatenate({a, any()}, 0)); break;
      case 3: values.push_back(softmax(transpose(transpose(a, {1, 0}) * 2.0, {1, 0}), 0)); break;
      case 4: values.push_back(matmul(matmul(a, transpose(a, {1, 0})), a)); break;
      case 5: values.push_back(slice_axis(concatenate({a, a}, 0), 0, a.dim(0), a.dim(0) + a.dim(0))); break;
      case 6: values.push_back(reshape(cumsum(reshape(a, {a.dim(0) * 2, 4}), 1), a.dims())); break;
      case 7: {
        const auto heads = [](Value v) { return transpose(reshape(v, {1, v.dim(0), 2, 4}), {0, 2, 1, 3}); };
        Value k = heads(any());
        values.push_back(reshape(transpose(attention(heads(a), k, k, {.heads = 2}), {0, 2, 1, 3}), {a.dim(0), 8}));
        break;
      }
      default: values.push_back(a + broadcast_in_dim(reduce_sum(any(), Axes{0}), a.dims(), {1})); break;
    }
  }
  g.output(values.back(), "last");
  g.output(transpose(values[values.size() - 2], {1, 0}), "turned");
  g.output(values[values.size() - 3], "kept");
  return g;
}

bool same_bits(const Tensor& a, const Tensor& b) {
  return a.shape() == b.shape() && std::memcmp(a.data(), b.data(), a.byte_count()) == 0;
}

}  // namespace

TEST_CASE("a plan that moves from extents to extents gives the bits of a plan made for each") {
  for (uint32_t seed = 1; seed <= 24; ++seed) {
    CAPTURE(seed);
    std::mt19937 random(seed);
    const Graph g = random_graph(random);
    const test::Params params = {{"w", random_tensor(f32, {8, 8}, seed)}};
    const Session session(Device::cpu(), {1});
    CompiledGraph moved = session.compile(g);
    moved.set_params({params.begin(), params.end()});
    for (int run = 0; run < 8; ++run) {
      constexpr int64_t kExtents[] = {1, 2, 3, 5, 17, 40, 4, 9};
      const int64_t n = kExtents[random() % 8], m = kExtents[random() % 8];
      CAPTURE(n);
      CAPTURE(m);
      const std::vector<Tensor> in = {random_tensor(f32, {n, 8}, seed + 1), random_tensor(f32, {m, 8}, seed + 2)};
      CompiledGraph exact = session.compile(g);
      exact.set_params({params.begin(), params.end()});
      const std::vector<Tensor> got = moved.run_ordered(in), wanted = exact.run_ordered(in);
      REQUIRE(got.size() == wanted.size());
      for (size_t o = 0; o < got.size(); ++o) CHECK(same_bits(got[o], wanted[o]));
      if (run % 4 == 0) CHECK(difference(got, test::by_reference(g, in, params), 1e-4) == "");
    }
  }
}

TEST_CASE("layers that are alike move to the bits of a plan made for the extents, however their operands lie") {
  for (uint32_t seed = 1; seed <= 24; ++seed) {
    CAPTURE(seed);
    std::mt19937 random(seed);
    const Dim n = Dim::symbol("N");
    Graph g("layers");
    Value x = g.input("x", f32, {n, 8}), y = g.input("y", f32, {8, n}), w = g.param("w", f32, {8, 8});
    // All f32[N, 8], of four layouts: an input, a transposed one, rows of a longer value, columns of a wider one.
    const std::vector<Value> starts = {x,
                                       transpose(y, {1, 0}),
                                       tanh(x),
                                       slice_axis(concatenate({x, x}, 0), 0, n, n + n),
                                       slice_axis(concatenate({x, x}, 1), 1, 4, 12),
                                       transpose(tanh(y), {1, 0})};
    std::vector<uint32_t> recipe(4);
    for (uint32_t& step : recipe) step = static_cast<uint32_t>(random() % 7);
    for (size_t layer = 0; layer < starts.size(); ++layer) {
      Value a = starts[layer];
      for (uint32_t step : recipe) {
        const auto heads = [&](Value v) { return transpose(reshape(v, {1, n, 2, 4}), {0, 2, 1, 3}); };
        switch (step) {
          case 0: a = softmax(a, 1); break;
          case 1: a = linear(a, w); break;
          case 2: a = transpose(cumsum(transpose(a, {1, 0}), 1), {1, 0}); break;
          case 3: a = slice_axis(concatenate({a, x}, 0), 0, 0, n); break;
          case 4: a = matmul(matmul(a, transpose(a, {1, 0})), a) * 0.1; break;
          case 5: a = a + broadcast_in_dim(reduce_sum(a, Axes{0}), a.dims(), {1}); break;
          default: a = reshape(transpose(attention(heads(a), heads(a), heads(x), {.heads = 2}), {0, 2, 1, 3}), {n, 8});
        }
      }
      g.output(a, text_of("layer", layer));
    }
    const test::Params params = {{"w", random_tensor(f32, {8, 8}, seed)}};
    const Session session(Device::cpu(), {1});
    CompiledGraph moved = session.compile(g);
    moved.set_params({params.begin(), params.end()});
    for (const int64_t extent : {3, 17, 1, 40, 2, 8, 9}) {
      CAPTURE(extent);
      const std::vector<Tensor> in = {random_tensor(f32, {extent, 8}, seed + 1),
                                      random_tensor(f32, {8, extent}, seed + 2)};
      CompiledGraph exact = session.compile(g);
      exact.set_params({params.begin(), params.end()});
      const std::vector<Tensor> got = moved.run_ordered(in), wanted = exact.run_ordered(in);
      REQUIRE(got.size() == wanted.size());
      for (size_t o = 0; o < got.size(); ++o) CHECK(same_bits(got[o], wanted[o]));
      if (extent == 40) CHECK(difference(got, test::by_reference(g, in, params), 1e-3) == "");
    }
  }
}

TEST_CASE("a schedule moves to a new extent, makes only what has the symbol, and seldom plans its arena") {
  const Dim n = Dim::symbol("N");
  Graph g("steps");
  Value x = g.input("x", f32, {4, 8}), past = g.input("past", f32, {n, 8});
  Value w = g.param("w", f32, {8, 8});
  Value query = linear(tanh(x) * 2.0, w);
  g.output(matmul(softmax(matmul(query, transpose(past, {1, 0})), 1), past));
  const Tensor weight = random_tensor(f32, {8, 8}, 1);
  cpu::PackedCache packed;
  auto numbered = std::make_unique<Graph>(substitute(g, {{"N", 5}}));
  const Graph& fixed = *numbered;
  cpu::ScheduleRequest request{fixed, 1, {}, packed, [&](const std::string&) { return &weight; }};
  cpu::MovableSchedule schedule(g, std::move(numbered), {{"N", 5}}, std::move(request));
  REQUIRE(schedule.can_move());
  size_t moves = 0;
  for (int64_t extent = 6; extent <= 2000; ++extent) moves += schedule.move({{"N", extent}});
  CHECK(moves == 1995);
  CHECK(schedule.arena_count() > 1);
  CHECK(schedule.arena_count() < 24);
  CHECK(schedule.numbered().type(g.inputs()[1]).dims[0] == Dim(2000));
  CHECK(schedule.move({{"N", 7}}));
  const size_t bytes = schedule.executor().arena_bytes();
  CHECK(schedule.move({{"N", 2000}}));
  CHECK(schedule.executor().arena_bytes() == bytes);
}

TEST_CASE("an extent whose values have more bytes than there are is an error, after which the plan moves on") {
  const Dim n = Dim::symbol("N");
  Graph g("square");
  Value sums = reduce_sum(g.input("x", f32, {n, 0}), Axes{1});  // no bytes, however many rows
  g.output(matmul(reshape(sums, {n, 1}), reshape(sums, {1, n})));
  CompiledGraph compiled = Session(Device::cpu(), {1}).compile(g);
  const auto run = [&](int64_t extent) { return compiled.run_ordered(std::vector<Tensor>{Tensor(f32, {extent, 0})}); };
  for (int round = 0; round < 2; ++round) {
    CHECK(run(4)[0].shape() == Shape{4, 4});
    CHECK_THROWS_AS(run(int64_t{1} << 32), Error);
    CHECK(run(6)[0].shape() == Shape{6, 6});
  }
}

TEST_CASE("runs of several threads, each at its own extents, share a plan that moves") {
  std::mt19937 random(7);
  const Graph g = random_graph(random);
  const Tensor w = random_tensor(f32, {8, 8}, 7);
  const auto compile = [&] {
    CompiledGraph compiled = Session(Device::cpu(), {1}).compile(g);
    compiled.set_param("w", w);
    return compiled;
  };
  std::vector<std::vector<Tensor>> inputs, wanted;
  for (int64_t n = 1; n <= 48; ++n) {  // more than the shapes that are kept
    inputs.push_back({random_tensor(f32, {n, 8}, 1), random_tensor(f32, {1 + n % 5, 8}, 2)});
    wanted.push_back(compile().run_ordered(inputs.back()));
  }
  const CompiledGraph shared = compile();
  std::atomic<int> different = 0;
  std::vector<std::thread> threads;
  for (uint32_t t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      std::mt19937 order(t);
      for (int run = 0; run < 60; ++run) {
        const size_t at = order() % inputs.size();
        const std::vector<Tensor> got = shared.run_ordered(inputs[at]);
        for (size_t o = 0; o < got.size(); ++o) different += !same_bits(got[o], wanted[at][o]);
      }
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(different == 0);
}

namespace {

/// x[N, 8] through a loop whose carry has the symbol, and a scan over its rows, whose length is the symbol.
Graph looping() {
  const Dim n = Dim::symbol("N");
  Graph condition("goes_on"), body("step"), row("row"), g("looping");
  condition.output(compare(condition.input("i", f32, {}), condition.constant(Tensor::scalar(3.f)), Comparison::lt));
  condition.input("x", f32, {n, 8});
  Value i = body.input("i", f32, {}), x = body.input("x", f32, {n, 8});
  body.output(i + 1.0);
  body.output(concatenate({slice_axis(tanh(x), 0, 1, n), slice_axis(x, 0, 0, 1)}, 0) * 1.5);
  Value carry = row.input("carry", f32, {8}), one = row.input("one", f32, {8});
  row.output(carry * 0.5 + one), row.output(carry - one);
  Value w = g.param("w", f32, {8, 8});
  Value turned =
      while_loop({g.constant(Tensor::scalar(0.f)), linear(g.input("x", f32, {n, 8}), w)}, {2, condition, body})[1];
  std::vector<Value> scanned = scan(g, {g.constant(Tensor(f32, {8})), turned}, {1, 1, n, false, row});
  g.output(scanned[0], "last"), g.output(linear(scanned[1], w), "rows");
  return g;
}

/// Runs at this extent, beside a graph compiled for it alone.
void check_at(const CompiledGraph& moved, const Graph& g, const Tensor& w, int64_t extent) {
  CAPTURE(extent);
  const std::vector<Tensor> in = {random_tensor(f32, {extent, 8}, static_cast<uint32_t>(extent))};
  CompiledGraph exact = Session(Device::cpu(), {1}).compile(g);
  exact.set_param("w", w);
  const std::vector<Tensor> got = moved.run_ordered(in), wanted = exact.run_ordered(in);
  for (size_t o = 0; o < wanted.size(); ++o) CHECK(same_bits(got[o], wanted[o]));
  CHECK(difference(got, test::by_reference(g, in, {{"w", w}}), 1e-4) == "");
}

}  // namespace

TEST_CASE("loops whose bodies and lengths have symbols move, also from one param to another") {
  const Graph g = looping();
  CompiledGraph moved = Session(Device::cpu(), {1}).compile(g);
  for (uint32_t seed : {1, 2}) {
    const Tensor w = random_tensor(f32, {8, 8}, seed);
    moved.set_param("w", w);
    for (int64_t extent : {4, 9, 1, 2, 9, 30, 4, 3}) check_at(moved, g, w, extent);
  }
}

TEST_CASE("a kernel that is registered between two extents does not change what a plan computes that moves past it") {
  const Dim n = Dim::symbol("N");
  Graph g("registered");
  g.output(cumsum(linear(g.input("x", f32, {n, 8}), g.param("w", f32, {8, 8})), 0), "y");
  const Tensor w = random_tensor(f32, {8, 8}, 3);
  CompiledGraph moved = Session(Device::cpu(), {1}).compile(g);
  moved.set_param("w", w);
  check_at(moved, g, w, 5);
  check_at(moved, g, w, 6);
  CpuKernel zeros;  // is asked of each node, and takes none
  zeros.op = &op::cumsum, zeros.name = "refuses";
  size_t asked = 0;
  zeros.refusal = [&](Types, Types, const Attrs&) {
    ++asked;
    return std::string("not this one");
  };
  zeros.prepare = [](const KernelSite&) { return PreparedKernel{}; };
  register_cpu_kernel(zeros);
  check_at(moved, g, w, 7);
  check_at(moved, g, w, 8);
  CHECK(asked > 2);
  unregister_cpu_kernel(op::cumsum, "refuses");
  check_at(moved, g, w, 9);
  check_at(moved, g, w, 5);
}

TEST_CASE("an extent that an op refuses is an error, after which the plan moves on") {
  const Dim n = Dim::symbol("N");
  Graph g("g");
  Value x = g.input("x", f32, {n, 4});
  g.output(tanh(slice_axis(x, 0, 0, 3)) + 1.0);
  CompiledGraph compiled = Session(Device::cpu(), {1}).compile(g);
  for (int64_t extent : {5, 2, 7, 3}) {
    const std::vector<Tensor> in = {random_tensor(f32, {extent, 4}, 1)};
    CAPTURE(extent);
    if (extent < 3) CHECK_THROWS_AS(compiled.run_ordered(in), Error);
    else CHECK(difference(compiled.run_ordered(in), interpret(g, in), 1e-6) == "");
  }
}

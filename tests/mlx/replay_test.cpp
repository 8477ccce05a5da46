// In modes lazy and compiled MLX's graph is built by the first run of a plan, and copied for each later one. The
// global operator new is replaced for the whole program, to count what this thread allocates.
#include <doctest/doctest.h>

#include <cstdlib>
#include <new>
#include <thread>

#include "mlx/modes.h"
#include "rlx/element.h"
#include "rlx/ops.h"
#include "rlx/session.h"
#include "support/compare.h"
#include "support/malloc_deletes.h"

namespace {
thread_local size_t allocations_here = 0;
void* counted(size_t bytes, size_t alignment = 0) {
  ++allocations_here;
  return alignment ? std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment)
                   : std::malloc(bytes ? bytes : 1);
}
void* checked(void* memory) {
  if (!memory) throw std::bad_alloc();
  return memory;
}
}  // namespace

void* operator new(size_t bytes) { return checked(counted(bytes)); }
void* operator new[](size_t bytes) { return checked(counted(bytes)); }
void* operator new(size_t bytes, const std::nothrow_t&) noexcept { return counted(bytes); }
void* operator new[](size_t bytes, const std::nothrow_t&) noexcept { return counted(bytes); }
void* operator new(size_t bytes, std::align_val_t a) { return checked(counted(bytes, static_cast<size_t>(a))); }
void* operator new[](size_t bytes, std::align_val_t a) { return checked(counted(bytes, static_cast<size_t>(a))); }

using namespace rlx;

namespace {

/// 4 nodes in each of `count` links.
Graph chain(int count) {
  Graph g("chain");
  Value x = g.input("x", f32, {4, 4}), w = g.param("w", f32, {4, 4}), b = g.param("b", f32, {4});
  for (int i = 0; i < count; ++i) x = tanh(matmul(x, w) + b) * x;
  g.output(x);
  return g;
}
/// Of a run after the first ones.
double allocations_of(const Device& device, const Graph& g) {
  CompiledGraph compiled = Session(device).compile(g);
  compiled.set_param("w", full(f32, {4, 4}, 0.25));
  compiled.set_param("b", full(f32, {4}, 0.5));
  const std::vector<Tensor> inputs{full(f32, {4, 4}, 1)};
  std::vector<Tensor> outputs(1);
  for (int i = 0; i < 3; ++i) compiled.run_into(inputs, outputs);
  const size_t before = allocations_here;
  for (int i = 0; i < 20; ++i) compiled.run_into(inputs, outputs);
  return static_cast<double>(allocations_here - before) / 20;
}

}  // namespace

TEST_CASE("a run builds no graph anew: a node more costs what MLX's own evaluation allocates for it") {
  for (const Device& device : test::mlx_modes()) {
    const std::string mode = device.options().back();
    if (mode == "eager") continue;  // it is built node by node
    const double of_node = (allocations_of(device, chain(100)) - allocations_of(device, chain(50))) / 200;
    MESSAGE(mode, ": ", of_node, " allocations for each node");
    CHECK(of_node < 16.5);
  }
}

TEST_CASE("a graph that is built once has each run's inputs, the params of now, and every kind of output") {
  const auto of = [](std::initializer_list<float> values) { return Tensor::of<float>({2, 2}, values); };
  Graph g("outputs");
  Value x = g.input("x", f32, {2, 2}), w = g.param("w", f32, {2, 2});
  g.input("unread", f32, {3});
  g.output(x, "input");
  g.output(w, "param");
  g.output(g.constant(of({1, 2, 3, 4})), "constant");
  Value y = x * x + w;  // one operand twice
  g.output(y, "sum");
  g.output(y, "the same");
  g.output(eigh(x).values, "one result of two");
  for (const Device& device : test::mlx_modes()) {
    CAPTURE(device.name());
    CompiledGraph compiled = Session(device).compile(g);
    const auto check = [&](float a, float param) {
      CAPTURE(a);
      const Tensor given = of({a, 1, 1, a}), sum = of({a * a + param, 1 + param, 1 + param, a * a + param});
      const std::vector<Tensor> got = compiled.run({{"x", given}, {"unread", full(f32, {3}, 0)}});
      CHECK(got.at(0) == given);
      CHECK(got.at(1) == full(f32, {2, 2}, param));
      CHECK(got.at(2) == of({1, 2, 3, 4}));
      CHECK(got.at(3) == sum);
      CHECK(got.at(4) == sum);
      CHECK(difference(got.at(5), Tensor::of<float>({2}, {a - 1, a + 1}), 1e-6) == "");
    };
    compiled.set_param("w", full(f32, {2, 2}, 5));
    check(2, 5), check(3, 5);
    // The graph was built by this thread: others copy it.
    std::thread([&] { check(4, 5); }).join();
    compiled.set_param("w", full(f32, {2, 2}, -1));
    std::thread([&] { check(2, -1); }).join();
    check(6, -1);
  }
}

TEST_CASE("each shape has a graph of its own, and a deep one is no deep recursion") {
  Graph g("deep");
  Value x = g.input("x", f32, {Dim::symbol("n")});
  for (int i = 0; i < 1500; ++i) x = abs(x) + 1.0;
  g.output(x);
  for (const Device& device : test::mlx_modes()) {
    CAPTURE(device.name());
    const CompiledGraph compiled = Session(device).compile(g);
    for (int round = 0; round < 2; ++round)
      for (int64_t n : {2, 3}) CHECK(compiled.run({{"x", full(f32, {n}, -2)}})[0] == full(f32, {n}, 1502));
  }
}

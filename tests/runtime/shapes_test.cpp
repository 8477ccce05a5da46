// Graphs with symbols: any size without another compile; the latest sizes are kept, older ones made again.
#include <doctest/doctest.h>

#include "runtime/small_model.h"
#include "support/io_files.h"

using namespace rlx;
using test::message_of;

TEST_CASE("a graph with symbols runs for many sizes, back and forth, and never compiles again") {
  Graph g = test::small_model();
  CompiledGraph compiled = Session(Device::cpu(), {2}).compile(g);
  compiled.set_params(test::small_params());
  const Graph* lowered = &compiled.lowered();
  for (int64_t round = 0; round < 90; ++round) {
    int64_t length = 1 + round * 29 % 45;  // more sizes than are kept
    auto inputs = test::small_inputs(length, static_cast<uint64_t>(round));
    CHECK(difference(compiled.run_ordered(inputs), test::by_reference(g, inputs, test::small_params()),
                     test::kSmallModelTolerance) == "");
  }
  CHECK(lowered == &compiled.lowered());
}

TEST_CASE("memory does not grow with the number of sizes that were seen, only with those that are kept") {
  Graph g("g");
  g.output(softmax(g.input("x", f32, {Dim::symbol("N"), 64}) * 2.0, 0));
  CompiledGraph compiled = Session(Device::cpu(), {1}).compile(g);
  auto run = [&](int64_t n) { compiled.run_ordered(std::vector{Tensor(f32, {n, 64})}); };
  for (int64_t n = 1; n <= 40; ++n) run(100 + n);
  size_t kept = compiled.memory_bytes();
  for (int64_t n = 1; n <= 200; ++n) run(100 + n % 60);
  CHECK(compiled.memory_bytes() <= kept * 3 / 2);
}

TEST_CASE(
    "symbols with sums, products and several inputs are solved, and sizes that contradict each other are refused") {
  Dim n = Dim::symbol("N"), m = Dim::symbol("M");
  Graph g("g");
  Value a = g.input("a", f32, {n, m}), b = g.input("b", f32, {m, 2 * n}), flat = g.input("flat", f32, {n * m});
  g.output(matmul(a, b));
  g.output(reshape(a, {n * m}) + flat);
  g.output(extent(g, n + m, i32));
  CompiledGraph compiled = Session(Device::cpu(), {1}).compile(g);
  for (int64_t i : {1, 2, 5})
    for (int64_t j : {0, 1, 4}) {
      std::vector<Tensor> in = {random_tensor(f32, {i, j}, 1), random_tensor(f32, {j, 2 * i}, 2),
                                random_tensor(f32, {i * j}, 3)};
      CHECK(difference(compiled.run_ordered(in), interpret(g, in), 1e-5) == "");
    }
  auto run = [&](Shape x, Shape y, Shape z) {
    return message_of([&] { compiled.run_ordered(std::vector{Tensor(f32, x), Tensor(f32, y), Tensor(f32, z)}); });
  };
  CHECK(run({2, 3}, {3, 4}, {7}).find("an extent of 7 does not fit the dim M*N") != std::string::npos);
  CHECK(run({2, 3}, {3, 5}, {6}).find("an extent of 5 does not fit the dim 2*N") != std::string::npos);
  CHECK(run({2, 3}, {4, 4}, {6}).find("an extent of 4 does not fit the dim M") != std::string::npos);
}

TEST_CASE("a failed run leaves the graph as it was") {
  Graph g = test::small_model();
  CompiledGraph compiled = Session(Device::cpu(), {1}).compile(g);
  auto inputs = test::small_inputs(4);
  CHECK_THROWS_AS(compiled.run_ordered(inputs), Error);  // nothing is bound
  compiled.set_params(test::small_params());
  CHECK_THROWS_AS(compiled.run_ordered(std::vector{inputs[0]}), Error);
  CHECK_THROWS_AS(compiled.run_ordered(std::vector{Tensor(f32, {4}), inputs[1]}), Error);
  CHECK_THROWS_AS(compiled.set_param("gamma", Tensor(f32, {17})), Error);
  CHECK(difference(compiled.run_ordered(inputs), test::by_reference(g, inputs, test::small_params()),
                   test::kSmallModelTolerance) == "");
}

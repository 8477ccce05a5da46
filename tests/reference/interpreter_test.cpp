// The judge itself: what it refuses, that it rounds once per op in low precision, and that it runs sub-graphs.
#include "reference/interpreter.h"

#include <doctest/doctest.h>

#include <cmath>

#include "rlx/ops.h"
#include "support/compare.h"
#include "support/io_files.h"

using namespace rlx;
using test::message_of;

TEST_CASE("inputs are taken in the order of the graph and params by name, and what is missing is named") {
  Graph g("g");
  Value x = g.input("x", f64, {2}), w = g.param("w", f64, {2});
  g.output(x * w);
  std::vector<Tensor> in = {Tensor::of<double>({2}, {2, 3})};
  Tensor w2 = Tensor::of<double>({2}, {5, 7});
  CHECK(interpret(g, in, {{"w", w2}})[0] == Tensor::of<double>({2}, {10, 21}));
  CHECK(message_of([&] { interpret(g, in); }) == "param 'w' of 'g' is not bound");
  CHECK(message_of([&] { interpret(g, in, {{"w", Tensor(f32, {2})}}); }) == "param 'w' is f64[2], got f32[2]");
  CHECK(message_of([&] { interpret(g, {}); }) == "graph 'g' has 1 inputs, got 0");
}

TEST_CASE("an op on f16 is computed from its operands without rounding in between, and rounded once") {
  // 2048 + 1 is a tie in f16 and stays 2048; a mean that were summed in f16 would stop growing there.
  std::vector<Half> ones(4096, to_half(1));
  std::vector<Tensor> in = {Tensor::of<Half>({4096}, ones)};
  CHECK(to_double(run_op(op::mean, {}, in)[0].values<Half>()[0]) == 1);
  // gelu is a composite: all of its parts see f32.
  std::vector<Tensor> x = {Tensor(f16, {64})};
  for (size_t i = 0; i < 64; ++i) store<double>(x[0], i, -4 + static_cast<double>(i) / 8);
  Tensor y = run_op(op::gelu, {}, x)[0];
  for (size_t i = 0; i < 64; ++i) {
    double v = load<double>(x[0], i), exact = 0.5 * v * (1 + std::erf(v / std::sqrt(2.0)));
    CHECK(load<double>(y, i) == decode_float(f16, encode_float(f16, exact)));
  }
}

TEST_CASE("sub-graphs run: a choice, and a combiner in a reduction") {
  auto constant = [](const char* name, double v) {
    Graph b(name);
    b.output(b.input("x", f64, {}) * v);
    return b;
  };
  Graph g("g");
  Value c = g.input("c", boolean, {}), x = g.input("x", f64, {});
  g.output(if_else(c, {x}, constant("twice", 2), constant("thrice", 3))[0]);
  CHECK(interpret(g, std::vector{Tensor::scalar(true), Tensor::scalar(5.0)})[0] == Tensor::scalar(10.0));
  CHECK(interpret(g, std::vector{Tensor::scalar(false), Tensor::scalar(5.0)})[0] == Tensor::scalar(15.0));

  Graph body("body");  // the sum of squares, which no named reduction is
  Value sum = body.input("sum", f64, {}), v = body.input("v", f64, {});
  body.output(sum + v * v);
  Graph r("r");
  Value y = r.input("y", f64, {2, 3});
  r.output(reduce_custom({y}, {r.constant(Tensor::scalar(100.0))}, {1}, std::move(body))[0]);
  CHECK(interpret(r, std::vector{Tensor::of<double>({2, 3}, {1, 2, 3, 4, 5, 6})})[0] ==
        Tensor::of<double>({2}, {114, 177}));
}

TEST_CASE("an op that is not in the table runs by what it brings") {
  const OpDef halve = define<>({.name = "halve",
                                .operands = {"x"},
                                .infer = [](Types in) { return in[0]; },
                                .decompose = [](Values in) { return in[0] * 0.5; }});
  std::vector<Tensor> in = {Tensor::of<float>({2}, {3, -5})};
  CHECK(run_op(halve, {}, in)[0] == Tensor::of<float>({2}, {1.5f, -2.5f}));
}

TEST_CASE("a graph with symbols takes its numbers from its inputs") {
  Dim n = Dim::symbol("N");
  Graph g("g");
  Value x = g.input("x", f64, {n});
  g.output(broadcast_in_dim(extent(g, n * n, f64), {n}, {}) + x);
  CHECK(interpret(g, std::vector{Tensor(f64, {3})})[0] == Tensor::of<double>({3}, {9, 9, 9}));
  CHECK(interpret(g, std::vector{Tensor(f64, {0})})[0] == Tensor(f64, {0}));
}

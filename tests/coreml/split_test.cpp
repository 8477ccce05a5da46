// Graphs before and after complex numbers and many dims are taken apart: the reference gives both the same numbers.
#include <doctest/doctest.h>

#include <cmath>
#include <complex>
#include <limits>

#include "ir/verify.h"
#include "passes/collapse_rank.h"
#include "passes/split_complex.h"
#include "reference/interpreter.h"
#include "rlx/ops.h"
#include "support/counted.h"

using namespace rlx;
using test::counted;

namespace {

size_t widest(const Graph& g) {
  size_t most = 0;
  for (const Node& node : g.nodes())
    for (const Type& t : node.types) most = std::max(most, t.dims.size());
  return most;
}

/// The graph of a function of one wide value.
template <class F>
Graph wide_graph(const Dims& dims, F f) {
  Graph g;
  g.output(f(g.input("x", f32, dims)), "y");
  return g;
}

void check_collapsed(const Graph& g) {
  Graph flat = collapse_rank(g, 5);
  verify(flat);
  CHECK(widest(flat) <= 5);
  Tensor x = counted(shape_of(g.input_types()[0].dims));
  Tensor wanted = interpret(g, std::array{x})[0];
  Tensor got = interpret(flat, std::array{x.reshaped(shape_of(flat.input_types()[0].dims))})[0];
  REQUIRE(got.element_count() == wanted.element_count());
  for (size_t i = 0; i < got.element_count(); ++i) CHECK(load_number(got, i) == load_number(wanted, i));
}

}  // namespace

TEST_CASE("what is done to seven dims is done to five") {
  Dims dims{2, 3, 2, 1, 3, 2, 2};
  SUBCASE("an order that five dims hold") {
    check_collapsed(wide_graph(dims, [](Value x) { return transpose(x, {4, 5, 6, 0, 1, 2, 3}); }));
  }
  SUBCASE("an order that they do not") {
    check_collapsed(wide_graph(dims, [](Value x) { return transpose(x, {6, 4, 2, 5, 3, 1, 0}); }));
    check_collapsed(wide_graph({2, 3, 4, 2, 3, 2}, [](Value x) { return transpose(x, {5, 3, 1, 4, 2, 0}); }));
  }
  SUBCASE("parts, edges and sums") {
    check_collapsed(wide_graph(dims, [](Value x) {
      return slice(x, {0, 1, 0, 0, 0, 0, 1}, {2, 3, 2, 1, 3, 1, 2}, {1, 1, 1, 1, 2, 1, 1});
    }));
    check_collapsed(wide_graph(dims, [](Value x) {
      return pad(x, scalar(x.graph(), 7, f32), {{0, 1, 0, 0, -1, 0, 2}, {1, 0, 0, 2, 0, 0, 0}, {0, 0, 1, 0, 0, 0, 1}});
    }));
    check_collapsed(wide_graph(dims, [](Value x) { return reduce_sum(x, {1, 2, 5}); }));
    check_collapsed(wide_graph(dims, [](Value x) { return reduce_max(x, {0, 3, 6}); }));
    check_collapsed(wide_graph(dims, [](Value x) { return reverse(concatenate({x, x * 2.0}, 4), {0, 4}); }));
  }
  SUBCASE("spread and counted") {
    check_collapsed(wide_graph({3, 2}, [](Value x) {
      return broadcast_in_dim(x, {2, 2, 2, 3, 2, 2}, {3, 1}) + iota(x.graph(), {f32, {2, 2, 2, 3, 2, 2}}, 3);
    }));
  }
  SUBCASE("read and written by indices of several dims") {
    // Vectors that do not stand last, of places of which some are too far.
    Tensor at(i32, {3, 2, 2, 2});
    for (size_t i = 0; i < at.element_count(); ++i)
      at.mutable_values<int32_t>()[i] = static_cast<int32_t>(i * 7 % 5) - 1;
    check_collapsed(wide_graph({4, 5, 2, 3}, [&](Value x) {
      GatherAttrs a{{1, 3, 5}, {2}, {}, {}, {0, 1}, 1, {2, 2, 1, 3}, OutOfRange::clip};
      return gather(x, x.graph().constant(at), a);
    }));
    check_collapsed(wide_graph({4, 5, 2, 3}, [&](Value x) {
      Type wide{f32, {3, 2, 2, 2, 2, 3}};
      Value updates = iota(x.graph(), wide, 0) + iota(x.graph(), wide, 4) * iota(x.graph(), wide, 5);
      ScatterAttrs a{ScatterKind::add, {1, 3, 5}, {2}, {}, {}, {0, 1}, 1};
      return scatter(x, x.graph().constant(at), updates, a);
    }));
  }
  SUBCASE("in a loop over slices") {
    check_collapsed(wide_graph({3, 2, 1, 2, 2, 2, 2}, [](Value x) {
      Type slice{f32, {2, 1, 2, 2, 2, 2}};
      Graph body = trace(std::vector{slice, slice}, [](Values v) {
        Value sum = v[0] + v[1];
        return std::vector{sum, transpose(sum, {5, 4, 3, 2, 1, 0})};
      });
      auto out = scan(x.graph(), {zeros_like(reshape(slice_axis(x, 0, 0, 1), slice.dims)), x}, {1, 1, 3, false, body});
      return reshape(out[1], {96});
    }));
  }
}

TEST_CASE("complex numbers are pairs in loops and branches too") {
  Graph g;
  Value z = g.input("z", c64, {4});
  Graph body = trace(std::vector{z.type()}, [](Values v) { return v[0] * v[0] + conjugate(v[0]); });
  Graph small = trace(std::vector{z.type()}, [](Values v) {
    Value size = reduce_max(abs(v[0]), {0});
    return compare(size, full_like(size, 100), Comparison::lt);
  });
  auto out = while_loop({z}, {1, small, body, 3});
  Graph negated = trace(std::vector{z.type()}, [](Values v) { return neg(v[0]); });
  Graph same = trace(std::vector{z.type()}, [](Values v) { return v[0] / (v[0] * v[0]); });
  Value first = reshape(real(slice_axis(z, 0, 0, 1)), {});
  Value chosen = if_else(compare(first, zeros_like(first), Comparison::gt), {z}, negated, same)[0];
  g.output(out[0], "looped");
  g.output(chosen, "chosen");
  Graph real_graph = split_complex(g);
  verify(real_graph);
  REQUIRE(real_graph.outputs().size() == 4);
  CHECK(real_graph.outputs()[1].name == "looped_im");
  Tensor x = counted({4}, c64), re(f32, {4}), im(f32, {4});
  for (size_t i = 0; i < 4; ++i) {
    auto v = load<std::complex<double>>(x, i);
    store<double>(re, i, v.real()), store<double>(im, i, v.imag());
  }
  auto wanted = interpret(g, std::array{x}), got = interpret(real_graph, std::array{re, im});
  for (size_t o = 0; o < 2; ++o)
    for (size_t i = 0; i < 4; ++i) {
      auto v = load<std::complex<double>>(wanted[o], i);
      CHECK(load_number(got[2 * o], i) == doctest::Approx(v.real()).epsilon(1e-5));
      CHECK(load_number(got[2 * o + 1], i) == doctest::Approx(v.imag()).epsilon(1e-5));
    }
}

TEST_CASE("a quotient by zero is that of the parts: infinities with their signs, and NaN") {
  Graph g;
  Value x = g.input("x", c64, {6}), y = g.input("y", c64, {6});
  g.output(x / y, "q");
  Graph parts = split_complex(g);
  verify(parts);
  auto line = [](const std::vector<float>& v) { return Tensor::of<float>({6}, v); };
  constexpr float kInf = std::numeric_limits<float>::infinity();
  Tensor x_re = line({1, 0, -3, 0, 1, 4}), x_im = line({-2, 3, 0, 0, 2, -6});
  Tensor y_re = line({0, 0, 0, 0, -0.0F, 2}), y_im = line({0, 0, 0, 0, 0, 0});
  auto got = interpret(parts, std::array{x_re, x_im, y_re, y_im});
  REQUIRE(got.size() == 2);
  auto number = [&](size_t part, size_t i) { return got[part].values<float>()[i]; };
  CHECK(number(0, 0) == kInf);
  CHECK(number(1, 0) == -kInf);
  CHECK(std::isnan(number(0, 1)));
  CHECK(number(1, 1) == kInf);
  CHECK(number(0, 2) == -kInf);
  CHECK(std::isnan(number(1, 2)));
  CHECK(std::isnan(number(0, 3)));
  CHECK(std::isnan(number(1, 3)));
  CHECK(number(0, 4) == -kInf);  // by -0
  CHECK(number(1, 4) == -kInf);
  CHECK(number(0, 5) == 2);
  CHECK(number(1, 5) == -3);
}

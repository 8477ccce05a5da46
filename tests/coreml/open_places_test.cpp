// Packages whose sizes stay open, for what reads and writes at computed places, decides and repeats, counts bits and
// slides windows: their tables and bounds are computed from the shapes of the inputs. Expected values are the
// reference's.
#include "coreml/open_packages.h"

using namespace rlx;
using namespace rlx::test;

TEST_CASE("computed places in tables of any size") {
  Graph g("places");
  Value x = g.input("x", f32, {kB, kS, 4}), at = g.input("at", i32, {kB, kS});
  Value one = reshape(at, {kB, kS, 1});
  g.output(take_along_axis(x, broadcast_in_dim(at, {kB, kS, 4}, {0, 1}), 1), "along");
  g.output(take(x, reshape(slice(at, {0, 0}, {1, 2}), {2}), 1), "rows");
  g.output(take(x, reshape(slice(at, {0, 0}, {1, 2}), {2}), 0, OutOfRange::clip), "whole");
  Value pairs = concatenate({one, one}, 2);
  g.output(gather_nd(x, pairs), "of_pairs");
  g.output(scatter_nd(x, pairs, x * 2.0, ScatterReduction::add), "added");
  g.output(scatter_elements(x, broadcast_in_dim(at, {kB, kS, 4}, {0, 1}), x + 1.0, 1), "put");
  g.output(scatter_add_rows(reshape(x, {kB * kS, 4}), reshape(at, {kB * kS}), kS + 7), "sums");
  check_open("places", g, kSizes);
}

TEST_CASE("slices that start at computed places, out of and into caches of any length") {
  Graph g("cache");
  Value cache = g.input("cache", f32, {kB, 2, kS, 4}), entry = g.input("entry", f32, {kB, 2, 1, 4});
  Value position = g.input("position", i32, {});
  Value next = dynamic_update_axis(cache, entry, 2, position);
  g.output(next, "next");
  g.output(dynamic_slice_axis(next, 2, position, 2), "last");
  g.output(dynamic_slice_axis(concatenate({cache, next}, 2), 2, position, kS + 1), "window");
  check_open("cache", g, kSizes);
}

TEST_CASE("branches and loops over values of any size") {
  Graph g("control");
  Value x = g.input("x", f32, {kB, kS}), y = g.input("y", f32, {kB, kS});
  const Type matrix{f32, {kB, kS}}, scalar_type{f32, {}};
  Value wins = compare(reduce_sum(x, {0, 1}), reduce_sum(y, {0, 1}), Comparison::gt);
  g.output(if_else(wins, {x, y}, trace(std::array{matrix, matrix}, [](Values in) { return in[0] - in[1]; }),
                   trace(std::array{matrix, matrix}, [](Values in) { return exp(in[1]) + cumsum(in[0], 1); }))[0],
           "branch");
  // Doubled until the sum of squares is large; what it captures is of the same sizes.
  WhileAttrs loop{1,
                  trace(std::array{matrix, matrix},
                        [](Values in) {
                          Value sum = reduce_sum(in[0] * in[0], {0, 1});
                          return compare(sum, scalar(sum.graph(), 50.0, f32), Comparison::lt);
                        }),
                  trace(std::array{matrix, matrix}, [](Values in) { return in[0] * 2.0 + abs(in[1]) + 0.25; }), 20};
  g.output(while_loop({x, y}, loop)[0], "grown");
  check_open("control", g, kSizes);
}

TEST_CASE("scans over sequences of any length, from both ends") {
  for (bool reverse : {false, true}) {
    Graph g("recurrence");
    Value x = g.input("x", f32, {kS, kB, 4}), h = g.input("h", f32, {kB, 4});
    Value w = g.constant(numbers({4, 4}));
    const Type state{f32, {kB, 4}};
    Graph step = trace(std::array{state, state, Type{f32, {4, 4}}}, [](Values in) -> Many<Value> {
      Value next = tanh(matmul(in[0], in[2]) + in[1]);
      return {next, compare(next, in[1], Comparison::gt), reduce_sum(next, {0})};
    });
    auto out = scan(g, {h, x, w}, ScanAttrs{1, 1, kS, reverse, step});
    g.output(out[0], "last"), g.output(out[1], "above"), g.output(out[2], "sums");
    check_open(reverse ? "scan_back" : "scan", g, kSizes);
  }
}

TEST_CASE("bits of any number of integers") {
  Graph g("bits");
  Value x = g.input("x", i32, {kB, kS}), turned = reverse(x, {1});
  g.output(bitwise_xor(x * 12345, turned), "mixed");
  g.output(popcnt(bitwise_or(x, turned * 77)), "ones");
  g.output(clz(x), "zeros");
  g.output(shift_left(x * 991, turned), "left");
  g.output(shift_right_arithmetic(x * -12345, turned), "right");
  check_open("bits", g, kSizes);
}

TEST_CASE("windows, strides that spread, and integers, over images of any size") {
  const Dim h = Dim::symbol("H"), w = Dim::symbol("W");
  const std::vector<Bindings> sizes{{{"B", 1}, {"H", 4}, {"W", 5}}, {{"B", 3}, {"H", 9}, {"W", 4}}};
  const PackageOptions options{.shapes = {{"B", {1, 4}}, {"H", {3, 64}}, {"W", {4, 64}}}};
  Graph g("windows");
  Value x = g.input("x", f32, {kB, 2, h, w});
  g.output(conv_transpose(x, g.constant(numbers({2, 3, 3, 2})), {.stride = {2, 3}, .padding = {1, 0}}), "spread");
  g.output(reduce_window(x, {.kind = Reduction::max,
                             .window_dims = {1, 1, 2, 2},
                             .window_dilation = {1, 1, 2, 1},
                             .padding_low = {0, 0, 1, 0},
                             .padding_high = {0, 0, 1, 2}}),
           "dilated");
  g.output(reduce_window(x, {.kind = Reduction::prod, .window_dims = {1, 2, 1, 3}}), "products");
  g.output(reduce_window(x, {.window_dims = {1, 1, 1, 2}, .padding_low = {0, 0, -2, -1}, .padding_high = {0, 0, 0, 0}}),
           "cut");
  g.output(pad(x, scalar(g, 1.5, f32), {{0, 0, 1, -1}, {0, 0, 0, 2}, {0, 0, 2, 1}}), "gaps");
  Dims places{kB, 2, h - 1, w - 2};
  for (Comparison select : {Comparison::ge, Comparison::lt})
    g.output(select_and_scatter(x, full(g, 1.5, {f32, places}), {select, {1, 1, 2, 3}}),
             select == Comparison::ge ? "first" : "last");
  Value up = broadcast_in_dim(x, {kB, 2, h, 2, w, 2}, {0, 1, 2, 4});  // of six dims
  g.output(reshape(up, {kB, 2, h * 2, w * 2}), "doubled");
  check_open("windows", g, sizes, options);
  Graph of_integers("integers");
  Value codes = of_integers.input("codes", i32, {kB, 2, h, w});
  of_integers.output(convolution(codes, of_integers.constant(numbers({3, 2, 2, 3}, -9, 9, i32))), "sums");
  of_integers.output(reduce_window(codes, {.kind = Reduction::max, .window_dims = {1, 1, 2, 2}}), "most");
  check_open("integers", of_integers, sizes, options);
}

// Reductions, windows, scatters and sorts by a function of one's own, of sizes that stay open too.
#include <doctest/doctest.h>

#include <cmath>

#include "passes/spell_out_combiners.h"
#include "reference/interpreter.h"
#include "rlx/element.h"
#include "rlx/ops.h"

using namespace rlx;

namespace {

/// Two running values: not commutative, so the order of the elements shows.
Graph last_and_weighted() {
  return trace(std::vector<Type>(4, Type{f32, {}}), [](Graph&, Values v) -> Many<Value> {
    return {v[0] * 0.5 + v[2], v[1] * v[2] + v[3]};
  });
}

void same_spelled_out(const Graph& g, std::vector<Tensor> in) {
  Graph spelled = spell_out_combiners(g);
  for (const Node& node : spelled.nodes()) {
    if (node.op == &op::reduce) CHECK(node.attrs.as<ReduceAttrs>().kind != Reduction::custom);
    if (node.op == &op::sort) CHECK(!node.attrs.as<SortAttrs>().comparator);
    CHECK(node.op != &op::reduce_window);
  }
  auto wanted = interpret(g, in), got = interpret(spelled, in);
  REQUIRE(wanted.size() == got.size());
  for (size_t o = 0; o < wanted.size(); ++o) {
    REQUIRE(wanted[o].type() == got[o].type());
    for (size_t i = 0; i < wanted[o].element_count(); ++i)
      CHECK(load_number(got[o], i) == doctest::Approx(load_number(wanted[o], i)).epsilon(1e-6));
  }
}

Tensor counted(Shape shape, int modulus) {
  Tensor t(f32, shape);
  for (size_t i = 0; i < t.element_count(); ++i)
    store<double>(t, i, static_cast<double>((static_cast<int>(i) * 7 + 3) % modulus) - 4);
  return t;
}

}  // namespace

TEST_CASE("a reduction by a function goes through the elements in their order") {
  for (bool open : {false, true}) {
    Dim rows = open ? Dim::symbol("R") : Dim(3);
    Graph g;
    Value x = g.input("x", {f32, {rows, 2, 4}}), y = g.input("y", {f32, {rows, 2, 4}});
    Value one = g.constant(full(f32, {}, 1)), two = g.constant(full(f32, {}, 2));
    auto out = reduce_custom({x, y}, {one, two}, {0, 2}, last_and_weighted());
    g.output(out[0], "a"), g.output(out[1], "b");
    same_spelled_out(g, {counted({3, 2, 4}, 9), counted({3, 2, 4}, 5)});
  }
}

TEST_CASE(
    "a reduction by an op of bits is spelled out without a loop, so integers of 64 bits may become pairs of words") {
  const std::array ops{&op::bitwise_and, &op::bitwise_or, &op::bitwise_xor};
  for (const OpDef* each : ops)
    for (int64_t rows : {1, 2, 5, 8}) {
      Graph g;
      Value x = g.input("x", {i64, {rows, 3}});
      Value init = g.constant(Tensor::scalar(int64_t{0x7f0f'1234'0000'ffff}));
      Graph body = trace(std::vector<Type>(2, Type{i64, {}}), [&](Values v) { return emit(*each, {v[0], v[1]}); });
      g.output(reduce_custom({x}, {init}, {0}, body)[0], "y");
      Tensor in(i64, {rows, 3});
      for (size_t i = 0; i < in.element_count(); ++i)
        in.mutable_values<int64_t>()[i] = static_cast<int64_t>(0x9e37'79b9'7f4a'7c15 * (i + 1));
      Graph spelled = spell_out_combiners(g);
      for (const Node& node : spelled.nodes()) CHECK((node.op != &op::scan && node.op != &op::reduce));
      CHECK(interpret(spelled, std::array{in})[0] == interpret(g, std::array{in})[0]);
    }
}

TEST_CASE("windows of a function hold its initial values in padding and gaps") {
  Graph g;
  Value x = g.input("x", {f32, {5, 6}}), y = g.input("y", {f32, {5, 6}});
  Value one = g.constant(full(f32, {}, 1)), two = g.constant(full(f32, {}, 2));
  ReduceWindowAttrs a{Reduction::custom, {2, 3}, {1, 2}, {1, 2}, {2, 1}, {1, 0}, {0, 2}, {}};
  a.body = last_and_weighted();
  auto out = reduce_window_custom({x, y}, {one, two}, a);
  g.output(out[0], "a"), g.output(out[1], "b");
  same_spelled_out(g, {counted({5, 6}, 9), counted({5, 6}, 5)});
}

TEST_CASE("updates by a function come one after another, and those out of range not at all") {
  Graph g;
  Value x = g.input("x", {f32, {4, 3}}), indices = g.input("i", {i32, {5, 1}}), u = g.input("u", {f32, {5, 3}});
  ScatterAttrs a{ScatterKind::custom, {1}, {0}, {}, {}, {0}, 1, {}};
  a.body =
      trace(std::vector<Type>(2, Type{f32, {}}), [](Graph&, Values v) -> Many<Value> { return v[0] * 0.5 + v[1]; });
  g.output(scatter_custom({x}, indices, {u}, a)[0], "y");
  same_spelled_out(
      g, {counted({4, 3}, 9), Tensor::of<int32_t>({5, 1}, std::vector<int32_t>{2, 0, 2, 7, -1}), counted({5, 3}, 11)});
}

TEST_CASE("a sort by a comparator is stable, and moves what goes along") {
  Graph g;
  Value x = g.input("x", {f32, {2, 9, 2}}), place = g.input("p", {i32, {2, 9, 2}});
  SortAttrs a{1, false, {}};
  // By magnitude, downwards: many ties.
  a.comparator = trace(std::vector<Type>{{f32, {}}, {f32, {}}, {i32, {}}, {i32, {}}},
                       [](Graph&, Values v) -> Many<Value> { return compare(abs(v[0]), abs(v[1]), Comparison::gt); });
  auto out = sort({x, place}, a);
  g.output(out[0], "y"), g.output(out[1], "q");
  Tensor places(i32, {2, 9, 2});
  for (size_t i = 0; i < places.element_count(); ++i) places.mutable_values<int32_t>()[i] = static_cast<int32_t>(i);
  same_spelled_out(g, {counted({2, 9, 2}, 6), places});
}

TEST_CASE("a sort by a comparator that contradicts itself loses nothing and invents nothing") {
  Graph g;
  Value x = g.input("x", {f32, {6}}), place = g.input("p", {i32, {6}});
  SortAttrs a{0, false, {}};
  a.comparator = trace(std::vector<Type>{{f32, {}}, {f32, {}}, {i32, {}}, {i32, {}}},
                       [](Graph&, Values v) -> Many<Value> { return compare(v[0], v[1], Comparison::lt); });
  auto out = sort({x, place}, a);
  g.output(out[0], "y"), g.output(out[1], "q");
  const float nan = std::nanf("");
  std::vector<float> given{3, nan, 1, nan, 2, 0.5f};
  auto got = interpret(spell_out_combiners(g), std::vector{Tensor::of<float>({6}, given),
                                                           Tensor::of<int32_t>({6}, std::vector{0, 1, 2, 3, 4, 5})});
  int seen = 0;
  for (size_t i = 0; i < 6; ++i) {
    const auto from = static_cast<size_t>(load_number(got[1], i));
    REQUIRE(from < 6);
    seen |= 1 << from;
    const float y = static_cast<float>(load_number(got[0], i));
    CHECK((y == given[from] || (std::isnan(y) && std::isnan(given[from]))));
  }
  CHECK(seen == 63);
}

TEST_CASE("a sort by a comparator whose pairs 32 bits do not count is refused with their number") {
  Graph g;
  Value x = g.input("x", {f32, {2, 60000}});
  SortAttrs a{1, false, {}};
  a.comparator = trace(std::vector<Type>{{f32, {}}, {f32, {}}},
                       [](Graph&, Values v) -> Many<Value> { return compare(v[0], v[1], Comparison::gt); });
  g.output(sort({x}, a)[0], "y");
  std::string text;
  try {
    spell_out_combiners(g);
  } catch (const Error& e) {
    text = e.what();
  }
  CHECK_MESSAGE(text.find("60000") != std::string::npos, text);
  CHECK_MESSAGE(text.find("3600000000") != std::string::npos, text);
}

TEST_CASE("what has no elements is not spelled out") {
  Graph g;
  Value x = g.input("x", {f32, {2, 3}}), one = g.constant(full(f32, {}, 1));
  ReduceWindowAttrs a{Reduction::custom, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {0, 0}, {0, 0}, {}};
  a.body =
      trace(std::vector<Type>(2, Type{f32, {}}), [](Graph&, Values v) -> Many<Value> { return v[0] * 0.5 + v[1]; });
  Value y = reduce_window_custom({x}, {one}, a)[0];
  CHECK(text_of(y.type()) == "f32[0, 1]");
  g.output(y, "y");
  Graph spelled = spell_out_combiners(g);
  CHECK(std::any_of(spelled.nodes().begin(), spelled.nodes().end(),
                    [](const Node& node) { return node.op == &op::reduce_window; }));
}

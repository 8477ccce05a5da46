// Integers of 64 bits that are numbers of 32: which become i32, which stay, and that no number changes.
#include "passes/narrow_integers.h"

#include <doctest/doctest.h>

#include "ir/leaves.h"
#include "passes/legalize.h"
#include "passes/subgraphs.h"
#include "reference/interpreter.h"
#include "rlx/element.h"
#include "rlx/graph_file.h"
#include "rlx/ops.h"
#include "support/counted.h"
#include "support/notes.h"

using namespace rlx;
using test::notes_say;

namespace {

size_t of_64_bits(const Graph& g) {
  size_t count = 0;
  for (const Node& node : g.nodes()) {
    for (const Type& t : node.types) count += t.dtype == i64 || t.dtype == u64;
    if (holds_programs(node))
      with_subgraphs(node.attrs, [&](const Graph& body) { return count += of_64_bits(body), body; });
  }
  return count;
}

/// The graph with its signature kept, which gives the same numbers, bit by bit.
Graph narrowed(const Graph& g, const std::vector<Tensor>& inputs) {
  const NarrowedIntegers made = narrow_integers(g, NarrowSignature::no);
  CHECK(made.graph.input_types() == g.input_types());
  CHECK(made.graph.output_types() == g.output_types());
  const auto got = interpret(made.graph, inputs), wanted = interpret(g, inputs);
  REQUIRE(got.size() == wanted.size());
  for (size_t i = 0; i < got.size(); ++i) CHECK(got[i] == wanted[i]);
  return made.graph;
}

/// As a backend is given it: ops that read at places are gathers.
Graph in_primitives(const Graph& g) {
  Target any;
  any.refusal = [](const Question&) -> std::optional<std::string> { return std::nullopt; };
  LegalizeOptions options;
  options.common = true;
  return legalize(g, any, options).graph;
}

}  // namespace

TEST_CASE("counts and places are computed in i32, and what i32 may not hold stays") {
  Graph g;
  Value mask = g.input("mask", boolean, {4, 6}), x = g.input("x", i64, {4});
  Value count = reduce_sum(convert(mask, i64), {1});
  g.output(convert(count * count, f32), "squares");
  g.output(count + x, "sum");
  const std::vector<Tensor> inputs = {full(boolean, {4, 6}, 1), Tensor::of<int64_t>({4}, {1, -5, int64_t{1} << 40, 0})};
  const Graph made = narrowed(g, inputs);
  CHECK(of_64_bits(g) == 5);
  CHECK(of_64_bits(made) == 3);  // x, the count as its operand, and their sum
  const auto notes = narrow_integers(g, NarrowSignature::yes).notes;
  CHECK(notes_say(notes, "reduce [0, 6]"));
  CHECK(notes_say(notes, "mul [0, 36]"));
  CHECK(notes_say(notes, "add [-2^63, 2^63-1]"));
}

TEST_CASE("an input that is only read as places becomes i32, and one that is a number does not") {
  Graph g;
  Value table = g.input("table", f32, {10, 3}), ids = g.input("ids", i64, {2, 5}), x = g.input("x", i64, {2, 5});
  Value hashed = g.input("hashed", i64, {2, 5}), shown = g.input("shown", i64, {2, 5});
  Value wrapped =
      select(compare(ids, zeros_like(ids), Comparison::lt), ids + 10.0, ids);  // as NumPy counts from the end
  g.output(take(table, wrapped, 0), "rows");
  g.output(take(table, rem(hashed * full_like(hashed, 2654435761.0), full_like(hashed, 10)), 0), "by hash");
  g.output(take(table, shown, 0), "by shown");
  g.output(shown, "shown");
  g.output(convert(x, f32), "numbers");
  const Graph legal = in_primitives(g);
  CHECK(inputs_used_as_indices(legal) == Mask{false, true, false, false, false});
  const NarrowedIntegers made = narrow_integers(legal, NarrowSignature::yes);
  CHECK(made.graph.input_types()[1] == Type{i32, {2, 5}});
  CHECK(made.graph.input_types()[2] == Type{i64, {2, 5}});
  CHECK(notes_say(made.notes, "the input 'ids' (i64[2, 5]) is i32, for only places are read of it"));
}

TEST_CASE("outputs become i32 where their numbers are known") {
  Graph g;
  Value x = g.input("x", f32, {3, 7});
  g.output(convert(argmax(x, 1), i64), "at");
  g.output(convert(x, i64), "any");
  const NarrowedIntegers made = narrow_integers(g, NarrowSignature::yes);
  CHECK(made.graph.output_types()[0].dtype == i32);
  CHECK(made.graph.output_types()[1].dtype == i64);
  CHECK(notes_say(made.notes, "the output 'at' (i64[3]) is computed in i32: its numbers are in [0, 6]"));
}

TEST_CASE("loops, scans and branches carry i32 where every trip does") {
  const Type number{i64, {}};
  const Graph condition =
      trace(std::vector<Type>(3, number), [](Values v) { return compare(v[0], v[2], Comparison::lt); });
  const Graph body = trace(std::vector<Type>(3, number), [](Values v) -> Many<Value> {
    return {v[0] + full_like(v[0], 1), v[1] * full_like(v[1], 7)};
  });
  Graph g;
  Value zero = g.constant(Tensor::of<int64_t>({}, {0})), one = g.constant(Tensor::of<int64_t>({}, {1}));
  const auto loop = while_loop({zero, one, g.constant(Tensor::of<int64_t>({}, {30}))}, {2, condition, body});
  Value xs = iota(g, {i64, {12}}, 0);
  const Graph step = trace(std::vector<Type>{number, number}, [](Values v) -> Many<Value> {
    return {minimum(v[0] + v[1], full_like(v[0], 50)), v[0] * v[1]};
  });
  const auto steps = scan(g, {zero, xs}, {.carries = 1, .xs = 1, .length = 12, .body = step});
  const Graph yes = trace(std::vector<Type>{number}, [](Values v) { return v[0] + full_like(v[0], 5); });
  const Graph no = trace(std::vector<Type>{number}, [](Values v) { return neg(v[0]); });
  Value which = g.input("which", boolean, {});
  for (const Value& v : {loop[0], loop[1], if_else(which, {loop[0]}, yes, no)[0]}) g.output(v);
  g.output(convert(steps[1], f32));
  const Graph made = narrowed(g, {full(boolean, {}, 1)});
  size_t narrow_carries = 0;
  for (const Node& node : made.nodes())
    if (node.op == &op::while_loop) narrow_carries += node.types[0].dtype == i32 && node.types[1].dtype == i64;
  CHECK(narrow_carries == 1);
  CHECK(of_64_bits(made) < of_64_bits(g));
}

TEST_CASE("shifts beyond 32 places, counts of bits and bitcasts keep their 64 bits") {
  Graph g;
  Value x = bitwise_and(g.input("x", i64, {5}), full(g, 1023, {i64, {5}}));
  g.output(shift_right_arithmetic(x, full_like(x, 40)), "far");
  g.output(clz(x), "zeros");
  g.output(bitcast(x, f64), "bits");
  g.output(shift_right_logical(x - full_like(x, 5), full_like(x, 3)), "of negatives");
  g.output(shift_left(x, full_like(x, 3)), "near");
  narrowed(g, {Tensor::of<int64_t>({5}, {0, 3, 1023, -1, 77})});
}

TEST_CASE("a graph without integers of 64 bits comes back as it was") {
  Graph g;
  Value x = g.input("x", f32, {3});
  g.output(x + x, "y");
  const NarrowedIntegers made = narrow_integers(g, NarrowSignature::yes);
  CHECK(made.graph == g);
  CHECK(made.notes.empty());
}

// Replaying, pruning, substituting symbols, and who uses what.
#include "ir/rewrite.h"

#include <doctest/doctest.h>

#include "ir/text.h"
#include "ir/verify.h"
#include "reference/interpreter.h"
#include "rlx/ops.h"
#include "support/compare.h"
#include "support/io_files.h"

using namespace rlx;
using test::message_of;

namespace {

Graph example() {
  Graph g("example");
  Value x = g.input("x", f32, {2, 3}), unused = g.input("unused", f32, {1}), w = g.param("w", f32, {3});
  g.set_scope("layer");
  Value e = exp(x);
  Value y = e + broadcast_in_dim(w, {2, 3}, {1});
  neg(y);  // dead
  exp(unused);
  g.set_scope("");
  auto best = top_k(y, 2);
  g.output(best.indices, "where");
  g.output(y, "y");
  return g;
}

}  // namespace

TEST_CASE("a rewrite without a rule gives the same graph, less what is dead") {
  Graph g = example(), same = rewritten(g, nullptr);
  verify(same);
  CHECK(same == prune(g));
  CHECK(text(same) == R"(graph @example {
  %0 = input() @"x" : f32[2, 3]
  %1 = input() @"unused" : f32[1]
  %2 = param() @"w" : f32[3]
  %3 = exp(%0) @"layer" : f32[2, 3]
  %4 = broadcast_in_dim(%2) {dims = [2, 3], axes = [1]} @"layer" : f32[2, 3]
  %5 = add(%3, %4) @"layer" : f32[2, 3]
  %6, %7 = top_k(%5) {k = 2} : f32[2, 2], i32[2, 2]
  return %7 @"where", %5 @"y"
}
)");
}

TEST_CASE("pruning keeps inputs and params, which are the signature, and is done once") {
  Graph g = example(), less = prune(g);
  CHECK(less.inputs().size() == 2);
  CHECK(less.params().size() == 1);
  CHECK(less.nodes().size() == g.nodes().size() - 2);
  CHECK(prune(less) == less);
  Graph nothing("nothing");
  nothing.output(nothing.input("x", f32, {}));
  CHECK(prune(nothing) == nothing);
}

TEST_CASE(
    "what a rule emits stands for the node, carries its name, and is fed by the values that stand for its operands") {
  Graph g = example();
  Graph other = rewritten(g, [](const Site& site) -> std::optional<std::vector<Value>> {
    if (site.node.op != &op::exp) return {};
    CHECK(&site.from.nodes()[site.index] == &site.node);
    CHECK(site.value_of(site.node.operands[0]) == site.operands[0]);
    return std::vector{logistic(site.operands[0]) * 2.0};
  });
  verify(other);
  CHECK(other.output_types() == g.output_types());
  for (const Node& node : other.nodes()) CHECK(node.op != &op::exp);
  auto made =
      std::find_if(other.nodes().begin(), other.nodes().end(), [](const Node& n) { return n.op == &op::logistic; });
  REQUIRE(made != other.nodes().end());
  CHECK(made->name == "layer");
  std::vector<Tensor> in = {random_tensor(f32, {2, 3}, 1), Tensor(f32, {1})};
  Tensor w = random_tensor(f32, {3}, 2);
  Tensor y = interpret(other, in, {{"w", w}})[1];
  for (size_t i = 0; i < 6; ++i) {
    double x = load<double>(in[0], i), want = 2 / (1 + std::exp(-x)) + load<double>(w, i % 3);
    CHECK(load<double>(y, i) == doctest::Approx(want));
  }
}

TEST_CASE("a rule that gives too few results is found out") {
  CHECK(message_of([] {
          rewritten(example(), [](const Site& site) -> std::optional<std::vector<Value>> {
            if (site.node.op != &op::top_k) return {};
            return std::vector{site.operands[0]};
          });
        }) == "a rewrite of 'top_k' gave 1 results instead of 2");
}

TEST_CASE("splicing inlines a graph: its inputs are values, its params are found by name") {
  Graph g("outer");
  Value a = g.input("a", f32, {2, 3}), u = g.input("u", f32, {1}), w = g.param("w", f32, {3});
  auto out = splice(g, example(), std::vector{-a, u});
  auto again = splice(g, example(), std::vector{a, u});
  g.output(out[1] + again[1]);
  verify(g);
  CHECK(g.params().size() == 1);
  CHECK(g.params()[0] == w.ref());
  CHECK(message_of([&] { splice(g, example(), std::vector{a}); }) == "graph 'example' has 2 inputs, got 1");
}

TEST_CASE("numbers for symbols arrive in types, attributes and sub-graphs") {
  Dim n = Dim::symbol("N");
  Graph body("body");
  body.output(broadcast_in_dim(slice(body.input("x", f32, {n, 2}), {0, 0}, {n, 1}), {n, 2}, {0, 1}), "y");
  Graph g("symbolic");
  Value c = g.input("c", boolean, {}), x = g.input("x", f32, {n, 2});
  Value y = if_else(c, {x}, body, body)[0];
  g.output(reshape(y, {2 * n}));
  g.output(iota(g, {i32, {n + 1}}, 0));
  g.output(extent(g, n * n, i64));
  Graph five = substitute(g, {{"N", 5}});
  verify(five);
  CHECK(five.output_types() == std::vector<Type>{{f32, {10}}, {i32, {6}}, {i64, {}}});
  CHECK(text(five).find("N") == std::string::npos);
  CHECK(substitute(g, {}) == g);
  CHECK(substitute(g, {{"M", 5}}) == g);
  std::vector<Tensor> in = {Tensor::scalar(true), random_tensor(f32, {5, 2}, 3)};
  CHECK(difference(interpret(g, in), interpret(five, in), 0) == "");
  CHECK(load<int64_t>(interpret(g, in)[2], 0) == 25);
}

TEST_CASE("symbols are solved from the shapes of the inputs, whichever input tells first") {
  Dim n = Dim::symbol("N"), m = Dim::symbol("M");
  Graph g("g");
  g.input("both", f32, {n * m});  // tells nothing before N or M is known
  g.input("n", f32, {2 * n + 1});
  g.input("m", f32, {m, 3});
  auto shapes = [](Shape both, Shape first, Shape second) {
    return std::vector<Tensor>{Tensor(f32, both), Tensor(f32, first), Tensor(f32, second)};
  };
  CHECK(solve_symbols(g, shapes({12}, {7}, {4, 3})) == Bindings{{"N", 3}, {"M", 4}});
  CHECK(solve_symbols(g, shapes({0}, {1}, {0, 3})) == Bindings{{"N", 0}, {"M", 0}});
  CHECK(message_of([&] {
          solve_symbols(g, shapes({13}, {7}, {4, 3}));
        }) ==
        "an extent of 13 does not fit the dim M*N\n  while feeding input 'both', which is f32[M*N], with f32[13]");
  CHECK(message_of([&] {
          solve_symbols(g, shapes({12}, {6}, {4, 3}));
        }) == "an extent of 6 does not fit the dim 2*N+1\n  while feeding input 'n', which is f32[2*N+1], with f32[6]");
  CHECK(message_of([&] {
          solve_symbols(g, shapes({12}, {7}, {4, 2}));
        }) == "an extent of 2 does not fit the dim 3\n  while feeding input 'm', which is f32[M, 3], with f32[4, 2]");
  CHECK(message_of([&] {
          solve_symbols(g, shapes({12}, {7, 1}, {4, 2}));
        }) == "input 'n' is f32[2*N+1], got f32[7, 1]");
  Graph unknown("unknown");
  unknown.input("x", f32, {n * m});
  CHECK(message_of([&] { solve_symbols(unknown, std::vector{Tensor(f32, {6})}); }) ==
        "the shapes of the inputs of 'unknown' do not determine all its symbols");
}

TEST_CASE("uses are counted once per use, and outputs for themselves") {
  Graph g("g");
  Value x = g.input("x", f32, {2}), y = exp(x), z = y * y, w = neg(x);
  g.output(z, "z");
  g.output(z, "again");
  Uses uses(g);
  CHECK(uses.of(x.ref()) == std::vector<int32_t>{y.ref().node, w.ref().node});
  CHECK(uses.of(y.ref()) == std::vector<int32_t>{z.ref().node, z.ref().node});
  CHECK(uses.of(z.ref()).empty());
  CHECK(uses.outputs(z.ref()) == 2);
  CHECK(uses.outputs(x.ref()) == 0);
  CHECK(!uses.only_one(y.ref()));  // twice by one node
  CHECK(!uses.only_one(x.ref()));
  CHECK(!uses.only_one(w.ref()));
  Graph chain("chain");
  Value a = chain.input("a", f32, {2}), b = exp(a);
  chain.output(neg(b));
  CHECK(Uses(chain).only_one(b.ref()));
}

TEST_CASE("graphs are compared by content, and values stay good when a graph moves") {
  CHECK(example() == example());
  CHECK(hash_of(example()) == hash_of(example()));
  Graph g("g");
  Value x = g.input("x", f32, {2});
  Graph copy = g, moved = std::move(g);
  moved.output(exp(x));  // x went with it
  CHECK(moved.nodes().size() == 2);
  CHECK(copy.nodes().size() == 1);
  CHECK(!(moved == copy));
}

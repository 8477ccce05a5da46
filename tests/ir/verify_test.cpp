// The verifier. What comes from text or is emitted cannot be wrong; a pass with a mistake, or an op whose rules change
// their mind, can. So the wrong graphs here are made by ops that do.
#include "ir/verify.h"

#include <doctest/doctest.h>

#include "rlx/ops.h"
#include "support/io_files.h"

using namespace rlx;
using test::error_of;
using test::message_of;

namespace {

bool honest = true;

/// Infers one type where the graph is built and another where it is verified.
const OpDef& fickle() {
  static const OpDef op = define<>({.name = "fickle",
                                    .operands = {"x"},
                                    .infer =
                                        [](Types in) {
                                          if (honest) return in[0];
                                          Type other = in[0];
                                          other.dtype = f64;
                                          return other;
                                        },
                                    .reference = [](Tensors in) { return in[0]; }});
  return op;
}
/// Takes its operand where the graph is built and refuses it where it is verified.
const OpDef& moody() {
  static const OpDef op = define<>({.name = "moody",
                                    .operands = {"x"},
                                    .infer =
                                        [](Types in) {
                                          if (!honest) fail(ErrorCode::invalid_argument, "not today");
                                          return in[0];
                                        },
                                    .reference = [](Tensors in) { return in[0]; }});
  return op;
}

struct Dishonest {
  Dishonest() { honest = false; }
  ~Dishonest() { honest = true; }
};

}  // namespace

TEST_CASE("a graph that was built verifies") {
  Graph g("sound");
  Value x = g.input("x", f32, {2, 3}), w = g.param("w", f32, {3, 4});
  g.output(softmax(matmul(x, w)));
  verify(g);
  verify(Graph("empty"));
}

TEST_CASE("a node whose types are not those that its op infers is found, and the message names it") {
  Graph g("g");
  Value x = g.input("x", f32, {2});
  g.set_scope("layer.0");
  g.output(g.emit(fickle(), {x})[0]);
  verify(g);
  Dishonest now;
  Error error = error_of([&] { verify(g); });
  CHECK(error.code() == ErrorCode::internal);
  CHECK(std::string(error.what()) ==
        "its types are [f32[2]], but its operands give [f64[2]]\n"
        "  while verifying node 1 'fickle' of 'layer.0' in graph 'g'");
}

TEST_CASE("a node that its op refuses is found") {
  Graph g("g");
  g.output(g.emit(moody(), {g.input("x", f32, {2})})[0]);
  verify(g);
  Dishonest now;
  CHECK(message_of([&] { verify(g); }) == "not today\n  while verifying node 1 'moody' in graph 'g'");
}

TEST_CASE("what is wrong inside a sub-graph is found there") {
  auto body = [](const OpDef& op) {
    Graph g("body");
    g.output(g.emit(op, {g.input("x", f32, {2})})[0]);
    return g;
  };
  Graph g("outer");
  Value c = g.input("c", boolean, {}), x = g.input("x", f32, {2});
  g.output(if_else(c, {x}, body(op::exp), body(moody()))[0]);
  verify(g);
  Dishonest now;
  CHECK(message_of([&] { verify(g); }) ==
        "not today\n  while verifying node 1 'moody' in graph 'body'\n  while verifying node 2 'if_else' in graph "
        "'outer'");
}

TEST_CASE("a sub-graph with a param is not closed") {
  auto body = [](bool with_param) {
    Graph g("body");
    Value x = g.input("x", f32, {2});
    g.output(with_param ? x + g.param("w", f32, {2}) : x);
    return g;
  };
  std::string message = message_of([&] {
    Graph g("outer");
    Value c = g.input("c", boolean, {}), x = g.input("x", f32, {2});
    g.output(if_else(c, {x}, body(false), body(true))[0]);
    verify(g);
  });
  CHECK(message.find("a sub-graph is closed: it cannot have the param 'w'; capture it as an operand") !=
        std::string::npos);
}

TEST_CASE("building refuses what could not be verified") {
  Graph g("g"), other("other");
  Value x = g.input("x", f32, {2}), elsewhere = other.input("x", f32, {2});
  CHECK(message_of([&] {
          g.emit(op::add, {x, elsewhere});
        }) == "operand 1 belongs to another graph; pass it in as an input\n  while building 'add(f32[2])'");
  CHECK(message_of([&] { g.emit(op::add, {x, Value()}); }) == "operand 1 is absent\n  while building 'add(f32[2])'");
  CHECK(message_of([&] { g.emit(op::add, {x}); }) ==
        "add takes (lhs, rhs), got 1 operand\n  while building 'add(f32[2])'");
  CHECK(message_of([&] { g.emit(op::exp, {x}, AxisAttrs{0}); }) ==
        "the attributes given to exp belong to another op\n  while building 'exp(f32[2]) {axis = 0}'");
  CHECK(message_of([&] { g.output(elsewhere); }) == "an output belongs to another graph");
  CHECK(message_of([&] { g.output(Value()); }) == "output 0 is absent");
  CHECK(message_of([&] { g.input("x", f32, {1}); }) ==
        "graph 'g' already has an input named 'x'; inputs and params share one set of names");
  CHECK(message_of([&] { g.param("x", f32, {1}); }).starts_with("graph 'g' already has an input named 'x'"));
  CHECK(message_of([&] { g.input("", f32, {1}); }) == "an input needs a name: it is fed or bound by it");
  g.output(x, "y");
  CHECK(message_of([&] { g.output(x, "y"); }) == "graph 'g' already has an output named 'y'");
  CHECK(message_of([&] { x.dim(1); }) == "there is no axis 1 in f32[2]");
  CHECK(message_of([&] { Value().type(); }) == "this value is absent; ask before using one that may be left out");
  CHECK(message_of([&] { *Subgraph(); }) == "a sub-graph attribute was left out");
  CHECK(message_of([&] {
          g.input("huge", f32, {int64_t{1} << 40, int64_t{1} << 40});
        }).starts_with("more elements than memory can ever hold"));
}

TEST_CASE("what failed to be built leaves the graph as it was") {
  Graph g("g");
  Value x = g.input("x", f32, {2, 3});
  size_t nodes = g.nodes().size();
  CHECK_THROWS_AS(matmul(x, x), Error);
  CHECK_THROWS_AS(g.input("x", f32, {1}), Error);
  verify(g);
  CHECK(g.inputs().size() == 1);
  CHECK(g.nodes().size() == nodes);
}

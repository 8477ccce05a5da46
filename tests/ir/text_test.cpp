// The textual IR: parse(print(g)) = g with names, numbering and nested sub-graphs, and print(parse(t)) = t.
#include "ir/text.h"

#include <doctest/doctest.h>

#include "rlx/graph_file.h"
#include "rlx/ops.h"
#include "support/io_files.h"

using namespace rlx;
using test::message_of;

namespace {

void round_trips(const Graph& g) {
  std::string printed = text(g);
  Graph again = parse_graph(printed);
  CHECK_MESSAGE(again == g, printed);
  CHECK(hash_of(again) == hash_of(g));
  CHECK(text(again) == printed);
}

Graph branch(std::string name, const Type& type, Value (*body)(Value)) {
  Graph g(std::move(name));
  Value x = g.input("x", type);
  g.output(body(x), "y");
  return g;
}
/// `depth` choices, one within another.
Graph nested(int depth) {
  Graph g(text_of("depth_", depth));
  Value c = g.input("c", boolean, {}), x = g.input("x", f32, {2});
  if (depth == 0) {
    g.output(exp(x), "y");
    return g;
  }
  Graph other("other");
  other.input("c", boolean, {});
  other.output(neg(other.input("x", f32, {2})), "y");
  g.output(if_else(c, {c, x}, nested(depth - 1), std::move(other))[0], "y");
  return g;
}

}  // namespace

TEST_CASE("a graph prints one node a line, with its names and types") {
  Graph g("scores");
  Value x = g.input("x", f32, {Dim::symbol("N"), 4}), w = g.param("w", f32, {4, 8});
  g.set_scope("head");
  Value y = matmul(x, w);
  g.set_scope("");
  auto best = top_k(y, 2);
  g.output(best.values, "values");
  g.output(best.indices, "places");
  CHECK(text(g) == R"(graph @scores {
  %0 = input() @"x" : f32[N, 4]
  %1 = param() @"w" : f32[4, 8]
  %2 = matmul(%0, %1) @"head" : f32[N, 8]
  %3, %4 = top_k(%2) {k = 2} : f32[N, 2], i32[N, 2]
  return %3 @"values", %4 @"places"
}
)");
  round_trips(g);
}

TEST_CASE("names with any characters come back: quotes, lines, control characters, what is no UTF-8, white space") {
  for (std::string name :
       {std::string("a b"), std::string("quote \" and \\ and \n and \t"), std::string("\x01\x7f\x1b[0m"),
        std::string("no\0thing", 8), std::string("\xff\xfe \xc3"), std::string("größe 名前 🙂"),
        std::string("%0 = input() @\"y\""), std::string("// no comment"), std::string("\r\n"), std::string(" ")}) {
    Graph g(name);
    Value x = g.input(name, f32, {2});
    g.set_scope(name + "!");
    Value y = exp(x);
    g.set_scope("");
    g.output(y, name);
    round_trips(g);
  }
  Graph unnamed("");
  unnamed.output(unnamed.input("x", f32, {}));
  round_trips(unnamed);
}

TEST_CASE("sub-graphs print as nested blocks and come back, one within another too") {
  round_trips(nested(1));
  round_trips(nested(7));
  Graph g("choose");
  Value c = g.input("c", boolean, {}), x = g.input("x", f32, {2, 3});
  auto y = if_else(c, {x}, branch("then", x.type(), [](Value v) { return exp(v); }),
                   branch("a \"quoted\" name", x.type(), [](Value v) { return -v; }));
  g.output(y[0]);
  CHECK(text(g) == R"(graph @choose {
  %0 = input() @"c" : bool[]
  %1 = input() @"x" : f32[2, 3]
  %2 = if_else(%0, %1) {then_branch = graph @then {
    %0 = input() @"x" : f32[2, 3]
    %1 = exp(%0) : f32[2, 3]
    return %1 @"y"
  }, else_branch = graph @"a \"quoted\" name" {
    %0 = input() @"x" : f32[2, 3]
    %1 = neg(%0) : f32[2, 3]
    return %1 @"y"
  }} : f32[2, 3]
  return %2 @"output"
}
)");
  round_trips(g);
}

TEST_CASE("graphs without outputs, with an output twice, with only leaves, and with unused nodes come back") {
  Graph none("none");
  none.input("x", f32, {1});
  round_trips(none);
  Graph empty("empty");
  round_trips(empty);
  Graph twice("twice");
  Value x = twice.input("x", i32, {0, 3}), p = twice.param("p", q4_0, {2, 32});
  neg(x);
  twice.output(x, "a");
  twice.output(x, "b");
  twice.output(p, "c");
  twice.output(twice.constant(Tensor::scalar<float>(-0.0f)), "d");
  round_trips(twice);
}

TEST_CASE("comments, any white space and any numbering are read, and printed as the printer prints") {
  Graph g = parse_graph(R"(// a comment
    graph @"g"{%7=input()@"x":f32[ 2 , N*2+1 ]// another
      %3
      =neg( %7 ) : f32[2, 2*N+1]  return %3})");
  CHECK(text(g) == R"(graph @g {
  %0 = input() @"x" : f32[2, 2*N+1]
  %1 = neg(%0) : f32[2, 2*N+1]
  return %1 @"output"
}
)");
}

TEST_CASE("attributes that have their defaults are left out, and all others are printed so that they read back") {
  Graph g("attributes");
  Value x = g.input("x", f64, {4, 6});
  g.output(leaky_relu(x, 0.1));
  g.output(leaky_relu(x, 1.0 / 3));
  g.output(elu(x, -0.0));
  g.output(elu(x, 5e-324));
  g.output(elu(x, INFINITY));
  g.output(softmax(x, 0));
  g.output(softmax(x));
  g.output(slice(x, {0, 1}, {4, 6}, {2, 3}));
  g.output(compare(x, x, Comparison::ge, true));
  std::string printed = text(g);
  CHECK(printed.find("leaky_relu(%0) {slope = 0.3333333333333333}") != std::string::npos);
  CHECK(printed.find("{alpha = -0}") != std::string::npos);
  CHECK(printed.find("{alpha = 5e-324}") != std::string::npos);
  CHECK(printed.find("{alpha = inf}") != std::string::npos);
  CHECK(printed.find("softmax(%0) {axis = 0}") != std::string::npos);
  CHECK(printed.find("{direction = ge, total_order = true}") != std::string::npos);
  round_trips(g);
}

TEST_CASE("a graph in a file keeps its large constants beside it, and comes back bit by bit") {
  test::TemporaryFolder folder;
  Graph g("weights");
  Tensor large = Tensor::uninitialized(f32, {64});
  for (size_t i = 0; i < large.byte_count(); ++i) large.mutable_data()[i] = static_cast<std::byte>(i * 7);
  Value w = g.constant(large), same = g.constant(large), small = g.constant(Tensor::of<float>({2}, {1, -0.0f}));
  g.output(w + same, "sum");
  g.output(small, "small");
  save_graph(folder / "g.rlx", g);
  CHECK(folder.file_count() == 2);
  CHECK(load_graph(folder / "g.rlx") == g);
  std::string written = test::file_content(folder / "g.rlx");
  CHECK(written.starts_with("rlx 1\ngraph @weights {\n"));
  CHECK(written.find("f32[64] @\"constant_0\"") != std::string::npos);
  CHECK(written.find("constant_1") == std::string::npos);  // equal constants are stored once
  CHECK(parse_graph_text(graph_text(g)) == g);             // in text alone they are written out

  save_graph(folder / "small.rlx", parse_graph("graph @g { %0 = input() @\"x\" : f32[1] return %0 }"));
  CHECK(folder.file_count() == 3);
}

TEST_CASE("sub-graphs nest 64 deep and no deeper, and what is nested deeper is refused") {
  CHECK(parse_graph(text(nested(64))) == nested(64));
  CHECK(message_of([] { parse_graph(text(nested(65))); }).find("expected sub-graphs nested at most 64 deep") !=
        std::string::npos);
  std::string bomb;
  for (int i = 0; i < 100000; ++i) bomb += "graph @g { %0 = input() @\"c\" : bool[] %1 = if_else(%0) {then_branch = ";
  CHECK(message_of([&] { parse_graph(bomb); }).find("expected sub-graphs nested at most 64 deep") != std::string::npos);
}

TEST_CASE("a long text is read in time that grows with its length, and its errors still name the line") {
  constexpr size_t kNodes = 30'000;  // some seconds, were each node's line counted from the beginning
  Graph g("long");
  Value x = g.input("x", f32, {2});
  for (size_t i = 1; i < kNodes; ++i) x = tanh(x);
  g.output(x, "y");
  std::string printed = text(g);
  CHECK(parse_graph(printed).nodes().size() == kNodes);
  size_t last = printed.rfind("tanh");
  CHECK(message_of([&] {
          parse_graph(printed.replace(last, 4, "tanj"));
        }).find(text_of("reading the node at line ", kNodes + 1)) != std::string::npos);
}

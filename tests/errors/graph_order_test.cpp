// A .rlx graph that is no DAG: values used before they are defined, or never, or defined twice.
#include <doctest/doctest.h>

#include "ir/text.h"
#include "support/io_files.h"

using namespace rlx;
using namespace rlx::test;

namespace {

std::string of(const std::string& body) {
  return message_of([&] { parse_graph("graph @g {\n" + body + "\n}"); });
}

}  // namespace

TEST_CASE("a value that is used and never defined is named") {
  CHECK(of("  %0 = input() @\"x\" : f32[2]\n  %1 = add(%0, %7) : f32[2]\n  return %1") ==
        "line 3: expected a value defined above instead of %7 (a graph is a DAG: values come before their uses) before "
        "\") : f32[2]\"\n  while reading the node at line 3");
  CHECK(of("  %0 = input() @\"x\" : f32[2]\n  return %1") ==
        "line 3: expected a value defined above instead of %1 (a graph is a DAG: values come before their uses) before "
        "the end of the line");
}

TEST_CASE("a cycle is a value used before it is defined") {
  CHECK(of("  %0 = exp(%1) : f32[2]\n  %1 = exp(%0) : f32[2]\n  return %1")
            .starts_with("line 2: expected a value defined above instead of %1 (a graph is a DAG"));
  CHECK(of("  %0 = exp(%0) : f32[2]\n  return %0")
            .starts_with("line 2: expected a value defined above instead of %0 (a graph is a DAG"));
}

TEST_CASE("a sub-graph sees only its own inputs") {
  CHECK(of("  %0 = input() @\"c\" : bool[]\n  %1 = input() @\"x\" : f32[2]\n"
           "  %2 = if_else(%0, %1) {then_branch = graph @t { %5 = input() @\"x\" : f32[2] %6 = exp(%1) : f32[2] return "
           "%6 }")
            .find("expected a value defined above instead of %1") != std::string::npos);
}

TEST_CASE("a value that is defined twice is refused, in one line or in two") {
  CHECK(of("  %0 = input() @\"x\" : f32[2]\n  %0 = exp(%0) : f32[2]\n  return %0") ==
        "line 3: expected a new name instead of %0 before \" = exp(%0) : f32[2]\"\n  while reading the node at line 3");
  CHECK(of("  %0 = input() @\"x\" : f32[4]\n  %1, %1 = top_k(%0) {k = 2} : f32[2], i32[2]\n  return %1")
            .starts_with("line 3: expected a new name instead of %1"));
}

TEST_CASE("more or fewer results than the op has are refused") {
  CHECK(of("  %0 = input() @\"x\" : f32[4]\n  %1 = top_k(%0) {k = 2} : f32[2], i32[2]\n  return %1") ==
        "line 3: expected 2 results of top_k instead of 1 before the end of the line\n  while reading the node at line "
        "3");
  CHECK(of("  %0 = input() @\"x\" : f32[4]\n  %1, %2 = exp(%0) : f32[4]\n  return %1")
            .find("expected 1 results of exp instead of 2") != std::string::npos);
}

TEST_CASE("names of inputs, params and outputs are given once") {
  CHECK(of("  %0 = input() @\"x\" : f32[2]\n  %1 = param() @\"x\" : f32[2]\n  return %0") ==
        "graph 'g' already has an input named 'x'; inputs and params share one set of names\n"
        "  while reading the node at line 3");
  CHECK(of("  %0 = input() @\"x\" : f32[2]\n  return %0 @\"y\", %0 @\"y\"") ==
        "graph 'g' already has an output named 'y'");
  CHECK(of("  %0 = input() : f32[2]\n  return %0") ==
        "an input needs a name: it is fed or bound by it\n  while reading the node at line 2");
}

TEST_CASE("a type that the op does not give is refused, and both are shown") {
  CHECK(of("  %0 = input() @\"x\" : f32[2, 3]\n  %1 = exp(%0) : f32[3, 2]\n  return %1") ==
        "exp gives f32[2, 3] here, the text says f32[3, 2]\n  while reading the node at line 3");
  CHECK(of("  %0 = input() @\"x\" : f32[2, 3]\n  %1 = exp(%0) : f16[2, 3]\n  return %1") ==
        "exp gives f32[2, 3] here, the text says f16[2, 3]\n  while reading the node at line 3");
}

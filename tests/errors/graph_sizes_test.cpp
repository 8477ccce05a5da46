// Sizes that no memory holds, in types, attributes and results, and graphs nested without end: refused before they cost
// anything.
#include <doctest/doctest.h>

#include "ir/text.h"
#include "rlx/session.h"
#include "support/io_files.h"

using namespace rlx;
using namespace rlx::test;

namespace {

std::string of_node(const std::string& node) {
  return message_of(
      [&] { parse_graph("graph @g {\n  %0 = input() @\"x\" : f32[2, 3]\n  " + node + "\n  return %1\n}"); });
}

}  // namespace

TEST_CASE("a type of more elements than memory can ever hold is refused where it is written") {
  CHECK(message_of([] { parse_graph("graph @g { %0 = input() @\"x\" : f32[9223372036854775807, 2] return %0 }"); }) ==
        "more elements than memory can ever hold: an extent of 9223372036854775807 times 1\n"
        "  while reading line 1\n  while reading the node at line 1");
  CHECK(message_of([] {
          parse_graph("graph @g { %0 = input() @\"x\" : f32[-2] return %0 }");
        }).starts_with("line 1: expected non-negative dims instead of f32[-2]"));
  CHECK(message_of([] {
          parse_graph("graph @g { %0 = input() @\"x\" : f32[99999999999999999999] return %0 }");
        }).starts_with("line 1: expected a number that its type can hold"));
}

TEST_CASE("a result of more elements than memory can ever hold is refused where it is made") {
  for (const char* node : {"%1 = broadcast_in_dim(%0) {dims = [4611686018427387904, 2, 3], axes = [1, 2]} : f32[1]",
                           "%1 = iota() {type = f32[4611686018427387904, 4]} : f32[1]",
                           "%1 = tile(%0) {repeats = [4611686018427387904, 4611686018427387904]} : f32[1]",
                           "%1 = one_hot(%0) {depth = 9223372036854775807} : f32[1]"}) {
    std::string message = of_node(node);
    CHECK_MESSAGE((message.find("more elements than memory can ever hold") != std::string::npos ||
                   message.find("overflow") != std::string::npos || message.find("integer") != std::string::npos ||
                   message.find("attribute") != std::string::npos),
                  node, ": ", message);
  }
}

TEST_CASE("tensors that are too large for this machine are out of memory, not a crash") {
  Graph g("large");
  Value x = g.input("x", f32, {1});
  g.output(g.emit(find_op("broadcast_in_dim"), {x}, [] {
    Scanner in("{dims = [36028797018963968], axes = [0]}");
    return find_op("broadcast_in_dim").parse_attrs(in);
  }())[0]);
  Error error = error_of([&] { Session(Device::cpu(), {1}).compile(g).run({{"x", Tensor(f32, {1})}}); });
  CHECK(error.code() == ErrorCode::out_of_memory);
  CHECK(std::string(error.what()).starts_with("no memory for a tensor of 144115188075855872 bytes"));
}

TEST_CASE("sub-graphs nested too deep are refused") {
  std::string bomb;
  for (int i = 0; i < 200; ++i) bomb += "graph @g { %0 = input() @\"c\" : bool[] %1 = if_else(%0) {then_branch = ";
  Error error = error_of([&] { parse_graph(bomb); });
  CHECK(error.code() == ErrorCode::parse);
  CHECK(
      std::string(error.what()).starts_with("line 1: expected sub-graphs nested at most 64 deep before \"graph @g {"));
}

TEST_CASE("an overflow in a symbolic extent is an error") {
  CHECK(message_of([] {
          parse_graph("graph @g { %0 = input() @\"x\" : f32[N*4611686018427387904*4] return %0 }");
        }).starts_with("a dim overflows: "));
}

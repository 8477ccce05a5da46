// Sizes that no memory holds, in types, attributes and results, and graphs nested without end: refused before they cost
// anything.
#include <doctest/doctest.h>

#include "ir/text.h"
#include "rlx/ops.h"
#include "rlx/session.h"
#include "support/io_files.h"

using namespace rlx;
using namespace rlx::test;

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

TEST_CASE("a result of more elements than memory can ever hold is refused, wherever it would be made") {
  constexpr int64_t kHuge = int64_t{1} << 62;
  auto running = [](auto make) {
    Graph g("large");
    Value x = g.input("x", f32, {2, 3});
    return message_of([&] {
      g.output(make(x));
      Session(Device::cpu(), {1}).compile(g).run({{"x", Tensor(f32, {2, 3})}});
    });
  };
  CHECK(running([](Value x) {
          return broadcast_in_dim(x, {kHuge, 2, 3}, {1, 2});
        }).starts_with("more elements than memory can ever hold: an extent of 4611686018427387904 times 1"));
  CHECK(running([](Value x) {
          return broadcast_in_dim(x, {kHuge, 2, 3}, {1, 2}) * 2.0;
        }).starts_with("a dim overflows: 4611686018427387904 * 2"));
  CHECK(running([](Value x) {
          return tile(x, {kHuge, kHuge});
        }).starts_with("a dim overflows: 2 * 4611686018427387904\n  while building 'tile(f32[2, 3])"));
  CHECK(running([](Value x) {
          return one_hot(convert(x, i32), INT64_MAX);
        }).starts_with("more elements than memory can ever hold: an extent of 9223372036854775807 times 6"));
  CHECK(running([](Value x) {
          return reduce_sum(one_hot(convert(x, i32), int64_t{1} << 40), {0, 1, 2});
        }).starts_with("no memory for an arena of "));
}

TEST_CASE("tensors that are too large for this machine are out of memory, not a crash") {
  Graph g("large");
  Value x = g.input("x", f32, {1});
  g.output(broadcast_in_dim(x, {int64_t{1} << 55}, {0}));
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

// Operands whose shapes do not fit: products, broadcasts, concatenations, views.
#include <doctest/doctest.h>

#include "rlx/ops.h"
#include "support/io_files.h"

using namespace rlx;
using namespace rlx::test;

TEST_CASE("a product whose inner dimensions differ says both, and what to do") {
  Graph g;
  Value lhs = g.input("lhs", f32, {8, 64}), rhs = g.input("rhs", f32, {32, 64});
  g.set_scope("blk.3.attn_q");
  Error error = error_of([&] { matmul(lhs, rhs); });
  CHECK(error.code() == ErrorCode::shape_mismatch);
  CHECK(
      std::string(error.what()) ==
      "inner dimensions differ: lhs f32[8, 64] has 64, rhs f32[32, 64] has 32; transpose one operand, or use "
      "dot_general to name the contracted axes\n  while building 'matmul(f32[8, 64], f32[32, 64])' of 'blk.3.attn_q'");
}

TEST_CASE("batches that do not broadcast in a product are said") {
  Graph g;
  Value lhs = g.input("lhs", f32, {2, 3, 4}), rhs = g.input("rhs", f32, {5, 4, 6});
  CHECK(message_of([&] {
          matmul(lhs, rhs);
        }).starts_with("batch dimensions of lhs f32[2, 3, 4] and rhs f32[5, 4, 6] do not broadcast: 2 meets 5"));
}

TEST_CASE("operands that do not broadcast are said, with the extents that meet") {
  Graph g;
  Value x = g.input("x", f32, {2, 3}), y = g.input("y", f32, {2});
  CHECK(message_of([&] { return x + y; }) ==
        "f32[2, 3] and f32[2] do not broadcast: extents 3 and 2 meet, right-aligned; one of them must be 1");
}

TEST_CASE("operands of unequal dtypes are refused, not converted") {
  Graph g;
  Value x = g.input("x", f32, {2}), y = g.input("y", f16, {2});
  CHECK(message_of([&] { return x * y; }) ==
        "operands must have one type, got f32[2] and f16[2]; convert one of them\n  while building 'mul(f32[2], "
        "f16[2])'");
  CHECK(message_of([&] { matmul(x, y); }).find("convert") != std::string::npos);
  CHECK(message_of([&] { return g.input("i", i32, {2}) * 0.5; }) ==
        "i32 cannot hold 0.5; convert the tensor to a float first");
}

TEST_CASE("other shapes that do not fit are said with their numbers") {
  Graph g;
  Value x = g.input("x", f32, {2, 3}), y = g.input("y", f32, {4, 3});
  CHECK(message_of([&] {
          concatenate({x, y}, 1);
        }) ==
        "operands must agree in dtype and in every dim but 1, got f32[2, 3] and f32[4, 3]\n"
        "  while building 'concatenate(f32[2, 3], f32[4, 3]) {axis = 1}'");
  CHECK(message_of([&] { reshape(x, {7}); }).starts_with("f32[2, 3] has 6 elements, f32[7] has 7"));
  CHECK(message_of([&] {
          slice(x, {0, 0}, {2, 4});
        }).starts_with("the slice [0, 4) does not lie within dim 1 of f32[2, 3]"));
  CHECK(message_of([&] { transpose(x, {0, 0}); }).starts_with("axis 0 is named twice"));
  CHECK(message_of([&] { softmax(x, 2); }).starts_with("axis 2 is out of range for rank 2"));
  CHECK(message_of([&] { top_k(x, 4); }).find("4") != std::string::npos);
}

TEST_CASE("symbolic extents are compared as they stand") {
  Graph g;
  Value x = g.input("x", f32, {Dim::symbol("N"), 4}), y = g.input("y", f32, {Dim::symbol("M"), 4});
  CHECK(message_of([&] { return x + y; }) ==
        "f32[N, 4] and f32[M, 4] do not broadcast: extents N and M meet, right-aligned; one of them must be 1");
  CHECK(message_of([&] { reshape(x, {8}); }).starts_with("f32[N, 4] has 4*N elements, f32[8] has 8"));
}

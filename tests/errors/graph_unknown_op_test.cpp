// An op or an attribute that there is none of, in a .rlx file.
#include <doctest/doctest.h>

#include "ir/text.h"
#include "support/io_files.h"

using namespace rlx;
using namespace rlx::test;

namespace {

std::string of_node(const std::string& node) {
  return message_of(
      [&] { parse_graph("graph @g {\n  %0 = input() @\"x\" : f32[2, 3]\n  " + node + "\n  return %1\n}"); });
}

}  // namespace

TEST_CASE("an unknown op is named, with the one that was probably meant") {
  Error error = error_of([] { parse_graph("graph @g { %0 = sofmax() : f32[1] return %0 }"); });
  CHECK(error.code() == ErrorCode::parse);
  CHECK(std::string(error.what()) ==
        "there is no op 'sofmax'; is 'softmax' meant?\n  while reading the node at line 1");
  CHECK(of_node("%1 = matmull(%0, %0) : f32[2, 3]") ==
        "there is no op 'matmull'; is 'matmul' meant?\n  while reading the node at line 3");
  CHECK(of_node("%1 = Add(%0, %0) : f32[2, 3]") ==
        "there is no op 'Add'; is 'add' meant?\n  while reading the node at line 3");
}

TEST_CASE("an op like no other is named, with where to look") {
  CHECK(of_node("%1 = quantum_fourier(%0) : f32[2, 3]") ==
        "there is no op 'quantum_fourier'; `rlx ops` lists them all\n  while reading the node at line 3");
  CHECK(of_node("%1 = " + std::string(1000000, 'a') + "(%0) : f32[2, 3]") ==
        "there is no op '" + std::string(64, 'a') + "'; `rlx ops` lists them all\n  while reading the node at line 3");
}

TEST_CASE("an unknown attribute is named, with those that the op has") {
  CHECK(of_node("%1 = softmax(%0) {axes = 1} : f32[2, 3]") ==
        "line 3: expected a known attribute (axis) instead of 'axes' before \" 1} : f32[2, 3]\"\n"
        "  while reading the node at line 3");
  CHECK(of_node("%1 = exp(%0) {axis = 1} : f32[2, 3]") ==
        "line 3: expected a known attribute () instead of 'axis' before \" 1} : f32[2, 3]\"\n"
        "  while reading the node at line 3");
}

TEST_CASE("an attribute given twice, or of another kind, is refused") {
  CHECK(of_node("%1 = softmax(%0) {axis = 1, axis = 0} : f32[2, 3]") ==
        "line 3: expected 'axis' only once before \" = 0} : f32[2, 3]\"\n  while reading the node at line 3");
  CHECK(of_node("%1 = softmax(%0) {axis = last} : f32[2, 3]") ==
        "line 3: expected a number before \"last} : f32[2, 3]\"\n  while reading the node at line 3");
  CHECK(of_node("%1 = softmax(%0) {axis = 1.5} : f32[2, 3]") ==
        "line 3: expected ',' before \".5} : f32[2, 3]\"\n  while reading the node at line 3");
  CHECK(of_node("%1 = compare(%0, %0) {direction = less} : bool[2, 3]") ==
        "line 3: expected one of eq, ne, lt, le, gt, ge instead of 'less' before \"} : bool[2, 3]\"\n"
        "  while reading the node at line 3");
  CHECK(of_node("%1 = softmax(%0) {axis = 9223372036854775808} : f32[2, 3]") ==
        "line 3: expected a number that its type can hold before \"9223372036854775808} : f\"\n"
        "  while reading the node at line 3");
}

TEST_CASE("an axis that the operand does not have is refused, however far off") {
  CHECK(of_node("%1 = softmax(%0) {axis = 2} : f32[2, 3]") ==
        "axis 2 is out of range for rank 2; it goes from -2 to 1\n  while building 'softmax(f32[2, 3]) {axis = 2}'\n"
        "  while reading the node at line 3");
  CHECK(of_node("%1 = softmax(%0) {axis = -9223372036854775808} : f32[2, 3]")
            .starts_with("axis -9223372036854775808 is out of range for rank 2"));
}

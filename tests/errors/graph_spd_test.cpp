// Operands of the ops on positive definite matrices whose types or attributes do not fit.
#include <doctest/doctest.h>

#include "rlx/ops.h"
#include "support/io_files.h"

using namespace rlx;
using namespace rlx::test;

TEST_CASE("a matrix that is not square, complex or of a low precision is refused with what to do") {
  Graph g;
  CHECK(message_of([&] {
          spd_matrix_fn(g.input("x", f64, {2, 3}), SpdFunction::log);
        }) ==
        "x must be square, got f64[2, 3] with 2 rows and 3 columns\n"
        "  while building 'spd_matrix_fn(f64[2, 3]) {}'");
  CHECK(message_of([&] {
          reeig(g.input("h", f16, {2, 2}));
        }).starts_with("x must be f32, f64, c64 or c128, got f16[2, 2]; convert it to f32 first"));
  CHECK(message_of([&] {
          logeig(g.input("c", c64, {2, 2}));
        }).starts_with("x must be f32 or f64, got c64[2, 2]; these ops are for real matrices"));
  CHECK(message_of([&] {
          logeig(g.input("v", f32, {2}));
        }).starts_with("x must be a matrix or a stack of them, got f32[2] of rank 1"));
}

TEST_CASE("a weight that does not fit what it maps is said with both types") {
  Graph g;
  Value w = g.input("w", f32, {2, 4}), x = g.input("x", f32, {5, 3, 3});
  Error error = error_of([&] { bimap(w, x); });
  CHECK(error.code() == ErrorCode::shape_mismatch);
  CHECK(std::string(error.what()) ==
        "w must be f32 with 3 columns to go with x f32[5, 3, 3], got f32[2, 4]\n"
        "  while building 'bimap(f32[2, 4], f32[5, 3, 3])'");
  CHECK(message_of([&] {
          bimap(g.input("w2", f32, {2, 2, 3}), x);
        }).find("do not broadcast: 2 meets 5") != std::string::npos);
}

TEST_CASE("operands of the manifold's ops that differ are said") {
  Graph g;
  Value p = g.input("p", f64, {3, 3}), q = g.input("q", f64, {2, 2}), x = g.input("x", f64, {4, 3, 3});
  CHECK(message_of([&] { spd_log_map(p, q); }) ==
        "x must be f64[3, 3] to go with base, got f64[2, 2]\n"
        "  while building 'spd_log_map(f64[3, 3], f64[2, 2]) {}'");
  CHECK(message_of([&] { spd_exp_map(p, x); }).starts_with("v must be f64[3, 3] to go with base, got f64[4, 3, 3]"));
  CHECK(message_of([&] {
          spd_parallel_transport(p, q, p);
        }).starts_with("to must be f64[3, 3] to go with from, got f64[2, 2]"));
  CHECK(message_of([&] { spd_batch_norm(x, p, q); }).starts_with("g must be f64[3, 3] to go with x, got f64[2, 2]"));
  CHECK(message_of([&] { spd_batch_norm(p, p, p); }).find("f64[3, 3]") != std::string::npos);
}

TEST_CASE("a mean of what is no batch, and weights of another length, are refused") {
  Graph g;
  Value p = g.input("p", f64, {3, 3}), x = g.input("x", f64, {4, 3, 3}), w = g.input("w", f64, {5});
  CHECK(error_of([&] { spd_karcher_mean(p); }).code() == ErrorCode::shape_mismatch);
  CHECK(message_of([&] { spd_karcher_mean(x, w); }).starts_with("weights must be f64[4] to go with x, got f64[5]"));
  CHECK(message_of([&] {
          spd_karcher_mean(x, {}, {.max_iterations = 0});
        }).starts_with("max_iterations must be at least 1, got 0"));
  CHECK(message_of([&] {
          spd_karcher_mean(x, {}, {.tolerance = -1});
        }).starts_with("tolerance must not be negative, got -1"));
}

TEST_CASE("a floor that is no number is refused") {
  Graph g;
  Value x = g.input("x", f64, {2, 2});
  double nan = std::numeric_limits<double>::quiet_NaN(), inf = std::numeric_limits<double>::infinity();
  CHECK(message_of([&] { reeig(x, nan); }).starts_with("floor must be a number, or -inf for none, got nan"));
  CHECK(message_of([&] {
          spd_matrix_fn(x, SpdFunction::sqrt, inf);
        }).starts_with("floor must be a number, or -inf for none, got inf"));
}

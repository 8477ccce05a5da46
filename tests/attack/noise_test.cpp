// The judge of tests/attack: what rounding explains is excused, and a wrong number is found, however the graph enlarges
// rounding elsewhere.
#include "attack/noise.h"

#include <doctest/doctest.h>

#include <cmath>

#include "reference/interpreter.h"
#include "rlx/element.h"
#include "rlx/graph_file.h"

using namespace rlx;
using namespace rlx::attack;

namespace {

Tensor numbers(DType dtype, std::vector<double> all) {
  Array<double> t({std::ssize(all)});
  t.data = std::move(all);
  return t.rounded_to(dtype);
}

/// What is said of `got` where the reference has its own.
Compared judged(const std::string& body, const Tensor& x, const std::function<void(Tensor&)>& change,
                bool relaxed = false) {
  const Graph g = parse_graph_text("rlx 1\ngraph @g {\n" + body + "}\n");
  const std::vector<Tensor> inputs = {x};
  const auto wanted = interpret(g, inputs);
  auto got = wanted;
  Tensor changed(got[0].dtype(), got[0].shape());
  for (size_t i = 0; i < changed.element_count(); ++i) {
    if (is_float(changed.dtype())) store<double>(changed, i, load<double>(got[0], i));
    else store<int64_t>(changed, i, load<int64_t>(got[0], i));
  }
  change(changed);
  got[0] = changed;
  Random random(7);
  return compare_with_noise({g, inputs, {}, false, relaxed}, got, wanted, random);
}

const std::string kSoftmax = R"(  %0 = input() @"x" : f32[5]
  %1 = softmax(%0) : f32[5]
  return %1 @"y"
)";
/// Adding a number and taking it away leaves its rounding.
const std::string kCancelling = R"(  %0 = input() @"x" : f32[5]
  %1 = constant() {value = f32[5] [10000, 10000, 10000, 10000, 10000]} : f32[5]
  %2 = add(%0, %1) : f32[5]
  %3 = sub(%2, %1) : f32[5]
  return %3 @"y"
)";
const std::string kLargest = R"(  %0 = input() @"x" : f32[5]
  %1 = exp(%0) : f32[5]
  %2 = argmax(%1) : i32[]
  return %2 @"y"
)";
const Tensor kX = numbers(f32, {0.1, 0.7, -0.3, 0.25, 0.6});

}  // namespace

TEST_CASE("an element that is off by more than its roundings is found") {
  for (double by : {1e-5, -1e-3, 1.0, std::nan(""), HUGE_VAL}) {
    CAPTURE(by);
    CHECK(judged(kSoftmax, kX, [&](Tensor& y) { store<double>(y, 3, load<double>(y, 3) + by); }).why != "");
  }
  CHECK(judged(kSoftmax, kX, [](Tensor&) {}).why == "");
}

TEST_CASE("where a difference cancels, what is rounded away is excused, and no more") {
  // One rounding of 10,000 is 2^-11: half a unit in the last place.
  const Compared near = judged(kCancelling, kX, [](Tensor& y) { store<double>(y, 1, 0.7 + std::ldexp(1, -11)); });
  CHECK(near.why == "");
  CHECK(near.excused[size_t(Excuse::carried)] == 1);
  CHECK(judged(kCancelling, kX, [](Tensor& y) { store<double>(y, 1, 0.8); }).why != "");
}

TEST_CASE("an index may be another one where two elements are a rounding apart, and nowhere else") {
  const auto to_four = [](Tensor& y) { store<int64_t>(y, 0, int64_t{4}); };
  CHECK(judged(kLargest, kX, to_four).why != "");
  const Compared tie = judged(kLargest, numbers(f32, {0.1, 0.7, -0.3, 0.25, 0.7 - 6e-8}), to_four);
  CHECK(tie.why == "");
  CHECK(tie.excused[size_t(Excuse::flipped)] == 1);
}

TEST_CASE("the inverse of a matrix that is singular but for rounding may be NaN, and no other") {
  const std::string inverse = R"(  %0 = input() @"x" : f32[3, 3]
  %1 = inverse(%0) : f32[3, 3]
  return %1 @"y"
)";
  const auto matrix = [](std::initializer_list<double> of) {
    Tensor x(f32, {3, 3});
    size_t i = 0;
    for (double each : of) store<double>(x, i++, each);
    return x;
  };
  const auto lost = [](Tensor& y) { store<double>(y, 0, std::nan("")); };
  const Compared singular = judged(inverse, matrix({0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9}), lost);
  CHECK(singular.why == "");
  CHECK(singular.excused[size_t(Excuse::not_finite)] == 1);
  CHECK(judged(inverse, matrix({4, 1, 0, 1, 3, 1, 0, 1, 2}), lost).why != "");
}

TEST_CASE("what overflows in f16 need not do so where `relaxed` computes in f32, but must be that number") {
  const std::string squares = R"(  %0 = input() @"x" : f16[2]
  %1 = mul(%0, %0) : f16[2]
  %2 = sqrt(%1) : f16[2]
  return %2 @"y"
)";
  const Tensor x = numbers(f16, {300, 2});
  const auto finite = [](Tensor& y) { store<double>(y, 0, 300.0); };
  CHECK(judged(squares, x, finite).why != "");
  CHECK(judged(squares, x, finite, true).why == "");
  CHECK(judged(
            squares, x, [](Tensor& y) { store<double>(y, 1, 3.0); }, true)
            .why != "");
}

TEST_CASE("`relaxed` widens f16 and bf16, and leaves narrower floats beside them as they are") {
  // An f32 that overflows in f16: native keeps it in f32 within a fused op, and its sine is a number.
  const std::string sine = R"(  %0 = input() @"x" : f8e4m3fn[2]
  %1 = convert(%0) {dtype = f32} : f32[2]
  %2 = constant() {value = f32[2] [1000, 1]} : f32[2]
  %3 = mul(%1, %2) : f32[2]
  %4 = convert(%3) {dtype = f16} : f16[2]
  %5 = sin(%4) : f16[2]
  return %5 @"y"
)";
  const Tensor x = numbers(DType::f8e4m3fn, {96, 2});  // 96,000 is beyond f16
  const auto in_f32 = [](Tensor& y) { store<double>(y, 0, std::sin(96000.0)); };
  CHECK(judged(sine, x, in_f32).why != "");
  CHECK(judged(sine, x, in_f32, true).why == "");
}

TEST_CASE("the sign of a right singular vector is open where the singular value is 0, and nowhere else") {
  const std::string vectors = R"(  %0 = input() @"x" : f32[2, 1, 1]
  %1, %2, %3 = svd(%0) : f32[2, 1, 1], f32[2, 1], f32[2, 1, 1]
  return %3 @"vt"
)";
  Tensor x(f32, {2, 1, 1});
  store<double>(x, 0, 0.0), store<double>(x, 1, 3.0);
  CHECK(judged(vectors, x, [](Tensor& y) { store<double>(y, 0, -1.0); }).why == "");
  CHECK(judged(vectors, x, [](Tensor& y) { store<double>(y, 1, -1.0); }).why != "");
}

TEST_CASE("functions of one matrix have its eigenvalues in common: both are NaN, or neither is") {
  // A matrix of rank one, whose other eigenvalues rounding makes positive or not.
  const std::string difference = R"(  %0 = input() @"x" : f32[3, 3]
  %1 = spd_matrix_fn(%0) : f32[3, 3]
  %2 = spd_matrix_fn_backward(%0, %0) : f32[3, 3]
  %3 = spd_matrix_fn(%0) {function = inverse_sqrt} : f32[3, 3]
  %4 = add(%1, %2) : f32[3, 3]
  %5 = add(%4, %3) : f32[3, 3]
  %6 = constant() {value = f32[] [0]} : f32[]
  %7 = broadcast_in_dim(%6) {dims = [3, 3]} : f32[3, 3]
  %8 = compare(%5, %5) : bool[3, 3]
  %9 = select(%8, %7, %5) : f32[3, 3]
  return %9 @"y"
)";
  Tensor x(f32, {3, 3});
  for (size_t i = 0; i < 9; ++i) store<double>(x, i, 1.0);
  const auto all_zero = [](Tensor& y) {
    for (size_t i = 0; i < 9; ++i) store<double>(y, i, 0.0);
  };
  CHECK(judged(difference, x, all_zero).why == "");
  // A number that no eigenvalues give is found even so.
  Tensor regular(f32, {3, 3});
  for (size_t i = 0; i < 9; ++i) store<double>(regular, i, i % 4 == 0 ? 2.0 : 0.5);
  CHECK(judged(difference, regular, [](Tensor& y) { store<double>(y, 4, std::nan("")); }).why != "");
}

TEST_CASE("a right-hand side that is infinite reaches all unknowns, or those alone that depend on it") {
  const std::string solved = R"(  %0 = input() @"x" : f32[3, 1]
  %1 = constant() {value = f32[3, 3] [2, 0, 0, 0, 4, 0, 0, 0, 8]} : f32[3, 3]
  %2 = solve(%1, %0) : f32[3, 1]
  return %2 @"y"
)";
  Tensor x(f32, {3, 1});
  store<double>(x, 0, 6.0), store<double>(x, 1, HUGE_VAL), store<double>(x, 2, 16.0);
  const auto alone = [](double first) {
    return [first](Tensor& y) { store<double>(y, 0, first), store<double>(y, 1, HUGE_VAL), store<double>(y, 2, 2.0); };
  };
  CHECK(judged(solved, x, alone(3)).why == "");
}

TEST_CASE("a function that has reached its bound is that bound, whatever its algorithm") {
  // 1 - tanh(x), enlarged: a rounding of tanh would be seen.
  const std::string slope = R"(  %0 = input() @"x" : f32[2]
  %1 = tanh(%0) : f32[2]
  %2 = constant() {value = f32[2] [1, 1]} : f32[2]
  %3 = sub(%2, %1) : f32[2]
  %4 = constant() {value = f32[2] [1e+30, 1e+30]} : f32[2]
  %5 = mul(%3, %4) : f32[2]
  return %5 @"y"
)";
  const Tensor x = numbers(f32, {50, 5});
  CHECK(judged(slope, x, [](Tensor& y) { store<double>(y, 0, 1e22); }).why != "");
  CHECK(judged(slope, x, [](Tensor& y) { store<double>(y, 1, load<double>(y, 1) + 6e22); }).why == "");
}

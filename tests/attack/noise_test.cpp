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

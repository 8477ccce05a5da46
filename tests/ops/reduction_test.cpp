// Hard cases of statistics, norms, positions, scans, one_hot and histogram. Expected values: NumPy 2.4 and
// PyTorch 2.15.
#include "ops/hard_cases.h"

using namespace rlx;
using namespace rlx::test;

namespace {

std::string one(const Build& build, Numbers x, Numbers wanted) {
  return mismatch_of_floats(build, {std::move(x)}, {std::move(wanted)});
}

}  // namespace

TEST_CASE("reductions keep dims where they are told") {
  Numbers x{{2, 3}, {1, 2, 3, 4, 5, 6}};
  CHECK(one([](Values v) { return reduce_sum(v[0], {0}, true); }, x, {{1, 3}, {5, 7, 9}}) == "");
  CHECK(one([](Values v) { return reduce_max(v[0], {-1}, true); }, x, {{2, 1}, {3, 6}}) == "");
  CHECK(one([](Values v) { return reduce_min(v[0], {-1, 0}, true); }, x, {{1, 1}, {1}}) == "");
  CHECK(one([](Values v) { return reduce_prod(v[0], {1}, false); }, x, {{2}, {6, 120}}) == "");
  CHECK(mismatch(
            [](Values v) {
              return std::vector{reduce_any(v[0], {0}), reduce_all(v[0], {0}, true)};
            },
            {vector_of(boolean, {1, 0})}, {tensor(boolean, {}, {1}), vector_of(boolean, {0})}) == "");
}

TEST_CASE("means divide by the count, over any axes") {
  Numbers x{{2, 3}, {1, 2, 3, 4, 5, 9}};
  CHECK(one([](Values v) { return mean(v[0], {0, 1}); }, x, {{}, {4}}) == "");
  CHECK(one([](Values v) { return mean(v[0], {0}, true); }, x, {{1, 3}, {2.5, 3.5, 6}}) == "");
  CHECK(one([](Values v) { return mean(v[0], {}); }, x, x) == "");
  CHECK(one([](Values v) { return mean(v[0], {1}); }, {{2, 0}, {}}, {{2}, {kNaN, kNaN}}) == "");
  CHECK(one([](Values v) { return mean(v[0], {0}); }, {{2, 0}, {}}, {{0}, {}}) == "");
  CHECK(refusal([](Values v) { return mean(v[0], {0}); }, {{i32, {3}}}) ==
        "an operand of float, complex is needed, got i32[3]; convert it first");
  CHECK(refusal(
            [](Values v) {
              return mean(v[0], {0, -1});
            },
            {{f32, {3}}}) == "axis -1 is named twice; name each axis once");
}
TEST_CASE("variance takes a correction and does not cancel") {
  CHECK(one([](Values v) { return variance(v[0], {1}, false, 1); }, {{1, 4}, {1, 2, 4, 8}},
            {{1}, {9.583333333333334}}) == "");
  CHECK(one([](Values v) { return variance(v[0], {1}); }, {{1, 4}, {1, 2, 4, 8}}, {{1}, {7.1875}}) == "");
  CHECK(one([](Values v) { return variance(v[0], {0}); }, {{3}, {1e6 - 1, 1e6, 1e6 + 1}}, {{}, {2.0 / 3}}) == "");
  CHECK(one([](Values v) { return variance(v[0], {0}, false, 1); }, {{1}, {5}}, {{}, {kNaN}}) == "");
  auto both = [](Values v) { return std::vector{moments(v[0], {0}, true).mean, moments(v[0], {0}, true).variance}; };
  CHECK(mismatch_of_floats(both, {{{2, 2}, {1, 5, 3, 5}}}, {{{1, 2}, {2, 5}}, {{1, 2}, {1, 0}}}) == "");
}
TEST_CASE("variance keeps its digits where f32 cannot hold the mean") {
  // 1e6 + i / 16 for i = 0 .. 15 over and over: f32 holds each number, and rounds the mean by 1/32, whose square is 1.2
  // % of the variance (16^2 - 1) / 12 / 16^2.
  constexpr int64_t kRows = 5, kColumns = 4096;
  std::vector<double> rows, columns;
  for (int64_t i = 0; i < kRows * kColumns; ++i)
    rows.push_back(1e6 + double(i % 16) / 16), columns.push_back(1e6 + double(i / kRows % 16) / 16);
  const std::vector<double> wanted(kRows, 255.0 / 12 / 256), none(kRows, 0);
  const auto check = [&](int64_t axis, const Tensor& x) {
    const auto build = [axis](Values v) {
      return std::vector{variance(v[0], {axis}), moments(v[0], {axis}).variance,
                         variance(v[0], {axis}, false, kColumns)};
    };
    const Tensor y = vector_of(f32, wanted), infinite = vector_of(f32, std::vector<double>(kRows, kInf));
    CHECK(mismatch(build, {x}, {y, y, infinite}, 1e-6) == "");
  };
  check(1, tensor(f32, {kRows, kColumns}, rows));
  check(0, tensor(f32, {kColumns, kRows}, columns));
  const auto deviation = [](Values v) { return sqrt(variance(v[0], {0})); };
  CHECK(mismatch(deviation, {vector_of(f32, std::vector<double>(1000, 0.1))}, {tensor(f32, {}, {0})}) == "");
}
TEST_CASE("norms take absolute values, also of complex numbers") {
  CHECK(one([](Values v) { return norm(v[0], NormKind::l2, {0}); }, {{2}, {3, -4}}, {{}, {5}}) == "");
  CHECK(one([](Values v) { return norm(v[0], NormKind::l1, {0}, true); }, {{2}, {3, -4}}, {{1}, {7}}) == "");
  CHECK(one([](Values v) { return norm(v[0], NormKind::l2, {0}); }, {{0, 2}, {}}, {{2}, {0, 0}}) == "");
  CHECK(one([](Values v) { return norm(v[0], NormKind::l1, {0}); }, {{2}, {-kInf, kNaN}}, {{}, {kNaN}}) == "");
  auto of_complex = [](Values v) {
    Value z = complex(v[0], v[1]);
    return std::vector{norm(z, NormKind::l1, {0}), norm(z, NormKind::l2, {0})};
  };
  CHECK(mismatch_of_floats(of_complex, {{{2}, {3, 0}}, {{2}, {4, -12}}}, {{{}, {17}}, {{}, {13}}}) == "");
}

TEST_CASE("argmax and argmin take the first of equals, and the first NaN before anything else") {
  auto check = [](std::vector<double> x, double largest, double least) {
    auto build = [](Values v) { return std::vector{argmax(v[0]), argmin(v[0])}; };
    for (DType dtype : {f64, f32, f16})
      CHECK(mismatch(build, {vector_of(dtype, x)}, {tensor(i32, {}, {largest}), tensor(i32, {}, {least})}) == "");
  };
  check({1, 3, 3, 1}, 1, 0);
  check({0, -0.0}, 0, 0);
  check({1, kNaN, 5, kNaN, kInf}, 1, 1);
  check({-kInf, -kInf}, 0, 0);
  check({kInf, -kInf, kInf}, 0, 1);
  check({7}, 0, 0);
}
TEST_CASE("argmax knows integers, bools, axes and kept dims") {
  Tensor x = tensor(i32, {2, 3}, {5, -1, 5, 0, 2, 2});
  CHECK(mismatch([](Values v) { return argmax(v[0], 0); }, {x}, {vector_of(i32, {0, 1, 0})}) == "");
  CHECK(mismatch([](Values v) { return argmin(v[0], -1, true); }, {x}, {tensor(i32, {2, 1}, {1, 0})}) == "");
  CHECK(mismatch([](Values v) { return argmax(v[0]); }, {vector_of(u8, {200, 255, 3})}, {tensor(i32, {}, {1})}) == "");
  CHECK(mismatch([](Values v) { return argmax(v[0]); }, {vector_of(boolean, {0, 1, 1})}, {tensor(i32, {}, {1})}) == "");
  CHECK(refusal([](Values v) { return argmax(v[0]); }, {{f32, {2, 0}}}) ==
        "there is no extreme among the 0 elements along axis -1 of f32[2, 0]");
}

TEST_CASE("scans run along their axis, forward and back, with and without the element itself") {
  Numbers x{{2, 4}, {1, 2, 3, 4, 5, -6, 7, 8}};
  CHECK(one([](Values v) { return cumsum(v[0]); }, x, {{2, 4}, {1, 3, 6, 10, 5, -1, 6, 14}}) == "");
  CHECK(one([](Values v) { return cumsum(v[0], 0); }, x, {{2, 4}, {1, 2, 3, 4, 6, -4, 10, 12}}) == "");
  CHECK(one([](Values v) { return cumsum(v[0], 1, true); }, x, {{2, 4}, {0, 1, 3, 6, 0, 5, -1, 6}}) == "");
  CHECK(one([](Values v) { return cumsum(v[0], 1, false, true); }, x, {{2, 4}, {10, 9, 7, 4, 14, 9, 15, 8}}) == "");
  CHECK(one([](Values v) { return cumsum(v[0], 1, true, true); }, x, {{2, 4}, {9, 7, 4, 0, 9, 15, 8, 0}}) == "");
  CHECK(one([](Values v) { return cumprod(v[0]); }, x, {{2, 4}, {1, 2, 6, 24, 5, -30, -210, -1680}}) == "");
  CHECK(one([](Values v) { return cumprod(v[0], 1, true); }, x, {{2, 4}, {1, 1, 2, 6, 1, 5, -30, -210}}) == "");
  CHECK(one([](Values v) { return cummax(v[0]); }, x, {{2, 4}, {1, 2, 3, 4, 5, 5, 7, 8}}) == "");
  CHECK(one([](Values v) { return cummax(v[0], 1, true); }, x, {{2, 4}, {-kInf, 1, 2, 3, -kInf, 5, 5, 7}}) == "");
  CHECK(one([](Values v) { return cummax(v[0]); }, {{4}, {1, kNaN, 3, kInf}}, {{4}, {1, kNaN, kNaN, kNaN}}) == "");
}
TEST_CASE("scans of one element and of nothing are no trouble; integers wrap") {
  CHECK(one([](Values v) { return cumsum(v[0], 0, true); }, {{1}, {5}}, {{1}, {0}}) == "");
  CHECK(one([](Values v) { return cumsum(v[0], 0, true); }, {{0}, {}}, {{0}, {}}) == "");
  CHECK(mismatch([](Values v) { return cumsum(v[0]); }, {vector_of(u8, {200, 100, 5})},
                 {vector_of(u8, {200, 44, 49})}) == "");
  CHECK(mismatch([](Values v) { return cummax(v[0], 0, true); }, {vector_of(i8, {3, 1})}, {vector_of(i8, {-128, 3})}) ==
        "");
}
TEST_CASE("scans along an axis of unknown extent give the same") {
  Graph g = trace(std::vector{Type{f64, {2, Dim::symbol("n")}}}, [](Values v) {
    return std::vector{cumsum(v[0], 1, true), cumprod(v[0], -1, false, true), cummax(v[0])};
  });
  std::array x = {tensor(f64, {2, 3}, {1, 2, -kInf, -4, 5, 6})};
  auto y = interpret(made_of_primitives(g), x);
  CHECK(difference(y[0], tensor(f64, {2, 3}, {0, 1, 3, 0, -4, 1})) == "");
  CHECK(difference(y[1], tensor(f64, {2, 3}, {-kInf, -kInf, -kInf, -120, 30, 6})) == "");
  CHECK(difference(y[2], tensor(f64, {2, 3}, {1, 2, 2, -4, 5, 6})) == "");
}

TEST_CASE("one_hot leaves out indices that are out of range, whatever their dtype") {
  auto build = [](Values v) { return one_hot(v[0], 3, f32); };
  CHECK(mismatch(build, {vector_of(i32, {2, -1, 3, 0})}, {tensor(f32, {4, 3}, {0, 0, 1, 0, 0, 0, 0, 0, 0, 1, 0, 0})}) ==
        "");
  Tensor huge = Tensor::of<uint64_t>({2}, {~uint64_t{0}, 1});
  CHECK(mismatch(build, {huge}, {tensor(f32, {2, 3}, {0, 0, 0, 0, 1, 0})}) == "");
  // 300 positions do not fit u8: none may wrap onto the index
  Graph g = trace(std::vector{Type{u8, {}}}, [](Values v) { return reduce_sum(one_hot(v[0], 300, i32), {0}); });
  CHECK(difference(interpret(made_of_primitives(g), std::array{tensor(u8, {}, {44})}),
                   std::array{tensor(i32, {}, {1})}) == "");
}
TEST_CASE("one_hot puts the new dim where it is told") {
  CHECK(mismatch([](Values v) { return one_hot(v[0], 2, i32, 0, 5, -1); }, {vector_of(i64, {1, 0, 1})},
                 {tensor(i32, {2, 3}, {-1, 5, -1, 5, -1, 5})}) == "");
  CHECK(mismatch([](Values v) { return one_hot(v[0], 0); }, {vector_of(i32, {0, 1})}, {tensor(f32, {2, 0}, {})}) == "");
  CHECK(refusal([](Values v) { return one_hot(v[0], 3); }, {{f32, {2}}}) ==
        "an index of integer is needed, got f32[2]; convert it first");
}

TEST_CASE("a histogram closes its last part, and leaves out what is outside or NaN") {
  std::vector<double> x = {0, 0.1, 0.3, 0.7, 1, -0.1, 1.1, 0.999, kNaN, kInf};
  for (DType dtype : {f64, f32})  // torch.histc
    CHECK(mismatch([](Values v) { return histogram(v[0], 10, 0, 1); }, {vector_of(dtype, x)},
                   {vector_of(i32, {1, 1, 0, 1, 0, 0, 0, 1, 0, 2})}) == "");
  CHECK(mismatch([](Values v) { return histogram(v[0], 2, -1, 1); }, {tensor(f32, {2, 2}, {-1, 0, 0.5, 1})},
                 {vector_of(i32, {1, 3})}) == "");
  CHECK(refusal([](Values v) { return histogram(v[0], 3, 1, 1); }, {{f32, {2}}}) ==
        "a histogram needs at least one bin, and min < max, both finite; got 3 bins over [1, 1]");
}

// Hard cases of reduce_window, select_and_scatter and convolution.
#include "ops/tables.h"

using namespace rlx;
using namespace rlx::test;

namespace {

const Row kRows[] = {
#include "ops/window_cases.inc"
};
const Dim n = Dim::symbol("n");

}  // namespace

TEST_CASE("windows and convolutions do what JAX does") { check_rows(kRows); }

TEST_CASE("a custom window combines padding as it combines elements") {
  // StableHLO pads with the initial value: the count of elements that the body saw counts padding too.
  Type one{f64, {}};
  Graph count = trace(std::vector{one, one, one, one}, [](Values v) { return std::vector{v[0] + v[2], v[1] + v[3]}; });
  ReduceWindowAttrs attrs{Reduction::custom, {3}, {2}, {}, {}, {1}, {1}, count};
  CHECK(mismatch(
            [&](Values v) {
              return reduce_window_custom({v[0], v[1]}, {v[2], v[3]}, attrs);
            },
            {tensor_of("f64[4] [1, 2, 3, 4]"), tensor_of("f64[4] [0, 0, 0, 0]"), tensor_of("f64[] [0]"),
             tensor_of("f64[] [1]")},
            {tensor_of("f64[2] [3, 9]"), tensor_of("f64[2] [2, 1]")}, 0) == "");
}
TEST_CASE("windows take symbolic extents that their stride divides") {
  auto pooled = [](Dim extent, int64_t stride) {
    return type_text(
        [&](Values v) {
          return reduce_window(v[0], {Reduction::max, {1, 3}, {1, stride}, {}, {}, {0, 1}, {0, 1}});
        },
        {{f32, {n, extent}}});
  };
  CHECK(pooled(n, 1) == "f32[n, n]");
  CHECK(pooled(n * 2, 2) == "f32[n, n]");
  CHECK(pooled(n * 4 + 1, 2) == "f32[n, 2*n+1]");
  CHECK(type_text(
            [](Values v) {
              return reduce_window(v[0], {Reduction::sum, {n}, {}, {}, {}, {n - 1}, {0}});
            },
            {{f32, {n}}}) == "f32[n]");
  CHECK(refusal(
            [](Values v) {
              return reduce_window(v[0], {Reduction::max, {2}, {2}});
            },
            {{f32, {n}}}) == "the dim n does not divide by 2");
  CHECK(type_text(
            [](Values v) { return convolution(v[0], v[1], {.strides = {2}, .padding_low = {1}, .padding_high = {1}}); },
            {{f32, {n, 3, n * 2}}, {f32, {4, 3, 3}}}) == "f32[n, 4, n]");
  CHECK(type_text([](Values v) { return convolution(v[0], v[1], {.lhs_dilation = {2}}); },
                  {{f32, {1, 3, n}}, {f32, {4, 3, 2}}}) == "f32[1, 4, 2*n+-2]");
}
TEST_CASE("the count of windows rounds down") {
  CHECK(window_count(7, 2, 2, 1, 1, 0, 0) == Dim(3));
  CHECK(window_count(1, 2, 3, 1, 1, 0, 0) == Dim(0));
  CHECK(window_count(0, 1, 1, 5, 1, 0, 0) == Dim(0));
  CHECK(window_count(0, 1, 1, 5, 1, 1, 1) == Dim(2));
  CHECK(window_count(n * 2 - 1, 3, 2, 1, 1, 1, 1) == n);
}
TEST_CASE("windows and convolutions refuse what does not fit") {
  CHECK(refusal(
            [](Values v) {
              return reduce_window(v[0], {Reduction::sum, {2}});
            },
            {{f32, {3, 4}}}) == "the window must have an extent for each of the 2 dims that it slides over, got 1");
  CHECK(refusal(
            [](Values v) {
              return reduce_window(v[0], {Reduction::sum, {2}, {0}});
            },
            {{f32, {3}}}) ==
        "along dim 0 the window has extent 2, stride 0, dilation 1 over elements 1 apart; each must be at least 1");
  CHECK(refusal(
            [](Values v) {
              return reduce_window(v[0], {Reduction::sum, {2}});
            },
            {{boolean, {3}}}) == "an operand of integer, float, complex is needed, got bool[3]; convert it first");
  CHECK(refusal(
            [](Values v) {
              return select_and_scatter(v[0], v[1], {Comparison::ge, {2}});
            },
            {{f32, {3}}, {f32, {3}}}) == "the windows of f32[3] need a source f32[2], got f32[3]");
  CHECK(refusal(
            [](Values v) {
              return select_and_scatter(v[0], v[1], {Comparison::ne, {2}});
            },
            {{f32, {3}}, {f32, {2}}}) == "select must be an order (ge, gt, le, lt), not ne");
  auto message = [](Dims x, Dims w, ConvAttrs a = {}) {
    return refusal([&](Values v) { return convolution(v[0], v[1], a); }, {{f32, std::move(x)}, {f32, std::move(w)}});
  };
  CHECK(message({1, 3, 8}, {4, 2, 3}) ==
        "the kernel f32[4, 2, 3] takes 2 features for each of 1 groups, but f32[1, 3, 8] has 3; the kernel's layout is "
        "output features, input features / "
        "groups, spatial dims");
  CHECK(message({1, 4, 8}, {3, 2, 3}, {.feature_group_count = 2}) ==
        "the number of output features 3 of the kernel f32[3, 2, 3] is not a multiple of the 2 groups");
  CHECK(message({3, 4, 8}, {4, 4, 3}, {.batch_group_count = 2}) ==
        "the batch 3 of f32[3, 4, 8] is not a multiple of the 2 groups");
  CHECK(message({4, 4, 8}, {4, 2, 3}, {.feature_group_count = 2, .batch_group_count = 2}) ==
        "feature_group_count is 2 and batch_group_count 2; both are at least 1, and one of them is 1");
  CHECK(message({1, 3, 8}, {4, 3, 3, 3}) ==
        "a convolution takes an operand and a kernel of one rank, at least 2 (batch and feature), got f32[1, 3, 8] and "
        "f32[4, 3, 3, 3]");
  CHECK(message({1, 1, 2, 2, 2, 2}, {1, 1, 1, 1, 1, 1}) ==
        "a convolution has at most 3 spatial dims; f32[1, 1, 2, 2, 2, 2] has 4");
  CHECK(message({1, 3, 8}, {4, 3, 3}, {.lhs_layout = {0, 1, 1}}) == "axis 1 is named twice; name each axis once");
  CHECK(message({1, 3, 8}, {4, 3, 3}, {.strides = {1, 1}}) ==
        "strides must have one entry for each of the 1 dims that the window slides over, got 2");
  CHECK(refusal([](Values v) { return convolution(v[0], v[1]); }, {{f32, {1, 1, 2}}, {f16, {1, 1, 2}}}) ==
        "the operands' dtypes differ: lhs f32[1, 1, 2], rhs f16[1, 1, 2]; convert one of them");
}

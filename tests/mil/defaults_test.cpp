// Parameters that are left out, and what the revisions of an op make of the same ones. Expected numbers follow from
// MIL's documentation of each default by hand, or from the NumPy expression beside them.
#include "programs.h"

namespace rlx::test {
namespace {
using doctest::Approx;

Tensor line(std::vector<float> values) { return Tensor::of<float>({static_cast<int64_t>(values.size())}, values); }
void close(const Tensor& got, const std::vector<double>& expected) {
  auto n = numbers(got);
  REQUIRE(n.size() == expected.size());
  for (size_t i = 0; i < n.size(); ++i) CHECK(n[i] == Approx(expected[i]).epsilon(1e-5));
}
}  // namespace

TEST_CASE("epsilons") {
  Tensor x = line({0.5f, 2});
  close(apply("log", x, {}, 5, f32, 1), {-0.6931472, 0.6931472});
  close(apply("inverse", x, {}, 5, f32, 1), {1 / 0.5001, 1 / 2.0001});
  close(apply("inverse", x, {{"epsilon", number(0.5)}}, 5, f32, 1), {1, 0.4});
  close(apply("rsqrt", x, {}, 5, f32, 1), {1.4142136, 0.7071068});
}

TEST_CASE("axes that are left out are all of them") {
  Tensor x = Tensor::of<float>({2, 2}, {1, 2, 3, 4});
  close(apply("reduce_sum", x, {}, 5, f32, 0), {10});
  close(apply("reduce_mean", x, {{"keep_dims", number(1, boolean)}}, 5, f32, 2), {2.5});
  close(apply("reverse", x, {}, 5, f32, 2), {4, 3, 2, 1});
  close(apply("reduce_argmax", x, {}, 5, i32, 1), {1, 1});
  close(apply("cumsum", x, {}, 5, f32, 2), {1, 2, 4, 6});  // along dim 0
  close(apply("softmax", x, {}, 5, f32, 2), {0.26894143, 0.7310586, 0.26894143, 0.7310586});
}

TEST_CASE("modes that are left out") {
  close(apply("gelu", line({1}), {}, 5, f32, 1), {0.8413447});  // 0.5 (1 + erf(1 / sqrt 2))
  close(apply("gelu", line({1}), {{"mode", word("SIGMOID_APPROXIMATION")}}, 5, f32, 1), {0.84579577});
  close(apply("topk", line({3, 9, 4}), {{"return_indices", number(0, boolean)}}, 6, f32, 1), {9});
  close(apply("argsort", line({3, 9, 4}), {}, 5, i32, 1), {1, 2, 0});
  close(apply("pad", line({5, 6}), {{"pad", integers({1, 2})}}, 5, f32, 1), {0, 5, 6, 0, 0});
  close(apply("scatter", line({1, 1}), {{"indices", integers({1})}, {"updates", mil::Value::of(line({5}))}}, 5, f32, 1,
              "data"),
        {1, 6});  // adds
  close(apply("one_hot", Tensor::of<int32_t>({2}, {0, 2}), {{"one_hot_vector_size", number(3, i32)}}, 5, i32, 2,
              "indices"),
        {1, 0, 0, 0, 0, 1});
  close(apply("fill_like", line({5, 6}), {}, 6, f32, 1, "ref_tensor"), {0, 0});
}

TEST_CASE("windows start one place apart where strides are left out") {
  Tensor x = Tensor::of<float>({1, 1, 4}, {1, 5, 2, 3});
  close(apply("max_pool", x, {{"kernel_sizes", integers({2})}, {"pad_type", word("valid")}}, 5, f32, 3), {5, 5, 3});
  close(apply("avg_pool", x, {{"kernel_sizes", integers({2})}, {"pad_type", word("custom")}, {"pad", integers({1, 0})}},
              5, f32, 3),
        {0.5, 3, 3.5, 2.5});  // padding counts
  close(apply("avg_pool", x,
              {{"kernel_sizes", integers({2})},
               {"pad_type", word("custom")},
               {"pad", integers({1, 0})},
               {"exclude_padding_from_average", number(1, boolean)}},
              5, f32, 3),
        {1, 3, 3.5, 2.5});
  close(apply("sliding_windows", line({1, 2, 3}), {{"axis", number(0, i32)}, {"size", number(2, i32)}}, 5, f32, 2),
        {1, 2, 2, 3});
}

TEST_CASE("a negative index counts from the end up to iOS 16, and is out of range from iOS 17 on") {
  Tensor x = line({1, 2, 3});
  close(apply("gather", x, {{"indices", integers({-1, 0})}}, 6, f32, 1), {3, 1});
  CHECK(std::isnan(numbers(apply("gather", x, {{"indices", integers({-1, 0})}}, 7, f32, 1))[0]));
  CHECK_THROWS_AS(
      apply("gather", x, {{"indices", integers({-1, 0})}, {"validate_indices", number(1, boolean)}}, 7, f32, 1), Error);
  close(apply("gather", x, {{"indices", integers({2})}, {"validate_indices", number(1, boolean)}}, 7, f32, 1), {3});
}

TEST_CASE("a 0 in reshape is x's dim there, or as far from the end") {
  Tensor x = Tensor::of<float>({2, 3}, {1, 2, 3, 4, 5, 6});
  CHECK(apply("reshape", x, {{"shape", integers({0, -1})}}, 5, f32, 2).shape() == Shape{2, 3});
  CHECK(apply("reshape", x, {{"shape", integers({1, 0, -1, 0})}}, 7, f32, 4).shape() == Shape{1, 1, 2, 3});
  CHECK_THROWS_AS(apply("reshape", x, {{"shape", integers({1, 0, -1, 0})}}, 5, f32, 4), Error);
}

TEST_CASE("hyper-parameters may be f32 beside f16, and an f16 op rounds once") {
  Tensor x = Tensor::of<Half>({2}, {to_half(1.5), to_half(-3)});
  Tensor y = apply("leaky_relu", x, {{"alpha", number(0.1)}}, 7, f16, 1);
  CHECK(y.dtype() == f16);
  CHECK(numbers(y)[1] == to_double(to_half(-3 * 0.1)));
  // x * sigmoid(1.702 x) of 4.1 in one rounding; rounded after each step it would be the next number.
  Tensor z = Tensor::of<Half>({1}, {to_half(4.1)});
  double v = to_double(to_half(4.1));
  CHECK(numbers(apply("gelu", z, {{"mode", word("SIGMOID_APPROXIMATION")}}, 7, f16, 1))[0] ==
        to_double(to_half(v / (1 + std::exp(-1.702 * v)))));
}

TEST_CASE("strided slices update what they read, in either direction") {
  Tensor x = line({0, 0, 0, 0, 0});
  auto update = [&](std::vector<int32_t> begin, std::vector<int32_t> end, std::vector<int32_t> stride) {
    return apply("slice_update", x,
                 {{"update", mil::Value::of(line({1, 2}))},
                  {"begin", integers(begin)},
                  {"end", integers(end)},
                  {"stride", integers(stride)}},
                 8, f32, 1);
  };
  close(update({1}, {4}, {2}), {0, 1, 0, 2, 0});
  close(update({-1}, {1}, {-2}), {0, 0, 2, 0, 1});
  close(update({1}, {3}, {1}), {0, 1, 2, 0, 0});
}

}  // namespace rlx::test

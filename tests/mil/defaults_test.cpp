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

TEST_CASE("index vectors are held to the extent of each dim where that is asked for") {
  Tensor x = Tensor::of<float>({2, 3}, {1, 2, 3, 4, 5, 6});
  auto read = [&](int32_t row, int32_t column) {
    mil::Value indices = mil::Value::of(Tensor::of<int32_t>({1, 2}, {row, column}));
    return apply("gather_nd", x, {{"indices", indices}, {"validate_indices", number(1, boolean)}}, 7, f32, 1);
  };
  auto add = [&](int32_t row, int32_t column) {
    mil::Value indices = mil::Value::of(Tensor::of<int32_t>({1, 2}, {row, column}));
    return apply(
        "scatter_nd", x,
        {{"indices", indices}, {"updates", mil::Value::of(line({10}))}, {"validate_indices", number(1, boolean)}}, 7,
        f32, 2, "data");
  };
  close(read(1, 2), {6});
  close(add(1, 2), {1, 2, 3, 4, 5, 16});
  for (auto at : {std::pair{2, 0}, {0, 3}, {0, -1}}) {
    CHECK_THROWS_WITH_AS(read(at.first, at.second), doctest::Contains("out of range of 2 by 3 places"), Error);
    CHECK_THROWS_WITH_AS(add(at.first, at.second), doctest::Contains("out of range of 2 by 3 places"), Error);
  }
}

TEST_CASE("a reflection without align_corners is one at the borders of pixels") {
  // Expected values: torch.nn.functional.grid_sample(x, grid, padding_mode="reflection", align_corners=...).
  Tensor x = Tensor::of<float>({1, 1, 3, 3}, {1, 2, 4, 8, 16, 32, 64, 128, 256});
  Tensor grid = Tensor::of<float>({1, 1, 4, 2}, {-0.9F, -0.9F, 0.6F, 1, -1.6F, 0.2F, 1.9F, -3.1F});
  auto sample = [&](bool align) {
    return apply("resample", x,
                 {{"coordinates", mil::Value::of(grid)},
                  {"sampling_mode", word("bilinear")},
                  {"padding_mode", word("reflection")},
                  {"padding_value", number(0)},
                  {"coordinates_mode", word("normalized_minus_one_to_one")},
                  {"align_corners", number(align, boolean)}},
                 5, f32, 4);
  };
  close(sample(false), {1, 243.2, 34.72, 147.2});
  close(sample(true), {1.87, 204.8, 30.72, 128.48});
}

TEST_CASE("up to iOS 15 a normalized box that lies beyond the image reads the whole of it") {
  // The box and the numbers of coremltools' own test, iOS15/test_image_resizing.py.
  Tensor x(f32, {1, 1, 4, 4});
  for (size_t i = 0; i < 16; ++i) x.mutable_values<float>()[i] = static_cast<float>(i + 1);
  close(apply("crop_resize", x,
              {{"roi", mil::Value::of(Tensor::of<float>({1, 1, 4, 1, 1}, {2, 2, 1, 1}))},
               {"target_height", number(2, i32)},
               {"target_width", number(2, i32)},
               {"normalized_coordinates", number(1, boolean)},
               {"sampling_mode", word("UNALIGN_CORNERS")}},
              5, f32, 5),
        {3.5, 5.5, 11.5, 13.5});
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

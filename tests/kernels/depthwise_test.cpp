// Depthwise convolutions against their definition, element by element: random extents, strides, dilations, padding on
// either side (also negative), reversed kernels, several outputs per channel, in f32, f16 and bf16. Operands are whole
// numbers, so that sums are exact.
#include "kernels/conv/depthwise.h"

#include "kernels/kernel_test.h"

using namespace rlx;
using namespace rlx::kernels;
using namespace rlx::test;

namespace {

struct Case {
  ConvolutionArgs args;
  int64_t x_size = 1, w_size = 1, y_size = 1, first_tap = 0;
};

Case random_case(Random& r) {
  Case c;
  ConvolutionArgs& a = c.args;
  a.spatial = 1 + static_cast<int>(r.below(2));
  a.groups = a.in_channels = 1 + r.below(4), a.out_channels = a.groups * (1 + r.below(2)), a.batch = 1 + r.below(2);
  const int last = a.spatial - 1;
  for (int d = 0; d < a.spatial; ++d) {
    a.kernel[d] = 1 + r.below(5), a.rhs_dilation[d] = 1 + (r.below(3) == 0),
    a.stride[d] = d == last ? 1 : 1 + r.below(3);
    a.out_dims[d] = 1 + r.below(d == last ? 90 : 40), a.low[d] = r.below(7) - 2;
    a.in_dims[d] = std::max<int64_t>(1, (a.out_dims[d] - 1) * a.stride[d] + r.below(8) - 3);
  }
  for (int d = last; d >= 0; --d) {
    a.x_strides[d] = c.x_size, a.w_strides[d] = c.w_size, a.y_strides[d] = c.y_size;
    c.x_size *= a.in_dims[d] + (d == last ? r.below(3) : 0);  // rows may have gaps between them
    c.w_size *= a.kernel[d], c.y_size *= a.out_dims[d];
  }
  a.x_channel_stride = c.x_size, a.w_out_stride = c.w_size, a.w_in_stride = c.w_size, a.y_channel_stride = c.y_size;
  a.x_batch_stride = c.x_size *= a.in_channels;
  a.y_batch_stride = c.y_size *= a.out_channels;
  c.x_size *= a.batch, c.w_size *= a.out_channels, c.y_size *= a.batch;
  if (r.below(3) == 0)
    for (int d = 0; d < a.spatial; ++d)
      c.first_tap += (a.kernel[d] - 1) * a.w_strides[d], a.w_strides[d] = -a.w_strides[d];
  return c;
}

double defined(const Case& c, const Elements& x, const Elements& w, int64_t image, int64_t channel, int64_t row,
               int64_t col) {
  const ConvolutionArgs& a = c.args;
  const int last = a.spatial - 1;
  const bool flat = last == 0;
  double sum = 0;
  for (int64_t u = 0; u < (flat ? 1 : a.kernel[0]); ++u)
    for (int64_t v = 0; v < a.kernel[last]; ++v) {
      const int64_t i = flat ? 0 : row * a.stride[0] + u * a.rhs_dilation[0] - a.low[0];
      const int64_t j = col + v * a.rhs_dilation[last] - a.low[last];
      if (i < 0 || j < 0 || (!flat && i >= a.in_dims[0]) || j >= a.in_dims[last]) continue;
      const int64_t from = image * a.x_batch_stride + channel / (a.out_channels / a.groups) * a.x_channel_stride;
      sum += x[from + (flat ? 0 : i * a.x_strides[0]) + j] *
             w[c.first_tap + channel * a.w_out_stride + (flat ? 0 : u * a.w_strides[0]) + v * a.w_strides[last]];
    }
  return sum;
}

}  // namespace

TEST_CASE("a convolution of each channel alone equals its definition") {
  const std::pair<DType, DType> dtypes[] = {{f32, f32}, {f16, f16}, {bf16, bf16}, {f16, f32}, {bf16, f32}};
  for_each_target([&] {
    for (uint64_t seed = 0; seed < 60; ++seed) {
      Random r(seed);
      Case c = random_case(r);
      ConvolutionArgs& a = c.args;
      a.dtype = dtypes[seed % 5].first, a.out_dtype = dtypes[seed % 5].second;
      CAPTURE(seed);
      REQUIRE(is_depthwise(a));
      Elements x(a.dtype, c.x_size), w(a.dtype, c.w_size), y(a.out_dtype, c.y_size);
      for (int64_t i = 0; i < x.size(); ++i) x.set(i, static_cast<double>(r.below(5) - 2));
      for (int64_t i = 0; i < w.size(); ++i) w.set(i, static_cast<double>(r.below(5) - 2));
      for (int64_t i = 0; i < y.size(); ++i) y.set(i, 99);
      a.x = x.data(), a.y = y.data();
      a.w = static_cast<const std::byte*>(w.data()) + c.first_tap * static_cast<int64_t>(byte_size(a.dtype));
      Scratch scratch(depthwise_scratch_bytes(a));
      const int64_t planes = a.batch * a.out_channels, middle = planes / 2;
      depthwise(a, 0, middle, scratch.data());
      depthwise(a, middle, planes, scratch.data());
      const int64_t cols = a.out_dims[a.spatial - 1], rows = a.spatial == 1 ? 1 : a.out_dims[0];
      for (int64_t i = 0; i < c.y_size; ++i) {
        const int64_t plane = i / (rows * cols);
        REQUIRE(y[i] == defined(c, x, w, plane / a.out_channels, plane % a.out_channels, i / cols % rows, i % cols));
      }
    }
  });
}

TEST_CASE("what is no convolution of each channel alone, or has no kernel, is refused") {
  ConvolutionArgs a;
  a.groups = a.in_channels = a.out_channels = 4;
  for (int d = 0; d < 2; ++d) a.in_dims[d] = a.out_dims[d] = 8, a.kernel[d] = 3;
  a.x_strides[1] = a.y_strides[1] = 1;
  CHECK(is_depthwise(a));
  auto refused = [&](auto change) {
    ConvolutionArgs b = a;
    change(b);
    return !is_depthwise(b);
  };
  CHECK(refused([](ConvolutionArgs& b) { b.dtype = b.out_dtype = f64; }));
  CHECK(refused([](ConvolutionArgs& b) { b.out_dtype = f16; }));
  CHECK(refused([](ConvolutionArgs& b) { b.in_channels = 8; }));
  CHECK(refused([](ConvolutionArgs& b) { b.spatial = 3; }));
  CHECK(refused([](ConvolutionArgs& b) { b.out_dims[1] = 0, b.kernel[1] = 1; }));
  CHECK(refused([](ConvolutionArgs& b) { b.out_dims[0] = 0; }));
  CHECK(refused([](ConvolutionArgs& b) { b.in_dims[0] = 4096, b.rhs_dilation[0] = 1000; }));
  CHECK(refused([](ConvolutionArgs& b) { b.in_dims[1] = b.out_dims[1] = int64_t{1} << 40; }));
  CHECK(refused([](ConvolutionArgs& b) { b.rhs_dilation[1] = int64_t{1} << 40; }));
  CHECK(refused([](ConvolutionArgs& b) { b.stride[1] = 2; }));
  CHECK(refused([](ConvolutionArgs& b) { b.lhs_dilation[0] = 2; }));
  CHECK(refused([](ConvolutionArgs& b) { b.kernel[0] = b.kernel[1] = 9; }));
  CHECK(refused([](ConvolutionArgs& b) { b.x_strides[1] = 4; }));
  CHECK(refused([](ConvolutionArgs& b) { b.y_strides[1] = 4; }));
}

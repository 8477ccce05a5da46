// Convolutions by multiply-adds against their definition, element by element: random extents, strides, dilations and
// padding (also negative), channels first and last, with epilogues, by several threads. Operands are whole numbers, so
// that sums are exact.
#include "kernels/conv/fma_convolution.h"

#include "kernels/kernel_test.h"
#include "kernels/threads/thread_pool.h"

using namespace rlx;
using namespace rlx::kernels;
using namespace rlx::test;

namespace {

struct Case {
  ConvolutionArgs args;
  int64_t x_size = 0, w_size = 0, y_size = 0;
};

/// Strides of x or y: planes, or channels last; x has gaps.
void lay_out(bool channels_last, int64_t channels, const int64_t* dims, int64_t gap, int64_t& batch_stride,
             int64_t& channel_stride, int64_t* strides) {
  if (channels_last) {
    channel_stride = 1, strides[1] = channels + gap, strides[0] = dims[1] * strides[1] + gap;
    batch_stride = dims[0] * strides[0];
  } else {
    strides[1] = 1, strides[0] = dims[1] + gap, channel_stride = dims[0] * strides[0];
    batch_stride = channels * channel_stride;
  }
}

Case random_case(Random& r) {
  Case c;
  ConvolutionArgs& a = c.args;
  a.spatial = 2, a.batch = 1 + r.below(4), a.groups = 1;
  a.in_channels = 8 + r.below(r.below(4) == 0 ? 400 : 40), a.out_channels = 8 + r.below(80);
  const bool is_pointwise = r.below(4) == 0;
  for (int d = 0; d < 2; ++d) {
    a.kernel[d] = is_pointwise ? 1 : 1 + r.below(r.below(6) == 0 ? 9 : 4), a.rhs_dilation[d] = 1 + (r.below(4) == 0);
    a.stride[d] = 1 + (r.below(3) == 0), a.out_dims[d] = 1 + r.below(14);
    const int64_t reach = (a.out_dims[d] - 1) * a.stride[d] + (a.kernel[d] - 1) * a.rhs_dilation[d] + 1;
    a.low[d] = r.below(2) == 0 ? 0 : r.below(6) - 2;
    a.in_dims[d] = std::max<int64_t>(1, reach - a.low[d] + (r.below(2) == 0 ? 0 : r.below(5) - 2));
  }
  lay_out(r.below(2) == 0, a.in_channels, a.in_dims, r.below(3), a.x_batch_stride, a.x_channel_stride, a.x_strides);
  lay_out(r.below(2) == 0, a.out_channels, a.out_dims, 0, a.y_batch_stride, a.y_channel_stride, a.y_strides);
  a.w_strides[1] = 1, a.w_strides[0] = a.kernel[1], a.w_in_stride = a.kernel[0] * a.kernel[1];
  a.w_out_stride = a.in_channels * a.w_in_stride;
  if (r.below(3) == 0)
    a.w_out_stride = 1, a.w_in_stride *= a.out_channels, a.w_strides[0] *= a.out_channels,
    a.w_strides[1] = a.out_channels;
  c.x_size = a.batch * a.x_batch_stride, c.y_size = a.batch * a.y_batch_stride;
  c.w_size = a.out_channels * a.in_channels * a.kernel[0] * a.kernel[1];
  return c;
}

double defined(const ConvolutionArgs& a, const std::vector<float>& x, const std::vector<float>& w, int64_t image,
               int64_t channel, int64_t row, int64_t col) {
  double sum = 0;
  for (int64_t u = 0; u < a.kernel[0]; ++u)
    for (int64_t v = 0; v < a.kernel[1]; ++v) {
      const int64_t i = row * a.stride[0] + u * a.rhs_dilation[0] - a.low[0];
      const int64_t j = col * a.stride[1] + v * a.rhs_dilation[1] - a.low[1];
      if (i < 0 || j < 0 || i >= a.in_dims[0] || j >= a.in_dims[1]) continue;
      const int64_t from = image * a.x_batch_stride + i * a.x_strides[0] + j * a.x_strides[1];
      const int64_t tap = channel * a.w_out_stride + u * a.w_strides[0] + v * a.w_strides[1];
      for (int64_t c = 0; c < a.in_channels; ++c)
        sum += static_cast<double>(x[static_cast<size_t>(from + c * a.x_channel_stride)]) *
               static_cast<double>(w[static_cast<size_t>(tap + c * a.w_in_stride)]);
    }
  return sum;
}

std::vector<float> whole_numbers(Random& r, int64_t count) {
  std::vector<float> all(static_cast<size_t>(count));
  for (float& v : all) v = static_cast<float>(r.below(5) - 2);
  return all;
}

}  // namespace

TEST_CASE("a convolution by multiply-adds equals its definition, with what follows it, by any number of threads") {
  for_each_target([&] {
    for (uint64_t seed = 0; seed < 50; ++seed) {
      CAPTURE(seed);
      Random r(seed);
      const Case c = random_case(r);
      const ConvolutionArgs& a = c.args;
      const int threads = 1 + static_cast<int>(seed % 3);
      REQUIRE(FmaConvolution::supports(a, 1));
      const std::vector<float> x = whole_numbers(r, c.x_size), w = whole_numbers(r, c.w_size);
      const std::vector<float> bias = whole_numbers(r, a.out_channels), residual = whole_numbers(r, c.y_size);
      std::vector<float> y(static_cast<size_t>(c.y_size), 99);
      ConvolutionEpilogue epilogue;
      if (seed % 2 == 0) epilogue.bias = bias.data();
      if (seed % 5 == 0) epilogue.residual = residual.data();
      const Activation activations[] = {Activation::none, Activation::relu, Activation::relu6, Activation::hard_swish};
      epilogue.activation = activations[seed / 2 % 4];
      FmaConvolution convolution(a, threads);
      Scratch packed(convolution.weights_bytes()), scratch(convolution.scratch_bytes());
      convolution.pack(w.data(), packed.data());
      convolution.run(x.data(), packed.data(), y.data(), epilogue, scratch.data(), ThreadPool::shared());
      for (int64_t n = 0; n < a.batch; ++n)
        for (int64_t o = 0; o < a.out_channels; ++o)
          for (int64_t i = 0; i < a.out_dims[0]; ++i)
            for (int64_t j = 0; j < a.out_dims[1]; ++j) {
              const auto at = static_cast<size_t>(n * a.y_batch_stride + o * a.y_channel_stride + i * a.y_strides[0] +
                                                  j * a.y_strides[1]);
              double want = defined(a, x, w, n, o, i, j);
              if (epilogue.bias) want += static_cast<double>(bias[static_cast<size_t>(o)]);
              if (epilogue.residual) want += static_cast<double>(residual[at]);
              if (epilogue.activation == Activation::hard_swish) {
                want *= std::clamp(want / 6 + 0.5, 0.0, 1.0);
                require_close(f32, static_cast<int64_t>(at), static_cast<double>(y[at]), want);
                continue;
              }
              if (epilogue.activation != Activation::none) want = std::max(want, 0.0);
              if (epilogue.activation == Activation::relu6) want = std::min(want, 6.0);
              REQUIRE(static_cast<double>(y[at]) == want);
            }
    }
  });
}

TEST_CASE("what multiply-adds have no kernel for is refused") {
  Random r(1);
  ConvolutionArgs a = random_case(r).args;
  a.kernel[0] = a.kernel[1] = 3;
  CHECK(FmaConvolution::supports(a, 1));
  CHECK(!FmaConvolution::supports(a, 2));
  const auto refused = [&](auto change) {
    ConvolutionArgs b = a;
    change(b);
    return !FmaConvolution::supports(b, 1);
  };
  CHECK(refused([](ConvolutionArgs& b) { b.dtype = bf16; }));
  CHECK(refused([](ConvolutionArgs& b) { b.spatial = 3; }));
  CHECK(refused([](ConvolutionArgs& b) { b.groups = 2; }));
  CHECK(refused([](ConvolutionArgs& b) { b.batch = 0; }));
  CHECK(refused([](ConvolutionArgs& b) { b.in_channels = 3; }));
  CHECK(refused([](ConvolutionArgs& b) { b.out_channels = 7; }));
  CHECK(refused([](ConvolutionArgs& b) { b.out_dims[1] = 0; }));
  CHECK(refused([](ConvolutionArgs& b) { b.lhs_dilation[0] = 2; }));
  CHECK(refused([](ConvolutionArgs& b) { b.w_strides[1] = -1; }));
  CHECK(refused([](ConvolutionArgs& b) { b.low[0] = int64_t{1} << 40; }));
  CHECK(refused([](ConvolutionArgs& b) { b.rhs_dilation[1] = int64_t{1} << 40; }));
  CHECK(refused([](ConvolutionArgs& b) { b.stride[0] = int64_t{1} << 40; }));
  CHECK(refused([](ConvolutionArgs& b) { b.x_channel_stride = 2, b.x_strides[1] = 5; }));
  CHECK(refused([](ConvolutionArgs& b) { b.y_channel_stride = 2, b.y_strides[1] = 5; }));
}

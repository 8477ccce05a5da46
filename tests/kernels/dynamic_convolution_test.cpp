// Judged by sums one by one, in the order of roundings that dynamic_quantize_conv defines. The files of
// tests/golden/ops/dynamic_products.rlx, by PyTorch and ONNX Runtime, judge the op by any device.
#include "kernels/quant/dynamic_convolution.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <vector>

#include "kernels/int8_isas.h"
#include "kernels/kernel_test.h"
#include "kernels/memory/aligned_memory.h"
#include "support/emulated_tiles.h"

using namespace rlx;
using namespace rlx::kernels;
using namespace rlx::test;

namespace {

struct Geometry {
  int spatial;
  int64_t batch, in, out, groups;
  std::array<int64_t, 3> size, kernel, stride, low, high, dilation;
};

/// Strides and extents of a convolution of dense images; the kernel is [out, in / groups, taps...].
ConvolutionArgs args_of(const Geometry& g, bool channels_last) {
  ConvolutionArgs a;
  a.spatial = g.spatial, a.batch = g.batch, a.groups = g.groups, a.in_channels = g.in, a.out_channels = g.out;
  int64_t x = channels_last ? g.in : 1, y = channels_last ? g.out : 1, w = 1;
  for (size_t d = static_cast<size_t>(g.spatial); d-- > 0;) {
    a.in_dims[d] = g.size[d], a.kernel[d] = g.kernel[d], a.stride[d] = g.stride[d], a.low[d] = g.low[d];
    a.rhs_dilation[d] = g.dilation[d];
    const int64_t room = g.size[d] + g.low[d] + g.high[d] - (g.kernel[d] - 1) * g.dilation[d] - 1;
    a.out_dims[d] = room < 0 ? 0 : room / g.stride[d] + 1;
    a.x_strides[d] = x, a.y_strides[d] = y, a.w_strides[d] = w;
    x *= a.in_dims[d], y *= a.out_dims[d], w *= a.kernel[d];
  }
  a.x_channel_stride = channels_last ? 1 : x, a.y_channel_stride = channels_last ? 1 : y;
  a.x_batch_stride = channels_last ? x : x * g.in, a.y_batch_stride = channels_last ? y : y * g.out;
  a.w_in_stride = w, a.w_out_stride = w * g.in / g.groups;
  return a;
}

struct ConvolutionOperands {
  std::vector<float> x, w_scale, bias, residual;
  std::vector<int8_t> w;

  ConvolutionOperands(const ConvolutionArgs& a, int64_t inputs, int64_t outputs, Random& random) {
    // Images of very different sizes: of usual numbers, the largest, zeros, the least; every fifth is not finite.
    const double sizes[] = {1, 1e30, 0, 1e-44, 250, 1e-20};
    const int64_t image = inputs * a.in_channels;
    for (int64_t n = 0; n < a.batch; ++n) {
      const double size = sizes[static_cast<size_t>(random.below(6))];
      for (int64_t i = 0; i < image; ++i) x.push_back(static_cast<float>(random.between(-size, size)));
      if (image > 0 && n % 5 == 4) x[x.size() - 1 - static_cast<size_t>(random.below(image))] = n % 2 ? INFINITY : NAN;
      if (image > 0 && n % 3 == 1) x[x.size() - static_cast<size_t>(image)] = static_cast<float>(size);  // ties
    }
    for (int64_t o = 0; o < a.out_channels; ++o) {
      w_scale.push_back(static_cast<float>(random.between(1e-4, 0.1) * (o % 6 == 5 ? 1e35 : 1)));
      bias.push_back(static_cast<float>(random.between(-9, 9)));
    }
    for (int64_t i = 0; i < a.w_out_stride * a.out_channels; ++i)
      w.push_back(static_cast<int8_t>(random.below(255) - 127));
    for (int64_t i = 0; i < a.batch * outputs * a.out_channels; ++i)
      residual.push_back(static_cast<float>(random.between(-1, 1)));
  }
};

struct Epilogue {
  bool bias, residual;
  Activation activation;
  int32_t largest;
  bool is_positive;  ///< no number of x is below 0
};

int64_t pixels_of(const int64_t* dims, int spatial) {
  int64_t n = 1;
  for (int d = 0; d < spatial; ++d) n *= dims[d];
  return n;
}

/// The sum for an output place, from the definition.
int64_t sum_at(const ConvolutionArgs& a, const std::vector<int64_t>& values, const std::vector<int8_t>& w,
               int64_t image, int64_t o, const int64_t* out) {
  const int64_t channels = a.in_channels / a.groups, group = o / (a.out_channels / a.groups);
  int64_t sum = 0;
  for (int64_t t = 0; t < pixels_of(a.kernel, a.spatial); ++t) {
    int64_t rest = t, at = image * a.x_batch_stride, tap_at = o * a.w_out_stride;
    bool is_inside = true;
    for (int d = a.spatial - 1; d >= 0; --d) {
      const int64_t tap = rest % a.kernel[d], place = out[d] * a.stride[d] + tap * a.rhs_dilation[d] - a.low[d];
      rest /= a.kernel[d];
      is_inside = is_inside && place >= 0 && place < a.in_dims[d];
      at += place * a.x_strides[d], tap_at += tap * a.w_strides[d];
    }
    for (int64_t c = 0; is_inside && c < channels; ++c)
      sum += values[static_cast<size_t>(at + (group * channels + c) * a.x_channel_stride)] *
             w[static_cast<size_t>(tap_at + c * a.w_in_stride)];
  }
  return sum;
}

std::vector<float> wanted_of(const ConvolutionArgs& a, const ConvolutionOperands& in, const Epilogue& e) {
  const int64_t image = pixels_of(a.in_dims, a.spatial) * a.in_channels, outputs = pixels_of(a.out_dims, a.spatial);
  std::vector<float> scales, y(in.residual.size());
  std::vector<int64_t> values;
  for (int64_t n = 0; n < a.batch; ++n) {
    const float* x = in.x.data() + n * image;
    float largest = 0, scale = 0;
    for (int64_t i = 0; i < image; ++i) {
      if (!std::isfinite(x[i])) scale = NAN;
      else largest = std::max(largest, std::fabs(x[i]));
    }
    if (!std::isnan(scale)) scale = std::max(largest / static_cast<float>(e.largest), 0x1p-126f);
    scales.push_back(scale);
    for (int64_t i = 0; i < image; ++i)
      values.push_back(std::isnan(scale) ? 0 : static_cast<int64_t>(std::nearbyint(x[i] * (1 / scale))));
  }
  for (int64_t n = 0; n < a.batch; ++n)
    for (int64_t o = 0; o < a.out_channels; ++o)
      for (int64_t p = 0; p < outputs; ++p) {
        int64_t out[3]{}, rest = p, at = n * a.y_batch_stride + o * a.y_channel_stride;
        for (int d = a.spatial - 1; d >= 0; --d) {
          out[d] = rest % a.out_dims[d], rest /= a.out_dims[d];
          at += out[d] * a.y_strides[d];
        }
        const float w_scale = in.w_scale[static_cast<size_t>(o)], scale = scales[static_cast<size_t>(n)];
        float v = static_cast<float>(sum_at(a, values, in.w, n, o, out)) * (w_scale < scale ? w_scale : scale);
        v = v * (w_scale < scale ? scale : w_scale);
        if (e.bias) v = v + in.bias[static_cast<size_t>(o)];
        if (e.residual) v = v + in.residual[static_cast<size_t>(at)];
        if (!std::isnan(v) && e.activation != Activation::none) v = std::max(v, 0.0f);
        if (!std::isnan(v) && e.activation == Activation::relu6) v = std::min(v, 6.0f);
        y[static_cast<size_t>(at)] = v;
      }
  return y;
}

/// How many results differ in a bit (NaN from a number), and how many places outside of what was lent are written.
int64_t wrong_convolution(const ConvolutionArgs& a, bool channels_last, const ConvolutionOperands& in,
                          const Epilogue& e, const std::vector<float>& wanted, Int8DotIsa isa) {
  DynamicConvolution c(a, channels_last, e.largest, isa);
  c.activation = e.activation;
  const auto lent = [](size_t bytes) {
    AlignedMemory memory = aligned_memory(bytes + 64);
    std::memset(memory.get(), 0x55, bytes + 64);
    return memory;
  };
  const auto overrun = [](const AlignedMemory& memory, size_t bytes) {
    return std::count_if(memory.get() + bytes, memory.get() + bytes + 64, [](char v) { return v != 0x55; });
  };
  const AlignedMemory packed = lent(convolution_weights_bytes(c)), own = lent(convolution_packing_bytes(c));
  pack_convolution_weights(c, in.w.data(), packed.get(), reinterpret_cast<std::byte*>(own.get()));
  const AlignedMemory values = lent(quantized_image_bytes(c)), block = lent(convolution_block_bytes(c));
  auto* const image_values = reinterpret_cast<std::byte*>(values.get());
  std::vector<float> y(wanted.size() + 64, -77.0f);
  const int64_t image = c.inputs() * a.in_channels, out = c.outputs() * a.out_channels, n = c.weights.n;
  for (int64_t i = 0; i < a.batch; ++i) {
    const float* x = in.x.data() + i * image;
    ConvolutionBlock b{};
    b.values = image_values, b.scale = image_scale(c, image_range(c, x, 0, image));
    const int64_t middle = c.pieces() / 3;
    quantize_image(c, x, 0, middle, b.scale, image_values);
    quantize_image(c, x, middle, c.pieces(), b.scale, image_values);
    b.packed = packed.get(), b.w_scale = in.w_scale.data(), b.bias = e.bias ? in.bias.data() : nullptr;
    b.residual = e.residual ? in.residual.data() + i * out : nullptr, b.y = y.data() + i * out;
    for (b.group = 0; b.group < a.groups; ++b.group)
      for (b.block = 0; b.block < c.blocks(); ++b.block)
        for (b.begin = 0; b.begin < n; b.begin = b.end) {
          b.end = std::min(n, b.begin + DynamicProduct::kColumns);
          convolve_block(c, b, reinterpret_cast<std::byte*>(block.get()));
        }
  }
  int64_t wrong = std::count_if(y.end() - 64, y.end(), [](float v) { return v != -77.0f; }) +
                  overrun(packed, convolution_weights_bytes(c)) + overrun(own, convolution_packing_bytes(c)) +
                  overrun(values, quantized_image_bytes(c)) + overrun(block, convolution_block_bytes(c));
  for (size_t i = 0; i < wanted.size(); ++i) {
    const bool is_same = std::isnan(wanted[i]) ? std::isnan(y[i]) : std::memcmp(&wanted[i], &y[i], sizeof(float)) == 0;
    wrong += !is_same;
  }
  return wrong;
}

/// `largest` 0: any value may be the largest one.
void check_geometry(const Geometry& g, Random& random, int32_t largest = 0) {
  const Activation activations[] = {Activation::none, Activation::relu, Activation::relu6};
  for (const bool channels_last : {false, true}) {
    const ConvolutionArgs a = args_of(g, channels_last);
    const Epilogue e{random.below(2) != 0, random.below(2) != 0, activations[static_cast<size_t>(random.below(3))],
                     largest > 0 ? largest : std::array{127, 1023, 255, 16383}[static_cast<size_t>(random.below(4))],
                     random.below(2) != 0};
    ConvolutionOperands in(a, pixels_of(a.in_dims, a.spatial), pixels_of(a.out_dims, a.spatial), random);
    if (e.is_positive)
      for (float& v : in.x) v = std::fabs(v);
    const std::vector<float> wanted = wanted_of(a, in, e);
    for_each_target([&] {
      for (const Int8DotIsa isa : int8_isas_here()) {
        INFO("isa ", static_cast<int>(isa), ": ", g.batch, "x", g.in, " to ", g.out, " in ", g.groups, " groups, ",
             g.size[0], "x", g.size[1], "x", g.size[2], " by ", g.kernel[0], "x", g.kernel[1], "x", g.kernel[2],
             ", last ", channels_last, ", bias ", e.bias, ", residual ", e.residual, ", values to ", e.largest,
             ", positive ", e.is_positive);
        CHECK(wrong_convolution(a, channels_last, in, e, wanted, isa) == 0);
      }
    });
  }
}

}  // namespace

TEST_CASE_FIXTURE(MatrixTiles, "convolutions in 8 bits have the bits of their definition, whatever their geometry") {
  Random random(1);
  const std::array<int64_t, 3> ones{1, 1, 1}, none{0, 0, 0};
  const Geometry cases[] = {
      // batch, in, out, groups, size, kernel, stride, low, high, dilation
      {2, 5, 16, 17, 1, {9, 8, 1}, {3, 3, 1}, ones, {1, 1, 0}, {1, 1, 0}, ones},        // the usual one
      {2, 5, 16, 17, 1, {9, 8, 1}, {1, 1, 1}, ones, none, none, ones},                  // in place
      {2, 2, 64, 33, 1, {20, 23, 1}, {1, 1, 1}, ones, none, none, ones},                // in place, several blocks
      {2, 5, 15, 40, 1, {5, 7, 1}, {1, 1, 1}, ones, none, none, ones},                  // an odd number of channels
      {2, 2, 34, 70, 1, {9, 8, 1}, {1, 1, 1}, {2, 3, 1}, none, none, ones},             // strided pixels
      {2, 1, 3, 32, 1, {31, 30, 1}, {7, 7, 1}, {2, 2, 1}, {3, 3, 0}, {3, 2, 0}, ones},  // an image of colours
      {2, 2, 66, 18, 1, {7, 6, 1}, {3, 2, 1}, {1, 2, 1}, {0, 2, 0}, {2, 0, 0}, ones},
      {2, 2, 9, 16, 1, {12, 13, 1}, {3, 3, 1}, ones, {2, 4, 0}, {2, 4, 0}, {2, 4, 1}},  // dilated
      {2, 2, 9, 16, 1, {12, 13, 1}, {3, 3, 1}, ones, {2, 1, 0}, {2, 1, 0}, {2, 1, 1}},
      {2, 3, 24, 36, 4, {6, 7, 1}, {3, 3, 1}, ones, {1, 1, 0}, {1, 1, 0}, ones},        // grouped
      {2, 2, 12, 12, 12, {6, 7, 1}, {3, 3, 1}, {2, 1, 1}, {1, 1, 0}, {1, 1, 0}, ones},  // depthwise
      {2, 2, 8, 16, 1, {4, 4, 1}, {3, 3, 1}, {3, 2, 1}, {5, 6, 0}, {4, 7, 0}, ones},    // windows of padding alone
      {2, 2, 8, 16, 1, {6, 6, 1}, {3, 3, 1}, ones, {-1, 0, 0}, {0, -2, 0}, ones},       // pixels that are cut off
      {1, 3, 10, 20, 1, {35, 1, 1}, {5, 1, 1}, {2, 1, 1}, {2, 0, 0}, {2, 0, 0}, ones},
      {1, 2, 32, 64, 1, {50, 1, 1}, {1, 1, 1}, ones, none, none, ones},
      {3, 2, 6, 16, 1, {5, 4, 6}, {2, 3, 3}, {1, 2, 1}, {1, 1, 1}, {0, 1, 1}, {1, 1, 2}},
      {3, 2, 6, 18, 3, {5, 4, 6}, {2, 3, 3}, {2, 1, 1}, {1, 1, 1}, {0, 1, 1}, ones},
      {2, 0, 6, 16, 1, {5, 4, 1}, {3, 3, 1}, ones, {1, 1, 0}, {1, 1, 0}, ones},  // no images
      {2, 2, 6, 16, 1, {0, 4, 1}, {3, 3, 1}, ones, {2, 1, 0}, {2, 1, 0}, ones},  // no pixels
      {2, 2, 0, 16, 1, {3, 4, 1}, {3, 3, 1}, ones, {1, 1, 0}, {1, 1, 0}, ones},  // no channels
      {2, 2, 6, 16, 1, {2, 2, 1}, {3, 3, 1}, ones, none, none, ones},            // no outputs
  };
  for (const Geometry& g : cases) check_geometry(g, random);
  // Weights beyond the cache.
  check_geometry({2, 1, 8300, 64, 1, {4, 5, 1}, {1, 1, 1}, ones, none, none, ones}, random, 255);
}

TEST_CASE_FIXTURE(MatrixTiles, "rows of values that do not fit the cache are exact") {
  Random random(2);
  check_geometry({2, 1, 300, 20, 1, {7, 9, 1}, {3, 3, 1}, {1, 1, 1}, {1, 1, 0}, {1, 1, 0}, {1, 1, 1}}, random);
}

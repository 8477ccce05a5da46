// Convolutions of bf16, channels last, by matrix tiles and depthwise: judged by sums in f64, one by one.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <vector>

#include "kernels/conv/depthwise_narrow.h"
#include "kernels/conv/narrow_tiles.h"
#include "kernels/gemm/amx/tiles.h"
#include "kernels/gemm/fma/dot_tiles.h"
#include "kernels/kernel_test.h"
#include "kernels/memory/aligned_memory.h"
#include "kernels/vector/instruction_set.h"
#include "support/emulated_tiles.h"

using namespace rlx;
using namespace rlx::kernels;
using namespace rlx::test;

namespace {

struct Geometry {
  int spatial;
  int64_t batch, in, out, groups;
  std::array<int64_t, 2> size, kernel, stride, low, high, dilation;
  bool planes = false;  ///< channels of x are planes
};

ConvolutionArgs args_of(const Geometry& g) {
  ConvolutionArgs a;
  a.dtype = a.out_dtype = bf16;
  a.spatial = g.spatial, a.batch = g.batch, a.groups = g.groups, a.in_channels = g.in, a.out_channels = g.out;
  int64_t x = g.planes ? 1 : g.in, y = g.out, w = 1;
  for (size_t d = static_cast<size_t>(g.spatial); d-- > 0;) {
    a.in_dims[d] = g.size[d], a.kernel[d] = g.kernel[d], a.stride[d] = g.stride[d], a.low[d] = g.low[d];
    a.rhs_dilation[d] = g.dilation[d];
    a.out_dims[d] = (g.size[d] + g.low[d] + g.high[d] - (g.kernel[d] - 1) * g.dilation[d] - 1) / g.stride[d] + 1;
    a.x_strides[d] = x, a.y_strides[d] = y, a.w_strides[d] = w;
    x *= a.in_dims[d], y *= a.out_dims[d], w *= a.kernel[d];
  }
  a.x_channel_stride = g.planes ? x : 1, a.y_channel_stride = 1;
  a.x_batch_stride = g.planes ? x * g.in : x, a.y_batch_stride = y;
  a.w_in_stride = w, a.w_out_stride = w * g.in / g.groups;
  return a;
}

struct Operands {
  std::vector<BF16> x, w, bias, residual;
  Operands(const ConvolutionArgs& a, Random& random) {
    const auto fill = [&](std::vector<BF16>& to, int64_t count, double most) {
      for (int64_t i = 0; i < count; ++i) to.push_back(to_bf16(static_cast<float>(random.between(-most, most))));
    };
    fill(x, a.batch * a.in_channels * a.in_dims[0] * (a.spatial > 1 ? a.in_dims[1] : 1), 2);
    fill(w, a.out_channels * a.w_out_stride, 2), fill(bias, a.out_channels, 9);
    fill(residual, a.batch * a.y_batch_stride, 9);
  }
};

struct NarrowEpilogue {
  bool bias, residual;
  Activation activation;
};

/// Results that are further from the exact ones than bf16 and sums in f32 explain, or not NaN where these are.
int64_t wrong_results(const ConvolutionArgs& a, const Operands& in, const NarrowEpilogue& e,
                      const std::vector<BF16>& y) {
  int64_t wrong = 0;
  const int64_t channels = a.in_channels / a.groups, of_group = a.out_channels / a.groups;
  const int64_t cols = a.out_dims[a.spatial - 1], rows = a.spatial > 1 ? a.out_dims[0] : 1;
  const int last = a.spatial - 1;
  for (int64_t n = 0; n < a.batch; ++n)
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t c = 0; c < cols; ++c)
        for (int64_t o = 0; o < a.out_channels; ++o) {
          double sum = 0, size = 0;
          for (int64_t i = 0; i < (last > 0 ? a.kernel[0] : 1); ++i)
            for (int64_t j = 0; j < a.kernel[last]; ++j) {
              const int64_t row = last > 0 ? r * a.stride[0] + i * a.rhs_dilation[0] - a.low[0] : 0;
              const int64_t col = c * a.stride[last] + j * a.rhs_dilation[last] - a.low[last];
              if (row < 0 || (last > 0 && row >= a.in_dims[0]) || col < 0 || col >= a.in_dims[last]) continue;
              for (int64_t k = 0; k < channels; ++k) {
                const int64_t at = n * a.x_batch_stride + (last > 0 ? row * a.x_strides[0] : 0) +
                                   col * a.x_strides[last] + (o / of_group * channels + k) * a.x_channel_stride;
                const int64_t w_at = o * a.w_out_stride + k * a.w_in_stride + (last > 0 ? i * a.w_strides[0] : 0) +
                                     j * a.w_strides[last];
                const double term =
                    double{to_f32(in.x[static_cast<size_t>(at)])} * double{to_f32(in.w[static_cast<size_t>(w_at)])};
                sum += term, size += std::fabs(term);
              }
            }
          const auto at = static_cast<size_t>(((n * rows + r) * cols + c) * a.out_channels + o);
          if (e.bias) sum += double{to_f32(in.bias[static_cast<size_t>(o)])}, size += 9;
          if (e.residual) sum += double{to_f32(in.residual[at])}, size += 9;
          if (e.activation == Activation::relu || e.activation == Activation::relu6)
            sum = std::isnan(sum) ? sum : std::max(sum, 0.0);
          if (e.activation == Activation::relu6) sum = std::isnan(sum) ? sum : std::min(sum, 6.0);
          if (e.activation == Activation::tanh) sum = std::tanh(sum);
          const double got = double{to_f32(y[at])};
          const bool is_right =
              std::isnan(sum) ? std::isnan(got) : std::fabs(got - sum) <= 0x1p-8 * std::fabs(sum) + 0x1p-20 * size;
          wrong += !is_right;
        }
  return wrong;
}

std::vector<BF16> by_tiles(const ConvolutionArgs& a, const Operands& in, const NarrowEpilogue& e, bool may_read_x) {
  const TileImage image(a, 2, may_read_x);
  const AlignedMemory weights = aligned_memory(static_cast<size_t>(image.weights_bytes()));
  image.pack_weights(in.w.data(), weights.get());
  const auto copy_bytes = static_cast<size_t>(image.copy_bytes());
  const AlignedMemory copy = aligned_memory(copy_bytes + 64);
  std::vector<float> bias(static_cast<size_t>(image.panels() * TileImage::kColumns));
  for (size_t i = 0; i < in.bias.size(); ++i) bias[i] = to_f32(in.bias[i]);
  std::vector<BF16> y(static_cast<size_t>(a.batch * a.y_batch_stride) + 64, to_bf16(-77));
  for (int64_t n = 0; n < a.batch; ++n) {
    const BF16* x = in.x.data() + n * a.x_batch_stride;
    std::memset(copy.get(), 0x7f, copy_bytes + 64);  // what is not written is NaN, or large
    image.copy_rows(x, 0, image.rows() / 3, copy.get());
    image.copy_rows(x, image.rows() / 3, image.rows(), copy.get());
    CHECK(std::count(copy.get() + copy_bytes, copy.get() + copy_bytes + 64, 0x7f) == 64);
    NarrowTilesCall call;
    call.image = image.reads_x() ? reinterpret_cast<const char*>(x) : copy.get();
    call.weights = weights.get(), call.bias = e.bias ? bias.data() : nullptr, call.channels = a.out_channels;
    call.residual = e.residual ? in.residual.data() + n * a.y_batch_stride : nullptr;
    call.y = y.data() + n * a.y_batch_stride, call.activation = e.activation;
    const auto tiles = static_cast<int64_t>(image.tiles().size());
    const int64_t middle = tiles / 2, panel = image.panels() / 2;
    convolve_narrow_tiles(image, call, 0, middle, 0, image.panels());
    convolve_narrow_tiles(image, call, middle, tiles, 0, panel);
    convolve_narrow_tiles(image, call, middle, tiles, panel, image.panels());
  }
  CHECK(std::all_of(y.end() - 64, y.end(), [](BF16 v) { return to_f32(v) == -77; }));
  return y;
}

constexpr Activation kActivations[] = {Activation::none, Activation::relu, Activation::relu6, Activation::tanh};
NarrowEpilogue any_epilogue(Random& random) {
  return {random.below(2) != 0, random.below(2) != 0, kActivations[random.below(4)]};
}

/// Judges narrow_tiles.h as this thread may run it now.
void check_narrow_tiles() {
  Random random(1);
  const std::array<int64_t, 2> ones{1, 1}, none{0, 0};
  const Geometry cases[] = {
      // batch, in, out, groups, size, kernel, stride, low, high, dilation
      {2, 2, 64, 96, 1, {7, 9}, ones, ones, none, none, ones},              // where it lies, 63 pixels
      {2, 1, 144, 24, 1, {5, 7}, ones, ones, none, none, ones},             // in steps of 24 channels
      {2, 2, 24, 50, 1, {4, 5}, ones, ones, none, none, ones},              // less than a step, and than a panel
      {2, 1, 40, 33, 1, {3, 3}, ones, ones, none, none, ones},              // fewer pixels than a tile has
      {2, 1, 13, 16, 1, {6, 6}, ones, ones, none, none, ones},              // channels are filled up
      {2, 1, 64, 32, 1, {9, 31}, ones, {2, 2}, none, none, ones},           // row by row where they lie
      {2, 1, 64, 32, 1, {9, 13}, ones, {2, 2}, none, none, ones},           // of a copy of every second row
      {2, 2, 32, 40, 1, {7, 8}, {3, 3}, ones, ones, ones, ones},            // the usual one
      {2, 1, 96, 64, 1, {9, 10}, {3, 3}, {2, 2}, ones, ones, ones},         // strided
      {2, 1, 96, 64, 1, {14, 14}, {3, 3}, {2, 2}, none, ones, ones},        // and padded at one end
      {2, 1, 32, 33, 1, {12, 11}, {5, 3}, {3, 2}, {2, 0}, {1, 2}, {2, 3}},  // dilated
      {2, 2, 3, 32, 1, {17, 18}, {3, 3}, {2, 2}, ones, ones, ones},         // an image of colours
      {2, 1, 3, 64, 1, {30, 29}, {7, 7}, {2, 2}, {3, 3}, {3, 3}, ones, true},
      {2, 1, 600, 48, 1, {5, 5}, {3, 3}, ones, ones, ones, ones},       // more steps than a partial sum has
      {2, 1, 32, 32, 1, {6, 6}, {3, 3}, ones, {-1, 0}, {0, -2}, ones},  // pixels that are cut off
      {2, 1, 32, 32, 1, {4, 4}, {3, 3}, {3, 2}, {5, 6}, {4, 7}, ones},  // windows of padding alone
      {1, 2, 32, 40, 1, {50, 1}, {3, 1}, {2, 1}, {1, 0}, {1, 0}, ones},
      {1, 1, 64, 64, 1, {40, 1}, ones, ones, none, none, ones},
      {2, 1, 2560, 104, 1, {7, 16}, ones, ones, none, none, ones},  // weights beyond the cache, pixels in two blocks
  };
  for (const Geometry& g : cases) {
    const ConvolutionArgs a = args_of(g);
    REQUIRE(has_narrow_tiles(a));
    const Operands in(a, random);
    for (const bool may_read_x : {false, true}) {
      const NarrowEpilogue e = any_epilogue(random);
      INFO(g.in, " to ", g.out, ", ", g.size[0], "x", g.size[1], " by ", g.kernel[0], "x", g.kernel[1],
           ", read in place ", may_read_x, ", bias ", e.bias, ", residual ", e.residual, ", activation ",
           static_cast<int>(e.activation));
      CHECK(wrong_results(a, in, e, by_tiles(a, in, e, may_read_x)) == 0);
      // Whoever reads a number that is not one, and nobody else, gets NaN or infinity.
      Operands odd = in;
      odd.x[static_cast<size_t>(random.below(static_cast<int64_t>(odd.x.size())))] = to_bf16(NAN);
      odd.x[static_cast<size_t>(random.below(static_cast<int64_t>(odd.x.size())))] = to_bf16(INFINITY);
      const NarrowEpilogue plain{e.bias, e.residual, Activation::none};
      const std::vector<BF16> y = by_tiles(a, odd, plain, may_read_x), finite = by_tiles(a, in, plain, may_read_x);
      int64_t touched = 0;
      for (size_t i = 0; i < finite.size(); ++i)
        touched += std::isfinite(to_f32(y[i])) ? y[i].bits != finite[i].bits : 1;
      CHECK(touched <= 2 * a.kernel[0] * (a.spatial > 1 ? a.kernel[1] : 1) * a.out_channels);
    }
  }
}

}  // namespace

TEST_CASE_FIXTURE(MatrixTiles, "convolutions of bf16 on tiles are as exact as f32, rounded once") {
  if (are_there) check_narrow_tiles();
}

TEST_CASE("convolutions of bf16 by dot products in place of tiles are as exact as f32, rounded once") {
  if (!has_bf16_tile_dots()) {
    MESSAGE("skipped: this processor has no AVX-512 with dot products of bf16, or RLX_ISA hides them");
    return;
  }
  const InstructionSetScope scope(instruction_set_limit("avx512_vnni", "isa"));
  REQUIRE(!has_matrix_tiles());
  check_narrow_tiles();
}

TEST_CASE("depthwise convolutions of bf16 are as exact as f32, rounded once") {
  Random random(2);
  const std::array<int64_t, 2> ones{1, 1}, none{0, 0};
  const Geometry cases[] = {
      {2, 2, 64, 64, 64, {7, 9}, {3, 3}, ones, ones, ones, ones},
      {2, 1, 144, 144, 144, {9, 8}, {3, 3}, {2, 2}, ones, ones, ones},  // half a vector more
      {2, 1, 96, 96, 96, {9, 12}, {3, 3}, {2, 2}, none, ones, ones},
      {2, 1, 24, 24, 24, {6, 7}, {3, 3}, ones, ones, ones, ones},  // less than a vector
      {2, 1, 35, 35, 35, {6, 7}, {3, 3}, ones, ones, ones, ones},  // an odd number
      {2, 1, 40, 40, 40, {9, 14}, {5, 5}, ones, {2, 2}, {2, 2}, ones},
      {2, 1, 34, 34, 34, {9, 14}, {5, 5}, {2, 2}, {2, 2}, {2, 2}, ones},
      {2, 2, 38, 38, 38, {9, 11}, {3, 3}, {2, 1}, {2, 3}, {2, 1}, {2, 2}},
      {2, 1, 32, 32, 32, {4, 3}, {3, 3}, {3, 2}, {5, 6}, {4, 7}, ones},
      {2, 1, 32, 32, 32, {8, 9}, {3, 3}, ones, {-1, 0}, {0, -2}, ones},
      {1, 2, 50, 50, 50, {30, 1}, {4, 1}, ones, {1, 0}, {1, 0}, ones},
  };
  for (const Geometry& g : cases) {
    const ConvolutionArgs a = args_of(g);
    REQUIRE(is_narrow_depthwise(a));
    const Operands in(a, random);
    NarrowEpilogue e = any_epilogue(random);
    e.residual = false;
    INFO(g.in, " channels, ", g.size[0], "x", g.size[1], " by ", g.kernel[0], "x", g.kernel[1], ", bias ", e.bias,
         ", activation ", static_cast<int>(e.activation));
    std::vector<float> weights(narrow_depthwise_weights_bytes(a) / 4), bias(narrow_bias_bytes(a) / 4);
    pack_narrow_depthwise(a, in.w.data(), weights.data());
    split_narrow_bias(a, in.bias.data(), bias.data());
    for_each_target([&] {
      std::vector<BF16> y(static_cast<size_t>(a.batch * a.y_batch_stride) + 64, to_bf16(-77));
      NarrowDepthwiseCall call;
      call.x = in.x.data(), call.weights = weights.data(), call.bias = e.bias ? bias.data() : nullptr;
      call.activation = e.activation, call.y = y.data();
      const int64_t rows = a.batch * (a.spatial > 1 ? a.out_dims[0] : 1);
      narrow_depthwise(a, call, 0, rows / 2), narrow_depthwise(a, call, rows / 2, rows);
      CHECK(std::all_of(y.end() - 64, y.end(), [](BF16 v) { return to_f32(v) == -77; }));
      CHECK(wrong_results(a, in, e, y) == 0);
    });
  }
}

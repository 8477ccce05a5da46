// See the header. A task computes all pixels of some rows of outputs for one panel of output channels after the other,
// and of a panel one block of terms after the other. A block's weights are at most 64 KiB (32 KiB with AVX2), so that
// all pixels reuse them from the first- or second-level cache, where the pixels stay, too. Sums of earlier blocks wait
// in scratch memory. All loops are in this file, which makes it long, so that they are compiled once per instruction
// set. The thresholds may be changed; the terms of a partial sum and the packed layout may not, the latter without a
// new name in lower_fma_convolution.cpp, as packed weights are kept in files.
#include "kernels/conv/fma_convolution.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "base/rounded_up.h"
#include "kernels/gemm/fma/micro_kernels.h"
#include "kernels/memory/cache_sizes.h"
#include "kernels/partial_sums.h"
#include "kernels/threads/thread_pool.h"
#include "kernels/vector/highway_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/conv/fma_convolution.cpp"
#include "hwy/cache_control.h"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "kernels/gemm/fma/packing-inl.h"
#include "kernels/vector/narrow_float-inl.h"

#ifndef RLX_KERNELS_FMA_CONVOLUTION_ONCE
#define RLX_KERNELS_FMA_CONVOLUTION_ONCE
namespace rlx::kernels {
namespace {

constexpr int64_t kMaxTileChannels = 4;  ///< vectors of the widest panel
constexpr int64_t kMaxTilePixels = 8;
constexpr int64_t kLineFloats = 16;  ///< of a cache line

/// How the output channels are divided into panels: of 4 vectors, the last ones of 3, 2 or, if there is one vector
/// only, 1.
struct ChannelPanels {
  int64_t vectors;

  int64_t wide() const { return vectors % 4 == 1 && vectors > 1 ? vectors / 4 - 1 : vectors / 4; }
  int64_t left() const { return vectors - 4 * wide(); }  ///< 0 to 3, or 5
  int64_t count() const { return wide() + (left() == 5 ? 2 : left() > 0 ? 1 : 0); }
  /// The index of a panel's first vector; begin(count()) is the number of vectors.
  int64_t begin(int64_t panel) const {
    if (panel <= wide()) return 4 * panel;
    return panel == wide() + 1 && left() == 5 ? 4 * wide() + 3 : vectors;
  }
};

/// An output pixel of a task.
struct OutputPixel {
  int64_t x;      ///< of its first tap in the image that is read, in elements from where the task begins to read
  int64_t y;      ///< of its first channel in y, in elements from the task's first image
  int64_t index;  ///< among the task's outputs, row by row
  uint64_t taps;  ///< a bit for each tap that reads no padding
};

/// Outputs that are computed together. In most groups all outputs have the same taps, so that taps which read only
/// padding are skipped.
struct OutputGroup {
  const OutputPixel* outputs;  ///< the last one is repeated, for the last tile
  int64_t count;
};
constexpr int64_t kMaxGroups = 32;
/// Groups of few outputs fill tiles badly. So if a task has at most kFewOutputs outputs, a block of one tap is computed
/// only for a list of the outputs that read something but padding at that tap: 3 x 3 over 7 x 7 pixels takes 0.93 of
/// the time. Over 14 x 14 pixels lists gain nothing.
constexpr int64_t kFewOutputs = 64, kMaxListedTaps = 9;

/// How many tiles of `height` or `height` - 1 outputs compute `count` outputs, and how many of them are the higher
/// ones.
struct TileHeights {
  int64_t tiles, high;
  TileHeights(int64_t count, int64_t height)
      : tiles(divided_up(count, height)), high(std::max<int64_t>(0, count - tiles * (height - 1))) {}
  int64_t outputs(int64_t height) const { return tiles * (height - 1) + high; }  ///< those computed twice included
};

/// Outputs of all channels of some panels, by one thread.
struct ConvolutionTask {
  const ConvolutionArgs* args;
  bool copies;
  int64_t pixel, row;  ///< strides of the image that is read
  const std::vector<FmaConvolution::Run>* runs;
  const std::vector<FmaConvolution::Block>* blocks;
  int64_t terms;
  const float* weights;     ///< all panels
  const float* are_finite;  ///< of each panel: 0 if all its weights are finite, else NaN
  int64_t panel_begin, panel_end;
  int64_t image_begin, image_end, row_begin, row_end;  ///< of the outputs
  const ConvolutionEpilogue* epilogue;
  char* scratch;
};

int64_t padded_rows(const ConvolutionArgs& a, int64_t outputs) {
  return (outputs - 1) * a.stride[0] + (a.kernel[0] - 1) * a.rhs_dilation[0] + 1;
}
int64_t padded_cols(const ConvolutionArgs& a) {
  return (a.out_dims[1] - 1) * a.stride[1] + (a.kernel[1] - 1) * a.rhs_dilation[1] + 1;
}

/// Scratch memory of a task, piece by piece.
struct TaskScratch {
  int64_t image, outputs, lists, sums, transposed;  ///< bytes of each
  TaskScratch(const ConvolutionArgs& a, bool copies, int64_t images, int64_t rows, int64_t panel_floats) {
    const int64_t pixels = rounded_up(images * rows * a.out_dims[1], 64);
    image = copies ? aligned(images * padded_rows(a, rows) * padded_cols(a) * a.in_channels * 4) : 0;
    outputs = aligned((pixels + kMaxGroups * kMaxTilePixels) * static_cast<int64_t>(sizeof(OutputPixel)));
    const bool has_lists = copies && a.kernel[0] * a.kernel[1] <= kMaxListedTaps;
    lists = has_lists ? kMaxListedTaps * (kFewOutputs + kMaxTilePixels) * static_cast<int64_t>(sizeof(OutputPixel)) : 0;
    sums = aligned(pixels * panel_floats * 4);
    transposed = a.y_channel_stride == 1 ? 0 : sums;
  }
  int64_t bytes() const { return image + outputs + lists + sums + transposed; }
};

}  // namespace
}  // namespace rlx::kernels
#endif  // RLX_KERNELS_FMA_CONVOLUTION_ONCE

HWY_BEFORE_NAMESPACE();
namespace rlx::kernels {
namespace HWY_NAMESPACE {
namespace {

int64_t lanes_of_sums() { return static_cast<int64_t>(hn::Lanes(F32Tag())); }

/// What sum_block() needs of a task and a panel.
struct PanelSums {
  const float* x;
  const OutputGroup* groups;
  int64_t group_count;
  const FmaConvolution::Run* runs;
  int64_t run_count, terms;        ///< of the block
  const float* weights;            ///< of the block
  uint64_t multiplied_taps;        ///< taps that are multiplied wherever they read padding: none, or all
  const char* next;                ///< weights to prefetch
  int64_t next_bytes, prefetched;  ///< all of them, and with each tile
  float* sums;                     ///< [outputs, channels of the panel]
  int64_t ahead;                   ///< floats between the pixels of neighbouring outputs if x is prefetched, else 0
  bool is_first;                   ///< there are no sums of earlier blocks
  bool stores, streams;            ///< the block stores results to y; it does so by non-temporal stores
  float* y;                        ///< at the panel's first channel, as all below
  ClampedEpilogue epilogue;
};

/// How many outputs a tile has at most, for `vectors` vectors of channels: its sums and the weights of a term fill the
/// registers.
constexpr int tile_height(int64_t vectors) {
  constexpr bool kIsWide = kVectorRegisters == 32;
  return vectors == 1 ? 8 : vectors == 2 ? (kIsWide ? 8 : 6) : vectors == 3 ? (kIsWide ? 8 : 4) : kIsWide ? 6 : 3;
}

/// Adds a block of terms to the sums of `count` outputs, kPixels at a time, for kVectors vectors of channels. Returns
/// where the weights begin that are left to prefetch.
template <int kPixels, int kVectors>
HWY_NOINLINE const char* sum_tiles(const PanelSums& p, const OutputPixel* outputs, int64_t count, const char* next) {
  const F32Tag d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const int64_t width = kVectors * lanes, terms = p.terms;
  const char* const next_end = p.next + p.next_bytes;
  for (; count > 0; count -= kPixels, outputs += kPixels) {
    for (const char* stop = std::min(next + p.prefetched, next_end); next < stop; next += 64)
      __builtin_prefetch(next, 0, 2);
    // Lines of results and residuals lie too far apart for the processor to prefetch them: those of the next tile.
    if (p.stores && count > kPixels)
      RLX_UNROLL for (int i = 0; i < kPixels; ++i) RLX_UNROLL for (int v = 0; v < kVectors; ++v) {
        const int64_t at = outputs[kPixels + i].y + v * lanes;
        if (!p.streams) __builtin_prefetch(p.y + at, 1, 3);
        if (p.epilogue.residual) __builtin_prefetch(p.epilogue.residual + at);
      }
    uint64_t taps = p.multiplied_taps;
    RLX_UNROLL for (int i = 0; i < kPixels; ++i) taps |= outputs[i].taps;
    F32Vec sum[kPixels][kVectors];
    RLX_UNROLL for (int i = 0; i < kPixels; ++i) RLX_UNROLL for (int v = 0; v < kVectors; ++v) sum[i][v] = hn::Zero(d);
    const float* w = p.weights;
    for (int64_t r = 0; r < p.run_count; ++r) {
      if ((p.runs[r].taps & taps) == 0) {
        w += terms * width;
        continue;
      }
      const float* x[kPixels];
      RLX_UNROLL for (int i = 0; i < kPixels; ++i) x[i] = p.x + outputs[i].x + p.runs[r].x;
      for (int64_t k = 0; k < terms; ++k, w += width) {
        // Prefetches the next tile's pixels, if it goes on with the row. For one vector it would cost a tenth of the
        // time.
        if constexpr (kVectors > 1)
          if (p.ahead != 0 && k % kLineFloats == 0)
            RLX_UNROLL for (int i = 0; i < kPixels; ++i) __builtin_prefetch(x[i] + k + p.ahead * kPixels);
        if constexpr (kPixels < kVectors) {
          F32Vec seen[kPixels];
          RLX_UNROLL for (int i = 0; i < kPixels; ++i) seen[i] = hn::Set(d, x[i][k]);
          RLX_UNROLL for (int v = 0; v < kVectors; ++v) {
            const F32Vec weight = hn::LoadU(d, w + v * lanes);
            RLX_UNROLL for (int i = 0; i < kPixels; ++i) sum[i][v] = hn::MulAdd(weight, seen[i], sum[i][v]);
          }
        } else {
          F32Vec weight[kVectors];
          RLX_UNROLL for (int v = 0; v < kVectors; ++v) weight[v] = hn::LoadU(d, w + v * lanes);
          RLX_UNROLL for (int i = 0; i < kPixels; ++i) {
            const F32Vec seen = hn::Set(d, x[i][k]);
            RLX_UNROLL for (int v = 0; v < kVectors; ++v) sum[i][v] = hn::MulAdd(weight[v], seen, sum[i][v]);
          }
        }
      }
    }
    // All sums are read before the first one is written: an output may be twice in a tile.
    if (!p.is_first) {
      RLX_UNROLL for (int i = 0; i < kPixels; ++i) RLX_UNROLL for (int v = 0; v < kVectors; ++v) sum[i][v] =
          hn::Add(hn::LoadU(d, p.sums + outputs[i].index * width + v * lanes), sum[i][v]);
    }
    if (!p.stores) {
      RLX_UNROLL for (int i = 0; i < kPixels; ++i) RLX_UNROLL for (int v = 0; v < kVectors; ++v)
          hn::StoreU(sum[i][v], d, p.sums + outputs[i].index * width + v * lanes);
      continue;
    }
    const auto low = hn::Set(d, p.epilogue.low), high = hn::Set(d, p.epilogue.high);
    RLX_UNROLL for (int i = 0; i < kPixels; ++i) {
      if (i >= count) break;
      RLX_UNROLL for (int v = 0; v < kVectors; ++v) {
        F32Vec out = sum[i][v];
        if (p.epilogue.bias) out = hn::Add(out, hn::LoadU(d, p.epilogue.bias + v * lanes));
        if (p.epilogue.residual) out = hn::Add(out, hn::LoadU(d, p.epilogue.residual + outputs[i].y + v * lanes));
        if (p.streams) hn::Stream(hn::Min(high, hn::Max(low, out)), d, p.y + outputs[i].y + v * lanes);
        else hn::StoreU(hn::Min(high, hn::Max(low, out)), d, p.y + outputs[i].y + v * lanes);  // NaN passes
      }
    }
  }
  return next;
}

/// Adds a block of terms to the sums of all outputs, for kVectors vectors of channels.
template <int kVectors>
void sum_block(PanelSums p) {
  constexpr int kHeight = tile_height(kVectors);
  int64_t tiles = 0;
  for (int64_t g = 0; g < p.group_count; ++g) tiles += TileHeights(p.groups[g].count, kHeight).tiles;
  if (tiles == 0) return;
  p.prefetched = rounded_up(divided_up(p.next_bytes, tiles), 64);
  const char* next = p.next;
  for (int64_t g = 0; g < p.group_count; ++g) {
    const OutputGroup& group = p.groups[g];
    const int64_t high = TileHeights(group.count, kHeight).high * kHeight;
    next = sum_tiles<kHeight, kVectors>(p, group.outputs, high, next);
    next = sum_tiles<kHeight - 1, kVectors>(p, group.outputs + high, group.count - high, next);
  }
}

/// 0 if `count` floats, a multiple of the vectors' lanes, are all finite, else NaN.
float zero_if_finite(const float* from, int64_t count) {
  const hn::RebindToSigned<F32Tag> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto magnitude = hn::Set(d, 0x7fffffff);
  auto largest = hn::Zero(d);  // bits of a magnitude are in the order of the magnitudes, with infinity and NaN above
  for (int64_t i = 0; i < count; i += lanes)
    largest = hn::Max(largest, hn::And(hn::BitCast(d, hn::LoadU(F32Tag(), from + i)), magnitude));
  constexpr int32_t kInfinity = 0x7f800000;
  return hn::GetLane(hn::MaxOfLanes(d, largest)) < kInfinity ? 0 : std::numeric_limits<float>::quiet_NaN();
}

/// Packs the weights of a panel. Where the taps of a channel are adjacent, forwards or backwards, they are transposed
/// in pieces, whose rows are then put in order.
void pack_terms(const ConvolutionArgs& a, int64_t panel, float* packed) {
  constexpr int64_t kPieceFloats = 8192;
  const int64_t lanes = lanes_of_sums(), channels = a.in_channels, taps = a.kernel[0] * a.kernel[1];
  const ChannelPanels panels{divided_up(a.out_channels, lanes)};
  const int64_t first = panels.begin(panel) * lanes, width = panels.begin(panel + 1) * lanes - first;
  const int64_t count = std::min(width, a.out_channels - first);
  float* const to = packed + first * taps * channels;
  const float* const from = static_cast<const float*>(a.w) + first * a.w_out_stride;
  const auto offset = [&](int64_t tap) {
    return tap / a.kernel[1] * a.w_strides[0] + tap % a.kernel[1] * a.w_strides[1];
  };
  if (a.w_out_stride == 1 || a.w_in_stride == 1) {
    for (int64_t tap = 0; tap < taps; ++tap)
      pack_panel(from + offset(tap), a.w_in_stride, a.w_out_stride, channels, count, width,
                 to + tap * channels * width);
    return;
  }
  const int64_t step = a.w_strides[1];
  const bool are_adjacent = (step == 1 || step == -1) && a.w_strides[0] == step * a.kernel[1];
  if (are_adjacent && taps * width <= kPieceFloats) {
    HWY_ALIGN float piece[kPieceFloats];
    const int64_t most = a.w_in_stride == taps ? kPieceFloats / width / taps : 1;  // channels of a piece
    const float* const lowest = from + (step < 0 ? offset(taps - 1) : 0);
    for (int64_t c = 0; c < channels; c += most) {
      const int64_t together = std::min(most, channels - c);
      pack_panel(lowest + c * a.w_in_stride, 1, a.w_out_stride, together * taps, count, width, piece);
      for (int64_t i = 0; i < together; ++i)
        for (int64_t t = 0; t < taps; ++t) {
          const int64_t tap = step < 0 ? taps - 1 - t : t;
          copy_row(piece + (i * taps + t) * width, width, to + (tap * channels + c + i) * width);
        }
    }
    return;
  }
  for (int64_t c = 0; c < channels; ++c)
    for (int64_t tap = 0; tap < taps; ++tap) {
      const float* const one = from + c * a.w_in_stride + offset(tap);
      float* const term = to + (tap * channels + c) * width;
      for (int64_t o = 0; o < count; ++o) term[o] = one[o * a.w_out_stride];
      std::fill(term + count, term + width, 0.0F);
    }
}

/// Packs the weights of a panel, and writes to `are_finite` whether all of them are: 0, else NaN.
void pack_weights(const ConvolutionArgs& a, int64_t panel, float* packed, float* are_finite) {
  pack_terms(a, panel, packed);
  const int64_t lanes = lanes_of_sums(), terms = a.kernel[0] * a.kernel[1] * a.in_channels;
  const ChannelPanels panels{divided_up(a.out_channels, lanes)};
  const int64_t first = panels.begin(panel) * lanes, width = panels.begin(panel + 1) * lanes - first;
  *are_finite = zero_if_finite(packed + first * terms, width * terms);
}

/// Copies the rows that the task reads, padding included.
void copy_image(const ConvolutionTask& t, float* to) {
  const ConvolutionArgs& a = *t.args;
  const int64_t rows = padded_rows(a, t.row_end - t.row_begin), cols = padded_cols(a), channels = a.in_channels;
  const int64_t before = std::clamp<int64_t>(a.low[1], 0, cols), first = std::max<int64_t>(0, -a.low[1]);
  const int64_t count = std::clamp<int64_t>(a.in_dims[1] - first, 0, cols - before);
  for (int64_t image = t.image_begin; image < t.image_end; ++image)
    for (int64_t r = 0; r < rows; ++r, to += cols * channels) {
      const int64_t row = t.row_begin * a.stride[0] - a.low[0] + r;
      if (row < 0 || row >= a.in_dims[0]) {
        std::fill_n(to, cols * channels, 0.0F);
        continue;
      }
      const float* from =
          static_cast<const float*>(a.x) + image * a.x_batch_stride + row * a.x_strides[0] + first * a.x_strides[1];
      float* const inner = to + before * channels;
      std::fill(to, inner, 0.0F);
      std::fill(inner + count * channels, to + cols * channels, 0.0F);
      if (a.x_channel_stride != 1) {
        // Each channel's row is a stream of its own, more than the processor prefetches.
        for (int64_t c = 0; c < channels && row + 1 < a.in_dims[0]; ++c)
          for (int64_t i = 0; i < count; i += 16)
            __builtin_prefetch(from + a.x_strides[0] + c * a.x_channel_stride + i);
        pack_panel(from, a.x_strides[1], a.x_channel_stride, count, channels, channels, inner);
      } else if (a.x_strides[1] == channels) std::copy_n(from, count * channels, inner);
      else
        for (int64_t c = 0; c < count; ++c) std::copy_n(from + c * a.x_strides[1], channels, inner + c * channels);
    }
}

/// A bit for each tap whose row (`dim` 0), or column (1), of the kernel reads no padding for the output at `index`.
uint64_t inner_taps(const ConvolutionArgs& a, int dim, int64_t index) {
  if (a.kernel[0] * a.kernel[1] > 64) return ~uint64_t{0};
  uint64_t taps = 0;
  for (int64_t t = 0; t < a.kernel[0]; ++t)
    for (int64_t u = 0; u < a.kernel[1]; ++u) {
      const int64_t i = index * a.stride[dim] + (dim == 0 ? t : u) * a.rhs_dilation[dim] - a.low[dim];
      if (i >= 0 && i < a.in_dims[dim]) taps |= uint64_t{1} << (t * a.kernel[1] + u);
    }
  return taps;
}

/// Consecutive rows, or columns, of outputs whose taps read the same padding.
struct OutputBand {
  int64_t begin, end;
  uint64_t taps;
};
/// The bands of [begin, end) along spatial dim `dim`. Returns how many there are; more than kMaxBands become one.
constexpr int64_t kMaxBands = 16;
int64_t list_bands(const ConvolutionTask& t, int dim, int64_t begin, int64_t end, OutputBand* bands) {
  int64_t count = 0;
  for (int64_t at = begin; at < end; ++at) {
    const uint64_t taps = t.copies ? inner_taps(*t.args, dim, at) : ~uint64_t{0};
    if (count > 0 && bands[count - 1].taps == taps) {
      bands[count - 1].end = at + 1;
    } else {
      if (count == kMaxBands) {
        bands[0] = {begin, end, ~uint64_t{0}};
        return 1;
      }
      bands[count++] = {at, at + 1, taps};
    }
  }
  return count;
}

/// Lists the task's outputs, group after group, and returns the number of groups. Outputs that read the same padding
/// form a group of their own if skipping their taps in the padding saves at least what partly filled tiles cost. All
/// other outputs form the last group.
int64_t list_outputs(const ConvolutionTask& t, int64_t height, OutputPixel* outputs, OutputGroup* groups) {
  const ConvolutionArgs& a = *t.args;
  const int64_t rows = t.row_end - t.row_begin, cols = a.out_dims[1], images = t.image_end - t.image_begin;
  const int64_t image_x = t.copies ? padded_rows(a, rows) * t.row : a.x_batch_stride;
  OutputBand row_bands[kMaxBands], col_bands[kMaxBands];
  const int64_t row_count = list_bands(t, 0, t.row_begin, t.row_end, row_bands);
  const int64_t col_count = list_bands(t, 1, 0, cols, col_bands);
  int64_t count = 0;
  const auto list = [&](int64_t image, int64_t row, const OutputBand& band, const OutputBand& col_band) {
    const int64_t x = image * image_x + (row - t.row_begin) * a.stride[0] * t.row;
    const int64_t y = image * a.y_batch_stride + row * a.y_strides[0];
    const int64_t index = (image * rows + row - t.row_begin) * cols;
    for (int64_t col = col_band.begin; col < col_band.end; ++col)
      *outputs++ = {x + col * a.stride[1] * t.pixel, y + col * a.y_strides[1], index + col, band.taps & col_band.taps};
  };
  const auto finish = [&](const OutputPixel* begin) {
    if (begin == outputs) return;
    groups[count++] = {begin, outputs - begin};
    outputs = std::fill_n(outputs, kMaxTilePixels, outputs[-1]);
  };
  const auto is_alone = [&](const OutputBand& band, const OutputBand& col_band) {
    const int64_t pixels = images * (band.end - band.begin) * (col_band.end - col_band.begin);
    int64_t runs = 0;
    for (const FmaConvolution::Run& run : *t.runs) runs += (run.taps & band.taps & col_band.taps) != 0;
    const auto all = static_cast<int64_t>(t.runs->size());
    return runs < all && TileHeights(pixels, height).outputs(height) * runs <= pixels * all;
  };
  bool alone[kMaxBands][kMaxBands];
  for (int64_t r = 0; r < row_count; ++r)
    for (int64_t c = 0; c < col_count; ++c) {
      const OutputBand &band = row_bands[r], &col_band = col_bands[c];
      alone[r][c] = count + 1 < kMaxGroups && is_alone(band, col_band);
      if (!alone[r][c]) continue;
      const OutputPixel* const begin = outputs;
      for (int64_t image = 0; image < images; ++image)
        for (int64_t row = band.begin; row < band.end; ++row) list(image, row, band, col_band);
      finish(begin);
    }
  const OutputPixel* const begin = outputs;
  for (int64_t image = 0; image < images; ++image)
    for (int64_t r = 0; r < row_count; ++r)
      for (int64_t row = row_bands[r].begin; row < row_bands[r].end; ++row)
        for (int64_t c = 0; c < col_count; ++c)
          if (!alone[r][c]) list(image, row, row_bands[r], col_bands[c]);
  finish(begin);
  return count;
}

/// Lists, as one group, the outputs of `groups` for which a tap in `taps` reads something but padding.
OutputGroup outputs_with(uint64_t taps, const OutputGroup* groups, int64_t group_count, OutputPixel* to) {
  OutputPixel* end = to;
  for (int64_t g = 0; g < group_count; ++g)
    for (int64_t i = 0; i < groups[g].count; ++i) {
      *end = groups[g].outputs[i];
      end += (end->taps & taps) != 0;
    }
  if (end > to) std::fill_n(end, kMaxTilePixels, end[-1]);
  return {to, end - to};
}

/// Applies the epilogue to the sums of `channels` channels, from `channel` on, and writes y.
void write_results(const ConvolutionTask& t, const float* sums, int64_t width, int64_t channel, int64_t channels,
                   float* transposed) {
  const ConvolutionArgs& a = *t.args;
  const int64_t rows = t.row_end - t.row_begin, cols = a.out_dims[1];
  EpilogueRows e;
  e.activation = t.epilogue->activation;
  e.bias = t.epilogue->bias ? t.epilogue->bias + channel : nullptr;
  const bool is_planar = a.y_channel_stride != 1;
  // If y has planes of channels, whose rows have no gaps between them, all rows are written at once.
  const int64_t together = is_planar && a.y_strides[0] == cols ? rows : 1;
  for (int64_t image = t.image_begin; image < t.image_end; ++image)
    for (int64_t row = 0; row < rows; row += together, sums += together * cols * width) {
      const int64_t to = image * a.y_batch_stride + (t.row_begin + row) * a.y_strides[0] + channel * a.y_channel_stride;
      e.y = static_cast<float*>(a.y) + to;
      e.residual = t.epilogue->residual ? t.epilogue->residual + to : nullptr;
      e.from = sums, e.from_row = width;
      e.rows = cols, e.cols = channels, e.y_row = e.residual_row = a.y_strides[1];
      if (is_planar) {
        e.rows = channels, e.cols = together * cols, e.y_row = e.residual_row = a.y_channel_stride;
        pack_panel(sums, 1, width, channels, e.cols, e.cols, transposed);
        e.bias_of_row = true, e.from = transposed, e.from_row = e.cols;
      }
      apply_epilogue_rows(e);
    }
}

void compute_task(const ConvolutionTask& t) {
  const ConvolutionArgs& a = *t.args;
  const int64_t lanes = lanes_of_sums();
  const TaskScratch sizes(a, t.copies, t.image_end - t.image_begin, t.row_end - t.row_begin, kMaxTileChannels * lanes);
  char* scratch = t.scratch;
  const auto take = [&](int64_t bytes) {
    char* const piece = scratch;
    scratch += bytes;
    return piece;
  };
  auto* const image = reinterpret_cast<float*>(take(sizes.image));
  auto* const outputs = reinterpret_cast<OutputPixel*>(take(sizes.outputs));
  auto* const lists = reinterpret_cast<OutputPixel*>(take(sizes.lists));
  auto* const sums = reinterpret_cast<float*>(take(sizes.sums));
  auto* const transposed = reinterpret_cast<float*>(take(sizes.transposed));
  if (t.copies) copy_image(t, image);
  const ChannelPanels panels{divided_up(a.out_channels, lanes)};
  OutputGroup groups[kMaxGroups];
  const ClampedEpilogue clamped = clamped_epilogue(*t.epilogue);
  PanelSums p{};
  p.x = t.copies ? image
                 : static_cast<const float*>(a.x) + t.image_begin * a.x_batch_stride +
                       t.row_begin * a.stride[0] * a.x_strides[0];
  p.sums = sums;
  const int64_t group_count =
      list_outputs(t, tile_height(panels.begin(t.panel_begin + 1) - panels.begin(t.panel_begin)), outputs, groups);
  // Lists are not used for the first and the last block, which begin and end the sums of all outputs.
  const int64_t output_count = (t.image_end - t.image_begin) * (t.row_end - t.row_begin) * a.out_dims[1];
  const bool by_lists = sizes.lists > 0 && output_count <= kFewOutputs && t.blocks->size() == t.runs->size();
  OutputGroup with_tap[kMaxListedTaps];
  for (int64_t tap = 0; by_lists && tap < a.kernel[0] * a.kernel[1]; ++tap)
    with_tap[tap] = outputs_with(uint64_t{1} << tap, groups, group_count, lists + tap * (kFewOutputs + kMaxTilePixels));
  // Large results are evicted before they are read, so they are written past the caches: their lines need not be read
  // first. Of ResNet-50 with eight images (Zen 5, 32 MiB of third-level cache), 1 x 1 convolutions with a residual
  // over 56 x 56 pixels take 4.7 ms instead of 6.9, and what reads them is no slower; from 2 MiB on one image
  // takes 1.03 times as long. Results of few channels are cheap to compute: six layers of 16 channels were slower by
  // half.
  constexpr int64_t kManyChannels = 64;
  const bool streams = a.out_channels >= kManyChannels && reinterpret_cast<uintptr_t>(a.y) % 64 == 0 &&
                       a.batch * a.y_batch_stride * 4 >= cache_sizes().l3_bytes / 16 * 3 &&
                       (a.out_channels | a.y_batch_stride | a.y_strides[0] | a.y_strides[1]) % kLineFloats == 0;
  const int64_t image_y = t.image_begin * a.y_batch_stride;
  for (int64_t panel = t.panel_begin; panel < t.panel_end; ++panel) {
    const int64_t channel = panels.begin(panel) * lanes, width = panels.begin(panel + 1) * lanes - channel;
    const int64_t channels = std::min(width, a.out_channels - channel);
    const bool is_direct = clamped.is_all && channels == width && a.y_channel_stride == 1;
    p.epilogue = clamped;
    if (clamped.bias) p.epilogue.bias = clamped.bias + channel;
    if (clamped.residual) p.epilogue.residual = clamped.residual + image_y + channel;
    p.y = static_cast<float*>(a.y) + image_y + channel;
    p.weights = t.weights + channel * t.terms;
    // 0 * inf is NaN, also beside padding, whichever outputs share a tile.
    p.multiplied_taps = t.are_finite[panel] == 0 ? 0 : ~uint64_t{0};
    const float* const end = t.weights + panels.begin(t.panel_end) * lanes * t.terms;
    for (const FmaConvolution::Block& block : *t.blocks) {
      const bool is_last = &block == &t.blocks->back();
      p.runs = t.runs->data() + block.first_run, p.run_count = block.runs, p.terms = block.terms;
      p.is_first = block.first_run == 0, p.stores = is_last && is_direct;
      const int64_t floats = block.runs * block.terms * width;
      p.next = reinterpret_cast<const char*>(p.weights + floats);
      // With AVX-512 (Zen 5) what the processor prefetches by itself was up to 6 % faster, and prefetching with each
      // term was no faster either.
      p.next_bytes = kVectorRegisters == 32 ? 0 : std::min(floats, end - p.weights - floats) * 4;
      p.ahead = !t.copies && panel == t.panel_begin && block.runs == 1 ? a.stride[1] * t.pixel : 0;
      p.groups = groups, p.group_count = group_count;
      p.streams = p.stores && streams;
      if (by_lists && std::has_single_bit(p.runs->taps) && !p.is_first && !p.stores && p.multiplied_taps == 0)
        p.groups = with_tap + std::countr_zero(p.runs->taps), p.group_count = p.groups->count > 0;
      switch (width / lanes) {
        case 1: sum_block<1>(p); break;
        case 2: sum_block<2>(p); break;
        case 3: sum_block<3>(p); break;
        default: sum_block<4>(p);
      }
      p.weights += floats;
    }
    if (!is_direct) write_results(t, sums, width, channel, channels, transposed);
  }
  if (streams) hwy::FlushStream();
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace rlx::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rlx::kernels {
namespace {
HWY_EXPORT(lanes_of_sums);
HWY_EXPORT(compute_task);
HWY_EXPORT(pack_weights);

int64_t lanes_in_use() { return HWY_DYNAMIC_DISPATCH(lanes_of_sums)(); }

/// Whether taps read x from its first row and column on, and never behind its end.
bool reads_inside(const ConvolutionArgs& a) {
  for (int d = 0; d < 2; ++d)
    if (a.low[d] != 0 || (a.out_dims[d] - 1) * a.stride[d] + (a.kernel[d] - 1) * a.rhs_dilation[d] >= a.in_dims[d])
      return false;
  return true;
}

}  // namespace

bool FmaConvolution::supports(const ConvolutionArgs& a, int64_t batch_groups) {
  constexpr int64_t kMinChannels = 8, kMaxChannels = 1 << 16, kMaxExtent = 1 << 14, kMaxPadded = 1 << 22;
  if (a.dtype != f32 || a.out_dtype != f32 || a.spatial != 2 || a.groups != 1 || batch_groups != 1) return false;
  if (a.batch < 1 || a.in_channels < kMinChannels || a.out_channels < kMinChannels) return false;
  for (int d = 0; d < 2; ++d) {
    if (a.lhs_dilation[d] != 1 || a.in_dims[d] < 1 || a.out_dims[d] < 1 || a.kernel[d] < 1) return false;
    for (const int64_t extent : {a.in_dims[d], a.out_dims[d], a.kernel[d], a.stride[d], a.rhs_dilation[d]})
      if (extent > kMaxExtent) return false;
    if (a.low[d] > kMaxExtent || a.low[d] < -kMaxExtent) return false;
  }
  if (a.in_channels > kMaxChannels || padded_rows(a, 1) * padded_cols(a) > kMaxPadded / a.in_channels) return false;
  return (a.x_channel_stride == 1 || a.x_strides[1] == 1) && (a.y_channel_stride == 1 || a.y_strides[1] == 1);
}

FmaConvolution::FmaConvolution(const ConvolutionArgs& args, int threads)
    : a_(args), threads_(threads), copies_(args.x_channel_stride != 1 || !reads_inside(args)),
      terms_(args.kernel[0] * args.kernel[1] * args.in_channels) {
  pixel_ = copies_ ? a_.in_channels : a_.x_strides[1];
  row_ = copies_ ? padded_cols(a_) * a_.in_channels : a_.x_strides[0];
  divide_terms(), divide_outputs();
}

void FmaConvolution::divide_terms() {
  const int64_t rows = a_.kernel[0], cols = a_.kernel[1], channels = a_.in_channels;
  const bool is_marked = rows * cols <= 64;
  const auto offset = [&](int64_t t, int64_t u) {
    return t * a_.rhs_dilation[0] * row_ + u * a_.rhs_dilation[1] * pixel_;
  };
  // A row of the kernel is one run if the pixels that it reads are contiguous, and few enough.
  const bool by_rows = a_.rhs_dilation[1] == 1 && pixel_ == channels && cols * channels <= kPartialSumTerms;
  const int64_t pieces = by_rows ? 1 : divided_up(channels, kPartialSumTerms);
  for (int64_t t = 0; t < rows; ++t)
    for (int64_t u = 0; u < (by_rows ? 1 : cols); ++u)
      for (int64_t piece = 0; piece < pieces; ++piece) {
        uint64_t taps = ~uint64_t{0};
        if (is_marked) taps = (by_rows ? taps >> (64 - cols) : 1) << (t * cols + u);
        runs_.push_back({offset(t, u) + channels * piece / pieces, taps});
      }
  const auto count = static_cast<int64_t>(runs_.size());
  if (pieces > 1) {  // each run is a block
    for (int64_t i = 0; i < count; ++i) {
      const int64_t piece = i % pieces;
      blocks_.push_back({i, 1, channels * (piece + 1) / pieces - channels * piece / pieces});
    }
    return;
  }
  const int64_t terms = by_rows ? cols * channels : channels;
  const int64_t blocks = divided_up(count, std::max<int64_t>(1, kPartialSumTerms / terms));
  for (int64_t b = 0; b < blocks; ++b)
    blocks_.push_back({count * b / blocks, count * (b + 1) / blocks - count * b / blocks, terms});
}

void FmaConvolution::divide_outputs() {
  constexpr int64_t kMaxImageBytes = 512 << 10, kMaxPixels = 1024, kFewPixels = 48, kManyWeights = 5 << 19;
  constexpr int64_t kMaxCopiedBytes = 8 << 20;  // of images of few pixels, which share what is read of the weights
  const int64_t cols = a_.out_dims[1], bytes = std::min(kMaxImageBytes, cache_sizes().l2_bytes / 2);
  const int64_t row_bytes = padded_cols(a_) * a_.in_channels * 4;
  const auto fits = [&](int64_t images, int64_t rows) {
    return images * padded_rows(a_, rows) * row_bytes <= bytes && images * rows * cols <= kMaxPixels;
  };
  rows_ = a_.out_dims[0];
  while (rows_ > 1 && !fits(1, rows_) && rows_ * cols > kFewPixels) --rows_;
  const auto share_weights = [&](int64_t images) {
    return images * rows_ * cols <= kFewPixels && images * padded_rows(a_, rows_) * row_bytes <= kMaxCopiedBytes;
  };
  if (rows_ == a_.out_dims[0])
    while (images_ < a_.batch && (fits(images_ + 1, rows_) || share_weights(images_ + 1))) ++images_;
  image_tasks_ = divided_up(a_.batch, images_), row_tasks_ = divided_up(a_.out_dims[0], rows_);
  const int64_t lanes = lanes_in_use();
  if (threads_ > 1) {
    const ChannelPanels panels{divided_up(a_.out_channels, lanes)};
    const bool has_few = a_.batch * a_.out_dims[0] * cols < threads_ * kFewPixels;
    if (has_few || static_cast<int64_t>(weights_bytes()) > kManyWeights) {
      panel_tasks_ = std::min<int64_t>(panels.count(), threads_);
      image_tasks_ = std::max(image_tasks_, std::min(a_.batch, threads_ / panel_tasks_));
    } else if (a_.batch >= threads_) {
      image_tasks_ = std::min(a_.batch, rounded_up(image_tasks_, threads_));
    } else {
      row_tasks_ = std::min(a_.out_dims[0], rounded_up(row_tasks_, threads_));
    }
  }
  images_ = divided_up(a_.batch, image_tasks_), rows_ = divided_up(a_.out_dims[0], row_tasks_);
  thread_bytes_ = static_cast<size_t>(TaskScratch(a_, copies_, images_, rows_, kMaxTileChannels * lanes).bytes());
}

int64_t FmaConvolution::packed_floats() const { return rounded_up(a_.out_channels, lanes_in_use()) * terms_; }

size_t FmaConvolution::weights_bytes() const {
  const int64_t panels = ChannelPanels{divided_up(a_.out_channels, lanes_in_use())}.count();
  return static_cast<size_t>(packed_floats() + panels) * sizeof(float);
}

void FmaConvolution::pack(const void* w, void* packed, ThreadPool& pool) const noexcept {
  ConvolutionArgs args = a_;
  args.w = w;
  auto* const to = static_cast<float*>(packed);
  float* const are_finite = to + packed_floats();
  pool.parallel_for(threads_, ChannelPanels{divided_up(a_.out_channels, lanes_in_use())}.count(), [&](int64_t panel) {
    HWY_DYNAMIC_DISPATCH(pack_weights)(args, panel, to, are_finite + panel);
  });
}

size_t FmaConvolution::scratch_bytes() const { return thread_bytes_ * static_cast<size_t>(threads_); }

void FmaConvolution::run(const void* x, const void* packed, void* y, const ConvolutionEpilogue& epilogue, void* scratch,
                         ThreadPool& pool) const noexcept {
  ConvolutionArgs args = a_;
  args.x = x, args.y = y;
  const int64_t panels = ChannelPanels{divided_up(a_.out_channels, lanes_in_use())}.count();
  pool.parallel_for(threads_, image_tasks_ * row_tasks_ * panel_tasks_, [&](int64_t task, int slot) {
    const int64_t panel = task % panel_tasks_, row = task / panel_tasks_ % row_tasks_;
    const int64_t image = task / panel_tasks_ / row_tasks_;
    ConvolutionTask t{};
    t.args = &args, t.copies = copies_, t.pixel = pixel_, t.row = row_;
    t.runs = &runs_, t.blocks = &blocks_, t.terms = terms_;
    t.weights = static_cast<const float*>(packed), t.are_finite = t.weights + packed_floats();
    t.panel_begin = panels * panel / panel_tasks_, t.panel_end = panels * (panel + 1) / panel_tasks_;
    t.image_begin = a_.batch * image / image_tasks_, t.image_end = a_.batch * (image + 1) / image_tasks_;
    t.row_begin = a_.out_dims[0] * row / row_tasks_, t.row_end = a_.out_dims[0] * (row + 1) / row_tasks_;
    t.epilogue = &epilogue;
    t.scratch = static_cast<char*>(scratch) + static_cast<size_t>(slot) * thread_bytes_;
    HWY_DYNAMIC_DISPATCH(compute_task)(t);
  });
}

}  // namespace rlx::kernels
#endif  // HWY_ONCE

// See the header.
#include "kernels/conv/tile_image.h"

#include <algorithm>
#include <cstring>

#include "base/rounded_up.h"
#include "kernels/gemm/amx/tiles.h"
#include "kernels/gemm/fma/dot_tiles.h"

namespace rlx::kernels {
namespace {

constexpr int64_t kMaxStepBytes = 64;

/// Bytes of a step, a multiple of 4, so that all steps together are `bytes`, and not many more than steps of 64; 0 if
/// there are none.
int64_t dividing_step(int64_t bytes) {
  const int64_t fewest = divided_up(bytes, kMaxStepBytes);
  for (int64_t steps = fewest; 3 * steps <= 4 * fewest; ++steps)
    if (bytes % (4 * steps) == 0) return bytes / steps;
  return 0;
}

/// Pixels of three colours of 16 bits, each filled up with a zero and written at once.
void interleave_colours(const char* from, int64_t colour, int64_t pixel, int64_t count, char* to) {
  const auto at = [](const char* p) {
    uint16_t v = 0;
    std::memcpy(&v, p, sizeof v);
    return uint64_t{v};
  };
  for (int64_t i = 0; i < count; ++i, from += pixel, to += 8) {
    const uint64_t colours = at(from) | at(from + colour) << 16 | at(from + 2 * colour) << 32;
    std::memcpy(to, &colours, sizeof colours);
  }
}

}  // namespace

TileImage::Dim TileImage::dim_of(const ConvolutionArgs& a, int d) {
  if (d < 0) return {1, 1, 1, 1, 0, 1};
  return {a.in_dims[d], a.out_dims[d], a.kernel[d], a.stride[d], a.low[d], a.rhs_dilation[d]};
}

bool TileImage::supports(const ConvolutionArgs& a) {
  // Beyond this, offsets and the copy of an image might be too large to be counted.
  constexpr int64_t kMaxExtent = 1 << 20;
  if (a.spatial < 1 || a.spatial > 2 || a.groups != 1 || a.y_channel_stride != 1) return false;
  if (a.batch < 1 || a.in_channels < 1 || a.out_channels < 1 || a.in_channels > kMaxExtent) return false;
  int64_t pixels = 1, x_pixels = 1, copied = 1, y_stride = a.out_channels;
  for (int d = a.spatial; d-- > 0; y_stride *= a.out_dims[d]) {
    const Dim dim = dim_of(a, d);
    if (a.lhs_dilation[d] != 1 || a.w_strides[d] < 0 || a.y_strides[d] != y_stride) return false;
    for (int64_t extent : {dim.in, dim.out, dim.kernel, dim.stride, dim.dilation})
      if (extent < 1 || extent > kMaxExtent) return false;
    if (dim.low < -kMaxExtent || dim.low > kMaxExtent || dim.dilation * dim.kernel > kMaxExtent ||
        dim.stride * dim.out > kMaxExtent)
      return false;
    pixels *= std::max(dim.in, dim.out), x_pixels *= dim.in;
    copied *= (dim.out - 1) * dim.stride + (dim.kernel - 1) * dim.dilation + 1;
  }
  // A copy that is mostly padding, as large dilations make it, takes more memory and time than it saves.
  constexpr int64_t kMaxPadding = 1 << 16;
  return pixels <= INT32_MAX && copied <= 4 * x_pixels + kMaxPadding;
}

TileImage::TileImage(const ConvolutionArgs& args, int64_t element_bytes, bool may_read_x)
    : a_(args), row_dim_(dim_of(args, args.spatial - 2)), col_dim_(dim_of(args, args.spatial - 1)),
      element_(element_bytes) {
  reads_x_ = may_read_x && read_in_place();
  if (!reads_x_) lay_out_copy();
}

void TileImage::add_steps(int64_t row, int64_t col, int64_t at) {
  for (int64_t first = 0; first < pixel_ * taps_together_; first += k_bytes_) {
    steps_.push_back({row, col, first / element_});
    offsets_.push_back(at + first);
  }
}

void TileImage::add_tiles(int64_t lines, int64_t line_step, int64_t pixels, int64_t row_pixels) {
  for (int64_t line = 0; line < lines; ++line)
    for (int64_t first = 0; first < pixels; first += kTileRows) {
      // Of an image that is read where it lies, nothing behind its last pixel is: the last tile begins earlier.
      const int64_t begin = reads_x_ ? std::min(first, pixels - kTileRows) : first;
      Tile tile{line * line_step + begin * stride_, {}};
      bool is_used = false;
      for (int64_t i = 0; i < kTileRows; ++i) {
        const int64_t at = begin + i, row = line + at / row_pixels, col = at % row_pixels;
        const bool is_output = at >= first && at < pixels && col < col_dim_.out;
        tile.outputs[i] = is_output ? static_cast<int32_t>(row * col_dim_.out + col) : -1;
        is_used = is_used || is_output;
      }
      if (is_used) tiles_.push_back(tile);
    }
}

bool TileImage::read_in_place() {
  const Dim &r = row_dim_, &c = col_dim_;
  const int last = a_.spatial - 1;
  if (a_.x_channel_stride != 1 || r.kernel != 1 || c.kernel != 1 || r.low != 0 || c.low != 0) return false;
  if ((r.out - 1) * r.stride >= r.in || (c.out - 1) * c.stride >= c.in) return false;
  pixel_ = a_.in_channels * element_, k_bytes_ = dividing_step(pixel_);
  if (k_bytes_ == 0) return false;
  const int64_t x_row = a_.spatial == 2 ? a_.x_strides[0] : 0, x_col = a_.x_strides[last];
  stride_ = c.stride * x_col * element_;
  const bool is_one_line = r.out == 1 || (c.stride == 1 && r.stride == 1 && c.in == c.out && x_row == c.in * x_col);
  const int64_t pixels = is_one_line ? r.out * c.out : c.out;
  // Else copying the image takes less time than what tiles compute for nobody.
  if (pixels < kTileRows || (!is_one_line && 5 * rounded_up(pixels, kTileRows) > 6 * pixels)) return false;
  reads_x_ = true;
  add_steps(0, 0, 0);
  if (is_one_line) add_tiles(1, 0, pixels, c.out);
  else add_tiles(r.out, r.stride * x_row * element_, pixels, pixels);
  return true;
}

void TileImage::lay_out_copy() {
  const Dim &r = row_dim_, &c = col_dim_;
  const int64_t channels = a_.in_channels * element_;
  k_bytes_ = dividing_step(rounded_up(channels, int64_t{4}));
  pixel_ = k_bytes_ > 0 ? rounded_up(channels, int64_t{4}) : rounded_up(channels, kMaxStepBytes);
  if (k_bytes_ == 0) k_bytes_ = kMaxStepBytes;
  if (c.dilation == 1 && c.kernel > 1 && c.kernel * pixel_ <= kMaxStepBytes)
    taps_together_ = c.kernel, k_bytes_ = c.kernel * pixel_;
  for (int64_t tap = 0; tap < r.kernel; ++tap) {
    const int64_t phase = tap * r.dilation % r.stride;
    if (std::find(phases_.begin(), phases_.end(), phase) == phases_.end()) phases_.push_back(phase);
  }
  phase_rows_ = divided_up((r.out - 1) * r.stride + (r.kernel - 1) * r.dilation + 1, r.stride);
  rows_ = phase_rows_ * static_cast<int64_t>(phases_.size());
  const int64_t cols = rounded_up((c.out - 1) * c.stride + (c.kernel - 1) * c.dilation + 1, c.stride);
  row_ = cols * pixel_, stride_ = c.stride * pixel_;
  for (int64_t tap = 0; tap < r.kernel; ++tap) {
    const int64_t at = tap * r.dilation,
                  phase = std::find(phases_.begin(), phases_.end(), at % r.stride) - phases_.begin();
    const int64_t row = (phase * phase_rows_ + at / r.stride) * row_;
    for (int64_t col = 0; col < c.kernel; col += taps_together_) add_steps(tap, col, row + col * c.dilation * pixel_);
  }
  const int64_t row_pixels = cols / c.stride;
  add_tiles(1, 0, (r.out - 1) * row_pixels + c.out, row_pixels);
}

TileImage::Row TileImage::row_at(int64_t i, uint8_t zero, char* copy) const noexcept {
  const Dim &r = row_dim_, &c = col_dim_;
  char* const to = copy + i * row_;
  const int64_t cols = row_ / pixel_;
  const int64_t row = i % phase_rows_ * r.stride + phases_[static_cast<size_t>(i / phase_rows_)] - r.low;
  const bool is_inside = row >= 0 && row < r.in;
  const int64_t left = std::clamp<int64_t>(c.low, 0, cols), from = std::max<int64_t>(0, -c.low);
  const int64_t count = is_inside ? std::clamp<int64_t>(c.in - from, 0, cols - left) : 0;
  if (count == 0) {
    std::memset(to, zero, static_cast<size_t>(row_));
    return {0, 0, to};
  }
  std::memset(to, zero, static_cast<size_t>(left * pixel_));
  std::memset(to + (left + count) * pixel_, zero, static_cast<size_t>((cols - left - count) * pixel_));
  const int64_t x_row = a_.spatial == 2 ? a_.x_strides[0] : 0;
  return {row * x_row + from * a_.x_strides[a_.spatial - 1], count, to + left * pixel_};
}

void TileImage::copy_rows(const void* x, int64_t begin, int64_t end, char* copy) const noexcept {
  const auto* from = static_cast<const char*>(x);
  const int64_t channels = a_.in_channels, x_col = a_.x_strides[a_.spatial - 1];
  const bool are_colours = element_ == 2 && channels == 3;
  if (a_.x_channel_stride == 1 && x_col == channels && !are_colours)
    return write_rows(begin, end, 0, copy, [&](int64_t first, int64_t count, char* to) {
      std::memcpy(to, from + first * element_, static_cast<size_t>(count * element_));
    });
  for (int64_t i = begin; i < end; ++i) {
    const Row r = row_at(i, 0, copy);
    if (r.count == 0) continue;
    if (are_colours) {
      interleave_colours(from + r.from * 2, a_.x_channel_stride * 2, x_col * 2, r.count, r.to);
      continue;
    }
    if (pixel_ > channels * element_) std::memset(r.to, 0, static_cast<size_t>(r.count * pixel_));
    for (int64_t c = 0; c < channels; ++c) {
      const char* at = from + (r.from + c * a_.x_channel_stride) * element_;
      char* to = r.to + c * element_;
      if (element_ == 2)
        for (int64_t p = 0; p < r.count; ++p) std::memcpy(to + p * pixel_, at + p * x_col * 2, 2);
      else
        for (int64_t p = 0; p < r.count; ++p) to[p * pixel_] = at[p * x_col];
    }
  }
}

void TileImage::pack_weights(const void* w, char* out) const noexcept {
  const int64_t row = a_.spatial == 2 ? a_.w_strides[0] : 0, col = a_.w_strides[a_.spatial - 1];
  const int64_t group = 4 / element_, count = k_bytes_ / element_, of_pixel = pixel_ / element_;
  std::memset(out, 0, static_cast<size_t>(weights_bytes()));
  for (int64_t first = 0; first < a_.out_channels; first += kColumns)
    for (const Step& s : steps_) {
      for (int64_t j = 0; j < std::min(kColumns, a_.out_channels - first); ++j) {
        char* const to = out + j / kTileRows * k_bytes_ * kTileRows + j % kTileRows * 4;
        const char* const from =
            static_cast<const char*>(w) + ((first + j) * a_.w_out_stride + s.row * row + s.col * col) * element_;
        for (int64_t i = 0; i < count; ++i) {
          const int64_t tap = (s.first + i) / of_pixel, channel = (s.first + i) % of_pixel;
          if (channel >= a_.in_channels) continue;
          std::memcpy(to + i / group * 64 + i % group * element_,
                      from + (tap * col + channel * a_.w_in_stride) * element_, static_cast<size_t>(element_));
        }
      }
      out += k_bytes_ * kColumns;
    }
}

void set_dot_rows(DotTiles& dots, const TilesAt& tiles, const TileImage::Tile& first, const TileImage::Tile* second) {
  const auto add = [&](const TileImage::Tile& tile, const char* data, int64_t sum_row) {
    for (int64_t i = 0; i < kTileRows; ++i)
      if (tile.outputs[i] >= 0) dots.add_row(data + i * tiles.stride, (sum_row + i) * kTiledColumns);
  };
  dots.count = 0;
  add(first, tiles.upper, 0);
  if (tiles.lower) add(second ? *second : first, tiles.lower, kTileRows);
}

}  // namespace rlx::kernels

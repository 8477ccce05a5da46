// How matrix tiles read images with contiguous channels, of bf16 or of 8-bit integers. The 16 rows of a tile are the
// pixels that 16 neighbouring outputs read, and a step along k is some of their channels (gemm/amx/tiles.h,
// multiply_tiles_at()). The tiles of a pointwise convolution read the image itself where they can. Others read a padded
// copy, in which each tap of the kernel adds a fixed offset. The copy orders rows by their index modulo the stride, so
// that the rows that neighbouring outputs read are adjacent. With few channels, the taps of a kernel row are one step.
// Users: narrow_tiles.h, quant/dynamic_convolution.h. Neighbour: packed_image.h, for f32 in three terms.
#pragma once

#include <vector>

#include "kernels/conv/direct.h"

namespace rlx::kernels {

class TileImage {
 public:
  static constexpr int64_t kColumns = 32;  ///< output channels of a panel of weights

  /// Whether there are one or two spatial dims, one group, no lhs_dilation, no reversed w, no extent that is 0 or very
  /// large, and no copy that is mostly padding, and each image of y is dense with contiguous channels.
  static bool supports(const ConvolutionArgs& args);

  TileImage() = default;
  /// `element_bytes` is 1 or 2, whatever args.dtype is. With `may_read_x`, tiles read x itself where they can.
  TileImage(const ConvolutionArgs& args, int64_t element_bytes, bool may_read_x);

  /// 16 rows: the offset of the first in bytes, in x or the copy, and the pixel of y that each row computes, or -1.
  struct Tile {
    int64_t at;
    int32_t outputs[16];
  };
  const std::vector<Tile>& tiles() const { return tiles_; }
  bool reads_x() const { return reads_x_; }
  int64_t stride() const { return stride_; }                        ///< in bytes, between the rows of a tile
  int64_t k_bytes() const { return k_bytes_; }                      ///< bytes of a row of a tile
  const std::vector<int64_t>& offsets() const { return offsets_; }  ///< in bytes, of each step along k

  /// Sizes of packed weights: of a panel, which has 32 output channels; the number of panels; of all of them.
  int64_t panel_bytes() const { return static_cast<int64_t>(offsets_.size()) * k_bytes_ * kColumns; }
  int64_t panels() const { return (a_.out_channels + kColumns - 1) / kColumns; }
  int64_t weights_bytes() const { return panels() * panel_bytes(); }
  /// Packs w to weights_bytes() bytes. The strides of w are those of `args`, and its elements have `element_bytes`.
  void pack_weights(const void* w, char* out) const noexcept;

  /// Bytes of the copy, with those that tiles may read behind its last row; 0 if tiles read x itself.
  int64_t copy_bytes() const { return reads_x_ ? 0 : rows_ * row_ + 16 * stride_ + 64; }
  int64_t rows() const { return reads_x_ ? 0 : rows_; }
  /// Writes the rows [begin, end) of the copy, of rows(), with their padding. `x` is the image.
  void copy_rows(const void* x, int64_t begin, int64_t end, char* copy) const noexcept;
  /// The same for an x with contiguous channels and pixels: write(first, count, to) has to write `count` elements of x
  /// from element `first` on. `zero` is what each byte of the padding becomes.
  template <class Write>
  void write_rows(int64_t begin, int64_t end, uint8_t zero, char* copy, Write write) const {
    for (int64_t i = begin; i < end; ++i) {
      const Row r = row_at(i, zero, copy);
      if (r.count == 0) continue;
      const int64_t channels = a_.in_channels;
      if (pixel_ == channels * element_) {
        write(r.from, r.count * channels, r.to);
        continue;
      }
      for (int64_t p = 0; p < r.count; ++p) {
        char* to = r.to + p * pixel_;
        write(r.from + p * channels, channels, to);
        for (int64_t at = channels * element_; at < pixel_; ++at) to[at] = static_cast<char>(zero);
      }
    }
  }

 private:
  struct Dim {
    int64_t in, out, kernel, stride, low, dilation;
  };
  struct Step {
    int64_t row, col, first;  ///< the tap, and its first element along k in this step
  };
  /// The pixels of x that a row of the copy has: the element where they begin, their number, and where they go.
  struct Row {
    int64_t from, count;
    char* to;
  };
  static Dim dim_of(const ConvolutionArgs& args, int d);
  bool read_in_place();
  void lay_out_copy();
  void add_tiles(int64_t lines, int64_t line_step, int64_t pixels, int64_t row_pixels);
  void add_steps(int64_t row, int64_t col, int64_t at);
  Row row_at(int64_t i, uint8_t zero, char* copy) const noexcept;

  ConvolutionArgs a_;
  Dim row_dim_{}, col_dim_{};
  int64_t element_ = 1, pixel_ = 0, row_ = 0, rows_ = 0, phase_rows_ = 0, stride_ = 0, k_bytes_ = 0;
  int64_t taps_together_ = 1;    ///< taps of a kernel row in one step
  std::vector<int64_t> phases_;  ///< of rows, modulo the stride, in the order in which the copy has them
  bool reads_x_ = false;
  std::vector<Step> steps_;
  std::vector<int64_t> offsets_;
  std::vector<Tile> tiles_;
};

struct DotTiles;  // gemm/fma/dot_tiles.h
struct TilesAt;   // gemm/amx/tiles.h

/// Sets the rows of products of one or two tiles by dot products: those of the tiles at `tiles`, without rows that give
/// no output. At tiles.lower, if it is not null, are the pixels of `second`, or if that is null the low bytes of those
/// of `first`.
void set_dot_rows(DotTiles& dots, const TilesAt& tiles, const TileImage::Tile& first, const TileImage::Tile* second);

}  // namespace rlx::kernels

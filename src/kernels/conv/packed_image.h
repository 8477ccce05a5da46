// Packed images, in the layout that the tiles of a convolution read. A plane holds 32 channels of the image: its pixels
// row by row, padding included, and for each pixel three terms (split-bf16), each of them 32 bf16, which are 64 bytes.
// The pixels that output (r, c) reads begin at pixel r * pitch + c of a plane; each tap adds a fixed offset. For
// strides above 1, rows and columns are distributed over several planes by their index modulo the stride (their phase),
// so that the pixels that neighbouring outputs read are neighbours in a plane. User: amx_convolution.cpp.
#pragma once

#include <vector>

#include "kernels/conv/direct.h"

namespace rlx::kernels {

class PackedImage {
 public:
  static constexpr int64_t kTerms = 3;
  static constexpr int64_t kTermBytes = 64;                    ///< bytes of 32 bf16
  static constexpr int64_t kPixelBytes = kTerms * kTermBytes;  ///< bytes of 32 channels of a pixel
  static constexpr int64_t kTile = 16, kBlock = 32;  ///< pixels that are multiplied together: one tile, or two

  /// `args` has two spatial dims, and the channels or the columns of its x are contiguous. Its pointers are ignored.
  explicit PackedImage(const ConvolutionArgs& args);

  int64_t steps() const { return steps_; }        ///< groups of 32 channels
  int64_t plane_bytes() const { return plane_; }  ///< from one group of channels to the next
  int64_t image_bytes() const { return plane_ * planes_; }
  int64_t pitch() const { return pitch_; }  ///< pixels of a row of a plane
  /// Pixels from the first output to the last, those included that lie between two rows of outputs.
  int64_t count() const { return count_; }
  int64_t tiles() const { return (count_ + kTile - 1) / kTile; }
  /// The offset of each tap in bytes, taps in row-major order.
  const std::vector<int64_t>& taps() const { return taps_; }

  /// An image is packed in pieces (rows of one phase), which threads may pack at the same time. pack() returns the
  /// smallest magnitude of a number in the piece, or 0 if one is out of split range, as pack_left_rows() in tiles.h
  /// does.
  int64_t pieces() const { return phases_ * (rows_ + 1); }
  float pack(const float* image, int64_t piece, char* planes) const noexcept;
  /// The minimum of the magnitudes of those pieces that a row of outputs reads. `piece_magnitudes` has what pack()
  /// returned for each piece.
  float min_magnitude_of_row(int64_t row, const float* piece_magnitudes) const noexcept;

 private:
  /// The phases of the rows, or of the columns.
  struct Dim {
    int64_t stride, low, extent, reach = 0;  ///< reach: distance in a plane between the first and the last tap
    std::vector<int64_t> phases;             ///< the phase of each plane
    Dim(const ConvolutionArgs& args, int d);
    /// The index in `phases` of the row or column that a tap reads which is `tap_at` rows or columns from the first
    /// tap.
    int64_t phase(int64_t tap_at) const;
  };
  void clear(char* planes, int64_t begin, int64_t end) const;

  ConvolutionArgs a_;
  Dim row_, col_;
  int64_t steps_, phases_, rows_, pitch_, count_, plane_pixels_, plane_, planes_;  ///< plane_ in bytes
  std::vector<int64_t> taps_;
};

}  // namespace rlx::kernels

// Images as the matrix tiles of a convolution read them. Each 32 channels are a plane: places row by row, padding
// included, and a place is three bf16 parts of 64 bytes each. Output (r, c) is place r * pitch + c, and a tap reads the
// same planes some places further on. With steps, rows and columns that are as far from a multiple of the step have
// planes of their own, in which neighbours stand side by side again. Neighbour: convolution_tiles.cpp.
#pragma once

#include <vector>

#include "kernels/convolution.h"

namespace rlx::kernels {

class ConvolutionPlaces {
 public:
  static constexpr int64_t kParts = 3;
  static constexpr int64_t kLine = 64;               ///< bytes of 32 bf16
  static constexpr int64_t kPlace = kParts * kLine;  ///< bytes of 32 channels of a place
  static constexpr int64_t kTile = 16, kBlock = 32;  ///< places that are multiplied together: a tile, or two

  /// Two spatial dims; `x` has its channels or its columns side by side.
  explicit ConvolutionPlaces(const ConvolutionArgs& args);

  int64_t steps() const { return steps_; }        ///< of 32 channels
  int64_t plane_bytes() const { return plane_; }  ///< from one step to the next
  int64_t image_bytes() const { return plane_ * planes_; }
  int64_t pitch() const { return pitch_; }
  int64_t count() const { return count_; }  ///< of places that outputs begin at, those over the edge included
  int64_t tiles() const { return (count_ + kTile - 1) / kTile; }
  /// Where a tap begins, in bytes, in the order of the weights.
  const std::vector<int64_t>& taps() const { return taps_; }

  /// An image is packed piece by piece, by as many threads as there are. False if parts do not stand well for a number
  /// (matrix_tiles.h).
  int64_t pieces() const { return phases_ * (rows_ + 1); }
  bool pack(const float* image, int64_t piece, char* planes) const noexcept;
  /// Whether all that a row of outputs reads is fit, by what pack() said of each piece of its image.
  bool is_row_fit(int64_t row, const char* pieces_fit) const noexcept;

 private:
  /// Rows, or columns, that are `offset` from a multiple of the step.
  struct Dim {
    int64_t step, low, extent, reach = 0;  ///< reach: how far the last tap reads
    std::vector<int64_t> phases;           ///< the offsets
    Dim(const ConvolutionArgs& args, int d);
    /// The phase of a tap, and how many places further on it reads.
    int64_t phase(int64_t tap_at) const;
  };
  void clear(char* planes, int64_t begin, int64_t end) const;

  ConvolutionArgs a_;
  Dim row_, col_;
  int64_t steps_, phases_, rows_, pitch_, count_, places_, plane_, planes_;
  std::vector<int64_t> taps_;
};

}  // namespace rlx::kernels

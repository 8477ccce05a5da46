// See the header.
#include "kernels/conv/packed_image.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "base/rounded_up.h"
#include "kernels/gemm/amx/tiles.h"

namespace rlx::kernels {

PackedImage::Dim::Dim(const ConvolutionArgs& a, int d) : stride(a.stride[d]), low(a.low[d]), extent(a.in_dims[d]) {
  for (int64_t t = 0; t < a.kernel[d]; ++t) {
    const int64_t at = t * a.rhs_dilation[d];
    reach = std::max(reach, at / stride);
    if (std::find(phases.begin(), phases.end(), at % stride) == phases.end()) phases.push_back(at % stride);
  }
}
int64_t PackedImage::Dim::phase(int64_t tap_at) const {
  return std::find(phases.begin(), phases.end(), tap_at % stride) - phases.begin();
}

PackedImage::PackedImage(const ConvolutionArgs& a)
    : a_(a), row_(a, 0), col_(a, 1), steps_(tile_steps(a.in_channels)),
      phases_(static_cast<int64_t>(row_.phases.size() * col_.phases.size())), rows_(a.out_dims[0] + row_.reach),
      pitch_(a.out_dims[1] + col_.reach), count_((a.out_dims[0] - 1) * pitch_ + a.out_dims[1]) {
  // The last tile reads pixels behind the image.
  plane_pixels_ = std::max(rows_ * pitch_, tiles() * kTile + row_.reach * pitch_ + col_.reach);
  plane_ = plane_pixels_ * kPixelBytes;
  planes_ = phases_ * steps_;
  for (int64_t t = 0; t < a.kernel[0]; ++t)
    for (int64_t u = 0; u < a.kernel[1]; ++u) {
      const int64_t row = t * a.rhs_dilation[0], col = u * a.rhs_dilation[1];
      const int64_t phase = row_.phase(row) * static_cast<int64_t>(col_.phases.size()) + col_.phase(col);
      taps_.push_back(phase * steps_ * plane_ + (row / row_.stride * pitch_ + col / col_.stride) * kPixelBytes);
    }
}

void PackedImage::clear(char* planes, int64_t begin, int64_t end) const {
  for (int64_t s = 0; s < steps_; ++s)
    std::memset(planes + s * plane_ + begin * kPixelBytes, 0, static_cast<size_t>((end - begin) * kPixelBytes));
}

float PackedImage::pack(const float* image, int64_t piece, char* planes) const noexcept {
  const int64_t phase = piece / (rows_ + 1), row = piece % (rows_ + 1), first = row * pitch_;
  const auto columns = static_cast<int64_t>(col_.phases.size());
  planes += phase * steps_ * plane_;
  constexpr float kNothing = std::numeric_limits<float>::infinity();
  if (row == rows_) return clear(planes, first, plane_pixels_), kNothing;
  const int64_t from = row * row_.stride + row_.phases[static_cast<size_t>(phase / columns)] - row_.low;
  if (from < 0 || from >= row_.extent) return clear(planes, first, first + pitch_), kNothing;
  // Column c of the packed row is column c * stride + shift of x.
  const int64_t stride = col_.stride, shift = col_.phases[static_cast<size_t>(phase % columns)] - col_.low;
  const int64_t begin = shift >= 0 ? 0 : std::min(pitch_, (-shift + stride - 1) / stride);
  const int64_t end = shift >= col_.extent ? begin : std::clamp((col_.extent - 1 - shift) / stride + 1, begin, pitch_);
  clear(planes, first, first + begin);
  clear(planes, first + end, first + pitch_);
  float min_magnitude = kNothing;
  // A number that is alone in its patch has products that stand alone in their sums: multiply-adds round them once,
  // three terms lose up to 2^-23. Numbers that are a kernel's width apart are alone in their patches.
  const int64_t few = divided_up(kTileRows, (a_.kernel[1] - 1) * a_.rhs_dilation[1] + 1);
  for (int64_t c = begin; c < end; c += kTileRows) {
    const float* at = image + from * a_.x_strides[0] + (c * stride + shift) * a_.x_strides[1];
    const TileSource source{at, a_.x_strides[1] * stride, a_.x_channel_stride, f32};
    min_magnitude =
        std::min(min_magnitude, pack_left_rows(source, std::min(kTileRows, end - c), a_.in_channels,
                                               planes + (first + c) * kPixelBytes, {kPixelBytes, plane_, few}));
  }
  return min_magnitude;
}

float PackedImage::min_magnitude_of_row(int64_t row, const float* piece_magnitudes) const noexcept {
  float min_magnitude = std::numeric_limits<float>::infinity();
  const auto columns = static_cast<int64_t>(col_.phases.size());
  for (int64_t t = 0; t < a_.kernel[0]; ++t) {
    const int64_t at = t * a_.rhs_dilation[0], first = row_.phase(at) * columns;
    for (int64_t phase = first; phase < first + columns; ++phase)
      min_magnitude = std::min(min_magnitude, piece_magnitudes[phase * (rows_ + 1) + row + at / row_.stride]);
  }
  return min_magnitude;
}

}  // namespace rlx::kernels

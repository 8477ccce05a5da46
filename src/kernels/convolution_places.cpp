// See the header.
#include "kernels/convolution_places.h"

#include <algorithm>
#include <cstring>

#include "kernels/matrix_tiles.h"

namespace rlx::kernels {

ConvolutionPlaces::Dim::Dim(const ConvolutionArgs& a, int d) : step(a.stride[d]), low(a.low[d]), extent(a.in_dims[d]) {
  for (int64_t t = 0; t < a.kernel[d]; ++t) {
    const int64_t at = t * a.rhs_dilation[d];
    reach = std::max(reach, at / step);
    if (std::find(phases.begin(), phases.end(), at % step) == phases.end()) phases.push_back(at % step);
  }
}
int64_t ConvolutionPlaces::Dim::phase(int64_t tap_at) const {
  return std::find(phases.begin(), phases.end(), tap_at % step) - phases.begin();
}

ConvolutionPlaces::ConvolutionPlaces(const ConvolutionArgs& a)
    : a_(a), row_(a, 0), col_(a, 1), steps_(tile_steps(a.in_channels)),
      phases_(static_cast<int64_t>(row_.phases.size() * col_.phases.size())), rows_(a.out_dims[0] + row_.reach),
      pitch_(a.out_dims[1] + col_.reach), count_((a.out_dims[0] - 1) * pitch_ + a.out_dims[1]) {
  // What the last block reads lies behind the image.
  places_ = std::max(rows_ * pitch_, tiles() * kTile + row_.reach * pitch_ + col_.reach);
  plane_ = places_ * kPlace;
  planes_ = phases_ * steps_;
  for (int64_t t = 0; t < a.kernel[0]; ++t)
    for (int64_t u = 0; u < a.kernel[1]; ++u) {
      const int64_t row = t * a.rhs_dilation[0], col = u * a.rhs_dilation[1];
      const int64_t phase = row_.phase(row) * static_cast<int64_t>(col_.phases.size()) + col_.phase(col);
      taps_.push_back(phase * steps_ * plane_ + (row / row_.step * pitch_ + col / col_.step) * kPlace);
    }
}

void ConvolutionPlaces::clear(char* planes, int64_t begin, int64_t end) const {
  for (int64_t s = 0; s < steps_; ++s)
    std::memset(planes + s * plane_ + begin * kPlace, 0, static_cast<size_t>((end - begin) * kPlace));
}

bool ConvolutionPlaces::pack(const float* image, int64_t piece, char* planes) const noexcept {
  const int64_t phase = piece / (rows_ + 1), row = piece % (rows_ + 1), first = row * pitch_;
  const auto columns = static_cast<int64_t>(col_.phases.size());
  planes += phase * steps_ * plane_;
  if (row == rows_) return clear(planes, first, places_), true;
  const int64_t from = row * row_.step + row_.phases[static_cast<size_t>(phase / columns)] - row_.low;
  if (from < 0 || from >= row_.extent) return clear(planes, first, first + pitch_), true;
  // Column c of the padded row is column c * step + shift of x.
  const int64_t step = col_.step, shift = col_.phases[static_cast<size_t>(phase % columns)] - col_.low;
  const int64_t begin = shift >= 0 ? 0 : std::min(pitch_, (-shift + step - 1) / step);
  const int64_t end = shift >= col_.extent ? begin : std::clamp((col_.extent - 1 - shift) / step + 1, begin, pitch_);
  clear(planes, first, first + begin);
  clear(planes, first + end, first + pitch_);
  bool is_fit = true;
  for (int64_t c = begin; c < end; c += kTileLines) {
    const float* at = image + from * a_.x_strides[0] + (c * step + shift) * a_.x_strides[1];
    const TileSource source{at, a_.x_strides[1] * step, a_.x_channel_stride, f32};
    is_fit = pack_left_lines(source, std::min(kTileLines, end - c), a_.in_channels, planes + (first + c) * kPlace,
                             {kPlace, plane_}) &&
             is_fit;
  }
  return is_fit;
}

bool ConvolutionPlaces::is_row_fit(int64_t row, const char* pieces_fit) const noexcept {
  const auto columns = static_cast<int64_t>(col_.phases.size());
  for (int64_t t = 0; t < a_.kernel[0]; ++t) {
    const int64_t at = t * a_.rhs_dilation[0], first = row_.phase(at) * columns;
    for (int64_t phase = first; phase < first + columns; ++phase)
      if (pieces_fit[phase * (rows_ + 1) + row + at / row_.step] == 0) return false;
  }
  return true;
}

}  // namespace rlx::kernels

// See the header.
#include "ops/nn/window_geometry.h"

namespace rlx {

Dim dilated(const Dim& extent, int64_t dilation) {
  return extent == Dim(0) || dilation == 1 ? extent : extent * dilation - Dim(dilation - 1);
}

Dim window_count(const Dim& extent, const Dim& window, int64_t stride, int64_t base_dilation, int64_t window_dilation,
                 const Dim& low, const Dim& high) {
  Dim room = dilated(extent, base_dilation) + low + high - dilated(window, window_dilation);
  if (room.is_static() && room.value() < 0) return 0;
  return floor_divided(room, stride) + Dim(1);
}

Sliding::Sliding(size_t rank, Dims window_dims, const Axes& strides, const Axes& base_dilation,
                 const Axes& window_dilation, const Dims& padding_low, const Dims& padding_high)
    : window(std::move(window_dims)) {
  auto complete = [&](auto list, auto otherwise, std::string_view what) {
    if (list.empty()) list.assign(rank, otherwise);
    if (list.size() != rank)
      fail(ErrorCode::invalid_argument, what, " must have one entry for each of the ", rank,
           " dims that the window slides over, got ", list.size());
    return list;
  };
  stride = complete(strides, int64_t{1}, "strides");
  base = complete(base_dilation, int64_t{1}, "the operand's dilation");
  dilation = complete(window_dilation, int64_t{1}, "the window's dilation");
  low = complete(padding_low, Dim(0), "padding_low");
  high = complete(padding_high, Dim(0), "padding_high");
  if (window.size() != rank)
    fail(ErrorCode::invalid_argument, "the window must have an extent for each of the ", rank,
         " dims that it slides over, got ", window.size());
  for (size_t d = 0; d < rank; ++d)
    if (stride[d] < 1 || base[d] < 1 || dilation[d] < 1 || (window[d].is_static() && window[d].value() < 1))
      fail(ErrorCode::invalid_argument, "along dim ", d, " the window has extent ", window[d], ", stride ", stride[d],
           ", dilation ", dilation[d], " over elements ", base[d], " apart; each must be at least 1");
}
Sliding::Sliding(const ReduceWindowAttrs& a, size_t rank)
    : Sliding(rank, a.window_dims, a.strides, a.base_dilation, a.window_dilation, a.padding_low, a.padding_high) {}
Sliding::Sliding(const SelectAndScatterAttrs& a, size_t rank)
    : Sliding(rank, a.window_dims, a.strides, {}, a.window_dilation, a.padding_low, a.padding_high) {}

Dim Sliding::count(size_t d, const Dim& extent) const {
  return with_context(
      [&] { return text_of("counting the windows along extent ", extent); },
      [&] { return window_count(extent, window[d], stride[d], base[d], dilation[d], low[d], high[d]); });
}
Dims Sliding::counts(const Dims& extents) const {
  Dims result;
  for (size_t d = 0; d < extents.size(); ++d) result.push_back(count(d, extents[d]));
  return result;
}
int64_t Sliding::position(size_t d, int64_t place, int64_t k, int64_t extent) const {
  int64_t at = place * stride[d] + k * dilation[d] - low[d].value();
  return at < 0 || at % base[d] != 0 || at / base[d] >= extent ? -1 : at / base[d];
}
Sliding Sliding::back(const Dims& extents) const {
  Sliding s = *this;
  std::swap(s.stride, s.base);
  for (size_t d = 0; d < extents.size(); ++d) {
    s.low[d] = dilated(window[d], dilation[d]) - Dim(1) - low[d];
    s.high[d] = dilated(extents[d], base[d]) - dilated(count(d, extents[d]), stride[d]) + low[d];
  }
  return s;
}
ReduceWindowAttrs Sliding::attrs(Reduction kind, const Subgraph& body) const {
  return {kind, window, stride, base, dilation, low, high, body};
}
ConvAttrs Sliding::conv_attrs() const {
  return {.strides = stride, .padding_low = low, .padding_high = high, .lhs_dilation = base, .rhs_dilation = dilation};
}
bool Sliding::is_padded() const {
  auto some = [](const Dims& dims) {
    return std::any_of(dims.begin(), dims.end(), [](const Dim& d) { return d != Dim(0); });
  };
  return some(low) || some(high);
}

ConvLayout::ConvLayout(const ConvAttrs& a, Types in) {
  size_t rank = in[0].rank();
  if (rank < 2 || in[1].rank() != rank)
    fail(ErrorCode::shape_mismatch,
         "a convolution takes an operand and a kernel of one rank, at least 2 (batch and feature), got ", in[0],
         " and ", in[1]);
  if (rank > 5) fail(ErrorCode::unsupported, "a convolution has at most 3 spatial dims; ", in[0], " has ", rank - 2);
  auto complete = [&](const Axes& layout, std::string_view what) {
    Axes axes = layout.empty() ? axes_from(0, rank) : layout;
    if (axes.size() != rank || std::any_of(axes.begin(), axes.end(), [](int64_t d) { return d < 0; })) {
      std::ostringstream list;
      print(list, axes);
      fail(ErrorCode::invalid_argument, what, " must name each dim of rank ", rank,
           " once, counted from the front, got ", list.str());
    }
    return valid_axes(axes, rank);
  };
  lhs = complete(a.lhs_layout, "lhs_layout"), rhs = complete(a.rhs_layout, "rhs_layout"),
  out = complete(a.out_layout, "out_layout");
  lhs_spatial.assign(lhs.begin() + 2, lhs.end());
  rhs_spatial.assign(rhs.begin() + 2, rhs.end());
  out_spatial.assign(out.begin() + 2, out.end());
}
Sliding ConvLayout::sliding(const ConvAttrs& a, Types in) const {
  return {lhs_spatial.size(), pick(in[1].dims, rhs_spatial), a.strides, a.lhs_dilation, a.rhs_dilation, a.padding_low,
          a.padding_high};
}

}  // namespace rlx

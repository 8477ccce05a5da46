// The pools of ML Programs: maxima, minima, means and sums of windows that slide over the dims behind two. Neighbour:
// lower_window.cpp, for windows of any other kind.
#include "backends/coreml/lowerings.h"
#include "ops/nn/window_geometry.h"
#include "rlx/ops.h"

namespace rlx::coreml {

namespace when {
/// The pools of ML Programs. A sum is a mean there, times a number: where all sizes are numbers a table is exact.
std::optional<std::string> can_pool(const Question& q) {
  const auto& a = q.node.attrs.as<ReduceWindowAttrs>();
  const Type& x = q.operands[0];
  if (is_static(x.dims) && a.kind == Reduction::sum) return "sums of tables are exact where sizes are numbers";
  if (a.kind != Reduction::max && a.kind != Reduction::min && a.kind != Reduction::sum)
    return "pools are of maxima, minima and sums";
  if (!rlx::is_float(x.dtype) || x.rank() < 3 || x.rank() > 5) return "pools are of floats, over the dims behind two";
  Sliding s(a, x.rank());
  for (size_t d = 0; d < x.rank(); ++d) {
    if (!s.window[d].is_static() || !s.low[d].is_static() || !s.high[d].is_static())
      return "a window or padding that is no number";
    bool still = s.window[d] == Dim(1) && s.stride[d] == 1 && s.low[d] == Dim(0) && s.high[d] == Dim(0);
    if (d < 2 && !still) return "pools are over the dims behind two";
    if (s.base[d] != 1 || s.dilation[d] != 1) return "pools have no gaps";
    if (s.low[d].value() < 0 || s.high[d].value() < 0) return "pools cut nothing off";
    if (!still && std::max(s.low[d].value(), s.high[d].value()) >= s.window[d].value())
      return "windows that lie in padding alone";
  }
  return std::nullopt;
}
std::optional<std::string> can_average(const Question& q) {
  const auto& a = q.node.attrs.as<PoolAttrs>();
  const Type& x = q.operands[0];
  size_t space = a.kernel_size.size();
  if (a.kind != PoolKind::mean) return "made of a sliding reduction, which is an operation where it can be";
  if (x.rank() < 3 || x.rank() > 5 || space + 2 != x.rank()) return "pools are over the dims behind two, one to three";
  bool whole = true;
  for (size_t d = 0; d < space; ++d) {
    if (!a.kernel_size[d].is_static()) return "a window that is no number";
    if (!a.dilation.empty() && a.dilation[d] != 1) return "pools have no gaps";
    int64_t low = a.padding.empty() ? 0 : a.padding[d], high = a.padding_high.empty() ? low : a.padding_high[d];
    if (std::max(low, high) >= a.kernel_size[d].value()) return "windows that lie in padding alone";
    whole &= a.kernel_size[d] == x.dims[d + 2] && low == 0 && high == 0;
  }
  if (whole) return "one window over all of space is a mean";
  return is_float(q);
}
}  // namespace when

namespace {

struct PoolShape {
  Shape kernel, strides, pad;
};
/// A mean leaves padding out of what it divides by, or does not.
Var pooled(Emitter& e, const Var& x, const PoolShape& p, const Shape& shape, std::optional<bool> leaves_padding_out) {
  Arguments arguments{{"x", x},
                      {"kernel_sizes", e.integers(p.kernel)},
                      {"strides", e.integers(p.strides)},
                      {"pad_type", e.text("custom")},
                      {"pad", e.integers(p.pad)},
                      {"ceil_mode", e.flag(false)}};
  if (leaves_padding_out) arguments.emplace_back("exclude_padding_from_average", e.flag(*leaves_padding_out));
  return e.emit(leaves_padding_out ? "avg_pool" : "max_pool", arguments, x.dtype, shape);
}

}  // namespace

Lowered lower_average(Lowering& l) {
  const auto& a = l.attrs<PoolAttrs>();
  PoolShape p{shape_of(a.kernel_size), a.stride.empty() ? shape_of(a.kernel_size) : a.stride, {}};
  for (size_t d = 0; d < p.kernel.size(); ++d) {
    int64_t low = a.padding.empty() ? 0 : a.padding[d];
    p.pad.push_back(low);
    p.pad.push_back(a.padding_high.empty() ? low : a.padding_high[d]);
  }
  return {pooled(l.e, l.operand(0), p, l.shape(), !a.count_include_pad)};
}

Lowered lower_pool(Lowering& l) {
  Emitter& e = l.e;
  const auto& a = l.attrs<ReduceWindowAttrs>();
  Var x = l.operand(0);
  Sliding s(a, x.shape.size());
  PoolShape p;
  for (size_t d = 2; d < x.shape.size(); ++d) {
    p.kernel.push_back(s.window[d].value());
    p.strides.push_back(s.stride[d]);
    p.pad.push_back(s.low[d].value());
    p.pad.push_back(s.high[d].value());
  }
  bool sums = a.kind == Reduction::sum, least = a.kind == Reduction::min;
  if (least) x = e.mul(x, -1.0);
  Var y = pooled(e, x, p, l.shape(), sums ? std::optional(false) : std::nullopt);
  if (sums) y = e.mul(y, static_cast<double>(element_count(p.kernel)));
  return {least ? e.mul(y, -1.0) : y};
}

}  // namespace rlx::coreml

// Ops that move elements and compute none.
#pragma once

#include "rlx/ops/op.h"

namespace rlx {

namespace op {
extern const OpDef broadcast_in_dim, reshape, transpose, slice, pad, concatenate, reverse, iota, extent;
}  // namespace op

struct BroadcastAttrs {
  Dims dims;
  Axes axes;  ///< operand dim i becomes result dim axes[i]; extents of 1 stretch
  RLX_FIELDS(BroadcastAttrs, field("dims", &BroadcastAttrs::dims), field("axes", &BroadcastAttrs::axes));
};
Value broadcast_in_dim(Value x, Dims dims, Axes axes);
/// Repeats a reduction over `axes` of `x` along those axes again.
Value broadcast_like(Value reduced, Value x, Axes axes);

struct ReshapeAttrs {
  Dims dims;
  RLX_FIELDS(ReshapeAttrs, field("dims", &ReshapeAttrs::dims));
};
/// One dim may be -1: it is what is left.
Value reshape(Value x, Dims dims);
/// A new dim of extent 1 at `axis` of the result.
Value expand_dims(Value x, int64_t axis);
/// Without the dims `axes`, which must be 1.
Value squeeze(Value x, Axes axes);

struct TransposeAttrs {
  Axes permutation;
  RLX_FIELDS(TransposeAttrs, field("permutation", &TransposeAttrs::permutation));
};
/// Result dim i is operand dim permutation[i].
Value transpose(Value x, Axes permutation);

struct SliceAttrs {
  Dims starts, limits;
  Axes strides;  ///< all 1 where left out
  RLX_FIELDS(SliceAttrs, field("starts", &SliceAttrs::starts), field("limits", &SliceAttrs::limits),
             field("strides", &SliceAttrs::strides));
};
Value slice(Value x, Dims starts, Dims limits, Axes strides = {});
Value slice_axis(Value x, int64_t axis, Dim start, Dim limit);

struct PadAttrs {
  Dims low, high;  ///< elements added before and after each dim; negative ones cut
  Axes interior;   ///< elements between two; all 0 where left out
  RLX_FIELDS(PadAttrs, field("low", &PadAttrs::low), field("high", &PadAttrs::high),
             field("interior", &PadAttrs::interior));
};
/// `value` is a scalar of x's dtype.
Value pad(Value x, Value value, PadAttrs attrs);

struct AxisAttrs {
  int64_t axis = -1;
  RLX_FIELDS(AxisAttrs, field("axis", &AxisAttrs::axis));
};
Value concatenate(std::vector<Value> xs, int64_t axis);

struct AxesAttrs {
  Axes axes;
  RLX_FIELDS(AxesAttrs, field("axes", &AxesAttrs::axes));
};
Value reverse(Value x, Axes axes);

struct IotaAttrs {
  Type type;
  int64_t axis = 0;
  RLX_FIELDS(IotaAttrs, field("type", &IotaAttrs::type), field("axis", &IotaAttrs::axis));
};
/// Each element's index along `axis`.
Value iota(Graph&, Type type, int64_t axis);

struct ExtentAttrs {
  Dim dim;
  DType dtype = DType::i64;
  RLX_FIELDS(ExtentAttrs, field("dim", &ExtentAttrs::dim), field("dtype", &ExtentAttrs::dtype));
};
/// A dim as a scalar: how a graph computes with a size that is known only when it runs.
Value extent(Graph&, Dim dim, DType dtype);

/// The axis `from` becomes the axis `to`; the others keep their order.
Value move_axis(Value x, int64_t from, int64_t to);
/// x repeated along a new dim 0.
Value repeat_front(Value x, Dim size);

// ---- dims and axes: what the families share ----
/// floor(x / by). Of a symbolic dim, `by` must divide the symbols' factors; the rest is a number.
Dim floor_divided(const Dim& x, int64_t by);
Dims prepend(Dim d, const Dims& dims);
/// The same axis of an operand that got a batch dim in front; negative ones count from the end and stay.
inline int64_t behind_batch(int64_t axis) { return axis < 0 ? axis : axis + 1; }
inline Axes behind_batch(Axes axes) {
  for (int64_t& axis : axes) axis = behind_batch(axis);
  return axes;
}
/// `axis` counted from the front; fails if `rank` has no such axis.
int64_t valid_axis(int64_t axis, size_t rank);
/// Each axis counted from the front; fails on one that is out of range or named twice.
Axes valid_axes(const Axes& axes, size_t rank);
/// first, first + 1, ...: `count` of them.
Axes axes_from(int64_t first, size_t count);
/// The axes of a rank that `named` leaves out.
Axes other_axes(size_t rank, const Axes& named);
template <class T>
std::vector<T> pick(const std::vector<T>& from, const Axes& axes) {
  std::vector<T> picked;
  for (int64_t axis : axes) picked.push_back(from[static_cast<size_t>(axis)]);
  return picked;
}

}  // namespace rlx

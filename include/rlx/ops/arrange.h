// Moving elements as models write it: composites of the primitives in shape.h.
#pragma once

#include "rlx/ops/shape.h"

namespace rlx {

namespace op {
extern const OpDef narrow, strided_slice, expand, stack, split, tile, roll, pad_mode, trilu, diag, diagonal;
}  // namespace op

struct NarrowAttrs {
  int64_t axis = 0;
  Dim start = 0, length = 0;
  RLX_FIELDS(NarrowAttrs, field("axis", &NarrowAttrs::axis), field("start", &NarrowAttrs::start),
             field("length", &NarrowAttrs::length));
};
/// `length` places of `axis` from `start` on.
Value narrow(Value x, int64_t axis, Dim start, Dim length);
struct StridedSliceAttrs {
  int64_t axis = 0;
  Dim start = 0, length = 0;
  int64_t step = 1;
  RLX_FIELDS(StridedSliceAttrs, field("axis", &StridedSliceAttrs::axis), field("start", &StridedSliceAttrs::start),
             field("length", &StridedSliceAttrs::length), field("step", &StridedSliceAttrs::step));
};
/// Places start, start + step, ...: `length` of them. A negative step runs backward.
Value strided_slice(Value x, int64_t axis, Dim start, Dim length, int64_t step);

struct DimsAttrs {
  Dims dims;
  RLX_FIELDS(DimsAttrs, field("dims", &DimsAttrs::dims));
};
/// x repeated to `dims`: right-aligned; extents of 1 stretch, and no other.
Value expand(Value x, Dims dims);

/// Operands of one type, side by side along a new `axis`.
Value stack(std::vector<Value> xs, int64_t axis = 0);
struct SplitAttrs {
  int64_t axis = 0;
  Dims sizes;
  RLX_FIELDS(SplitAttrs, field("axis", &SplitAttrs::axis), field("sizes", &SplitAttrs::sizes));
};
/// Consecutive parts of `axis`, of these sizes.
std::vector<Value> split(Value x, Dims sizes, int64_t axis = 0);
/// `parts` equal parts.
std::vector<Value> split_evenly(Value x, int64_t parts, int64_t axis = 0);

struct TileAttrs {
  Dims reps;
  RLX_FIELDS(TileAttrs, field("reps", &TileAttrs::reps));
};
/// x repeated reps[d] times along each dim d.
Value tile(Value x, Dims reps);
struct RollAttrs {
  Axes shifts, axes;
  RLX_FIELDS(RollAttrs, field("shifts", &RollAttrs::shifts), field("axes", &RollAttrs::axes));
};
/// Along axes[i] each element moves shifts[i] places on; what leaves at the end comes in at the front.
Value roll(Value x, Axes shifts, Axes axes);

/// reflect: the edge is not repeated; replicate: nothing but the edge; circular: what stands at the other end.
enum class PadMode { constant, reflect, replicate, circular };
constexpr std::array<std::string_view, 4> names_of(PadMode) { return {"constant", "reflect", "replicate", "circular"}; }
struct PadModeAttrs {
  PadMode mode = PadMode::constant;
  Dims low, high;
  double value = 0;  ///< of `constant`
  RLX_FIELDS(PadModeAttrs, field("mode", &PadModeAttrs::mode), field("low", &PadModeAttrs::low),
             field("high", &PadModeAttrs::high), field("value", &PadModeAttrs::value));
};
Value pad_mode(Value x, PadMode mode, Dims low, Dims high, double value = 0);

struct TriluAttrs {
  bool upper = true;
  int64_t diagonal = 0;
  RLX_FIELDS(TriluAttrs, field("upper", &TriluAttrs::upper), field("diagonal", &TriluAttrs::diagonal));
};
/// The last two dims without what stands below (above) the `diagonal`-th diagonal; positive ones lie above the main
/// one.
inline Value trilu(Value x, bool upper, int64_t diagonal = 0) {
  return emit(op::trilu, {x}, TriluAttrs{upper, diagonal});
}
inline Value triu(Value x, int64_t diagonal = 0) { return trilu(x, true, diagonal); }
inline Value tril(Value x, int64_t diagonal = 0) { return trilu(x, false, diagonal); }

struct DiagAttrs {
  int64_t offset = 0;
  RLX_FIELDS(DiagAttrs, field("offset", &DiagAttrs::offset));
};
/// Square matrices with x's last dim as their `offset`-th diagonal, else zero.
Value diag(Value x, int64_t offset = 0);
/// The `offset`-th diagonal of the last two dims.
Value diagonal(Value x, int64_t offset = 0);
/// Ones on the `offset`-th diagonal of a matrix, else zeros.
Value eye(Graph&, const Type& type, int64_t offset = 0);

// ---- other names ----
inline Value flip(Value x, Axes axes) { return reverse(x, std::move(axes)); }
Value swap_axes(Value x, int64_t one, int64_t other);

}  // namespace rlx

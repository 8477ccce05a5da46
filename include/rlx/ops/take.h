// Reading and writing at indices, as models write it: composites of gather, scatter and the dynamic slices. Indices
// are integers counted from the front: a negative one is out of range. Where one is, reading does as gather's
// `out_of_range` says and writing drops the update.
#pragma once

#include "rlx/ops/index.h"

namespace rlx {

namespace op {
extern const OpDef take, take_along_axis, gather_nd, scatter_add_rows, scatter_nd, scatter_elements, kv_append;
}  // namespace op

struct TakeAttrs {
  int64_t axis = 0;
  OutOfRange out_of_range = OutOfRange::fill;
  RLX_FIELDS(TakeAttrs, field("axis", &TakeAttrs::axis), field("out_of_range", &TakeAttrs::out_of_range));
};
/// table[:axis] + indices' dims + table[axis + 1:]: the places of `axis` that the indices name. An embedding.
Value take(Value table, Value indices, int64_t axis = 0, OutOfRange out_of_range = OutOfRange::fill);
/// y[..., i, ...] = x[..., indices[..., i, ...], ...] along `axis`: of the indices' dims. In the other dims the indices
/// may be shorter than x.
Value take_along_axis(Value x, Value indices, int64_t axis, OutOfRange out_of_range = OutOfRange::fill);

struct GatherNdAttrs {
  int64_t batch_dims = 0;  ///< leading dims in which x and the indices run together
  OutOfRange out_of_range = OutOfRange::fill;
  RLX_FIELDS(GatherNdAttrs, field("batch_dims", &GatherNdAttrs::batch_dims),
             field("out_of_range", &GatherNdAttrs::out_of_range));
};
/// The last dim of the indices holds index vectors into x, behind the batch dims.
Value gather_nd(Value x, Value indices, int64_t batch_dims = 0, OutOfRange out_of_range = OutOfRange::fill);

struct ScatterAddRowsAttrs {
  Dim size = 0;
  int64_t axis = 0;
  RLX_FIELDS(ScatterAddRowsAttrs, field("size", &ScatterAddRowsAttrs::size), field("axis", &ScatterAddRowsAttrs::axis));
};
/// What `take` is transposed: zeros with `size` places along `axis`, to which each update is added at its index.
Value scatter_add_rows(Value updates, Value indices, Dim size, int64_t axis = 0);

/// ScatterKind without a body; `none` replaces.
enum class ScatterReduction { none, add, mul, max, min };
constexpr std::array<std::string_view, 5> names_of(ScatterReduction) { return {"none", "add", "mul", "max", "min"}; }
struct ScatterNdAttrs {
  ScatterReduction reduction = ScatterReduction::none;
  RLX_FIELDS(ScatterNdAttrs, field("reduction", &ScatterNdAttrs::reduction));
};
/// x with updates where the index vectors (the last dim of the indices) say: the reverse of gather_nd.
Value scatter_nd(Value x, Value indices, Value updates, ScatterReduction reduction = ScatterReduction::none);
struct ScatterElementsAttrs {
  int64_t axis = 0;
  ScatterReduction reduction = ScatterReduction::none;
  RLX_FIELDS(ScatterElementsAttrs, field("axis", &ScatterElementsAttrs::axis),
             field("reduction", &ScatterElementsAttrs::reduction));
};
/// x with each element of `updates` at its own index along `axis`: the reverse of take_along_axis.
Value scatter_elements(Value x, Value indices, Value updates, int64_t axis,
                       ScatterReduction reduction = ScatterReduction::none);

/// The cache with `entry` from `position` (a scalar) on along `axis`: a new value, in the cache's buffer if the old one
/// is dead. A position from which the entry does not fit is moved back.
Value kv_append(Value cache, Value entry, Value position, int64_t axis);

}  // namespace rlx

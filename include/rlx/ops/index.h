// Reading and writing at computed places: the primitives, in StableHLO's general form. What models write (take,
// gather_nd, scatter_elements, ...) stands in take.h.
#pragma once

#include "rlx/ops/shape.h"

namespace rlx {

namespace op {
extern const OpDef gather, scatter, dynamic_slice, dynamic_update_slice;
}  // namespace op

/// What reading at an index out of range gives: `fill` gives `out_of_range_value`, `clip` moves to the nearest
/// place in range. A slice of several elements is out of range if any of them is.
enum class OutOfRange { fill, clip };
constexpr std::array<std::string_view, 2> names_of(OutOfRange) { return {"fill", "clip"}; }

// An index vector says where in x a slice starts. Axes in these attributes count from the front; lists of them are
// sorted, except those that pair up with another list.
struct GatherAttrs {
  Axes offset_dims;                  ///< result dims that run through a slice; the others run through the indices
  Axes collapsed_slice_dims;         ///< dims of x of which a slice has one element and the result has no dim
  Axes operand_batching_dims;        ///< dims of x that run along with ...
  Axes start_indices_batching_dims;  ///< ... these dims of the indices
  Axes start_index_map;              ///< entry i of an index vector counts along dim start_index_map[i] of x
  int64_t index_vector_dim = 0;  ///< the dim of the indices that holds the vectors; if their rank, each index is one
  Dims slice_sizes;              ///< of all dims of x; 1 of collapsed and batching dims
  OutOfRange out_of_range = OutOfRange::fill;
  RLX_FIELDS(GatherAttrs, field("offset_dims", &GatherAttrs::offset_dims),
             field("collapsed_slice_dims", &GatherAttrs::collapsed_slice_dims),
             field("operand_batching_dims", &GatherAttrs::operand_batching_dims),
             field("start_indices_batching_dims", &GatherAttrs::start_indices_batching_dims),
             field("start_index_map", &GatherAttrs::start_index_map),
             field("index_vector_dim", &GatherAttrs::index_vector_dim), field("slice_sizes", &GatherAttrs::slice_sizes),
             field("out_of_range", &GatherAttrs::out_of_range));
};
Value gather(Value x, Value indices, GatherAttrs attrs);
/// NaN of a float, NaN + 0i of a complex number, the lowest signed and the highest unsigned integer, true: a scalar.
/// Formats without a NaN, and block formats, have 0.
Tensor out_of_range_value(DType dtype);

/// How an update joins what stands there. Slices join one after another, in row-major order of the index vectors.
/// `update` replaces: where several meet, the last one stays. `custom` means the sub-graph attribute beside it.
enum class ScatterKind { update, add, mul, max, min, custom };
constexpr std::array<std::string_view, 6> names_of(ScatterKind) {
  return {"update", "add", "mul", "max", "min", "custom"};
}
struct ScatterAttrs {
  ScatterKind kind = ScatterKind::update;
  Axes update_window_dims;    ///< dims of the updates that run through a slice; the others run through the indices
  Axes inserted_window_dims;  ///< dims of x of which a slice has one element and the updates have no dim
  Axes input_batching_dims;   ///< dims of x that run along with ...
  Axes scatter_indices_batching_dims;  ///< ... these dims of the indices
  Axes scatter_dims_to_operand_dims;   ///< entry i of an index vector counts along this dim of x
  int64_t index_vector_dim = 0;        ///< as gather's
  Subgraph body = {};                  ///< of `custom`: n scalars that stand there, n updates -> n scalars
  RLX_FIELDS(ScatterAttrs, field("kind", &ScatterAttrs::kind),
             field("update_window_dims", &ScatterAttrs::update_window_dims),
             field("inserted_window_dims", &ScatterAttrs::inserted_window_dims),
             field("input_batching_dims", &ScatterAttrs::input_batching_dims),
             field("scatter_indices_batching_dims", &ScatterAttrs::scatter_indices_batching_dims),
             field("scatter_dims_to_operand_dims", &ScatterAttrs::scatter_dims_to_operand_dims),
             field("index_vector_dim", &ScatterAttrs::index_vector_dim), field("body", &ScatterAttrs::body));
};
/// x with the updates put in; a slice that does not lie within x is dropped as a whole.
Value scatter(Value x, Value indices, Value updates, ScatterAttrs attrs);
/// Several operands of equal dims at once, each with its updates, combined by `attrs.body`.
std::vector<Value> scatter_custom(std::vector<Value> xs, Value indices, std::vector<Value> updates, ScatterAttrs attrs);

// The starts are one integer vector, or a scalar for each dim; they are moved so that the slice lies within x.
struct DynamicSliceAttrs {
  Dims sizes;
  RLX_FIELDS(DynamicSliceAttrs, field("sizes", &DynamicSliceAttrs::sizes));
};
Value dynamic_slice(Value x, std::vector<Value> starts, Dims sizes);
/// x with `update` in place of the slice at `starts`.
Value dynamic_update_slice(Value x, Value update, std::vector<Value> starts);
/// `size` places along `axis` from the scalar `start` on, and all of the other dims.
Value dynamic_slice_axis(Value x, int64_t axis, Value start, Dim size);
Value dynamic_update_axis(Value x, Value update, int64_t axis, Value start);

}  // namespace rlx

// Gathering and scattering. Up to iOS 16 a negative index counts from the end; from iOS 17 on it is out of range, and
// what an index out of range reads is undefined: here NaN, or an extreme integer, and nothing is written there.
#include "frontends/mil/handlers.h"
#include "rlx/element.h"

namespace rlx::mlprogram {
namespace {

Value as_indices(Value v) { return v.dtype() == i32 || v.dtype() == i64 ? v : convert(v, i32); }

/// More elements than these are not computed to find out about them.
constexpr int64_t kMostLookedAt = 1 << 16;

/// Up to iOS 16, unless it is known that none of them is negative: then they stay as they are.
bool wraps(Call& op, Value indices) {
  if (op.opset() >= 7) return false;
  const Dim count = element_count(indices.dims());
  const bool given = op.graph().node(indices.ref()).op == &op::constant;
  if (!given && (!count.is_static() || count.value() > kMostLookedAt)) return true;
  Scope& scope = op.scope();
  bool main = scope.lowering().main == &op.graph();
  if (main && !scope.lowering().evaluator->is_constant(indices.ref())) return true;
  std::optional<Tensor> known = scope.elements(indices, "indices");
  if (!known) return true;
  for (size_t i = 0; i < known->element_count(); ++i)
    if (load_index(*known, i) < 0) return true;
  return false;
}

/// The extents of places along some dims, in the dtype of the indices.
Value extents_of(Call& op, Value indices, const Dims& dims) {
  std::vector<Value> extents;
  for (const Dim& d : dims) extents.push_back(rlx::extent(op.graph(), d, indices.dtype()));
  return rlx::stack(extents, 0);
}

/// `validate_indices`: an index out of range ends the run. Of index vectors each place has an extent of its own.
void check(Call& op, Value indices, const Dims& extents) {
  if (!op.flag("validate_indices", false) || extents.empty()) return;
  Value most = broadcast_to(extents_of(op, indices, extents), indices.dims());
  Value in_range =
      rlx::logical_and(compare(indices, zeros_like(indices), Comparison::ge), compare(indices, most, Comparison::lt));
  Value all = rlx::reduce_all(in_range, axes_from(0, indices.dims().size()));
  std::optional<Tensor> known = op.scope().elements(all, "that all indices are in range");
  if (!known || known->values<bool>()[0]) return;
  std::string places;
  for (const Dim& d : extents) places += text_of(places.empty() ? "" : " by ", d);
  op.wrong("an index is out of range of ", places, " places");
}

ScatterReduction reduction(Call& op, const std::string& mode, Value& updates) {
  if (mode == "update") return ScatterReduction::none;
  if (mode == "add") return ScatterReduction::add;
  if (mode == "sub") return updates = neg(updates), ScatterReduction::add;
  if (mode == "mul" || mode == "div") return ScatterReduction::mul;
  if (mode == "max") return ScatterReduction::max;
  if (mode == "min") return ScatterReduction::min;
  op.wrong("mode '", mode, "' is none of update, add, sub, mul, div, max and min");
}

/// `div` divides by the product of what meets at a place.
template <class F>
Results scattered(Call& op, Value data, Value updates, F scatter) {
  std::string mode = op.word("mode", "add");
  ScatterReduction r = reduction(op, mode, updates);
  if (mode == "div") return one(data / scatter(full_like(data, 1), updates, r));
  return one(scatter(data, updates, r));
}

/// Index vectors into dims of these extents.
Value wrapped_vectors(Call& op, Value indices, const Dims& extents) {
  if (extents.empty() || !wraps(op, indices)) return indices;
  Value from_end = indices + extents_of(op, indices, extents);
  return rlx::select(compare(indices, zeros_like(indices), Comparison::lt), from_end, indices);
}

}  // namespace

Value wrapped_indices(Call& op, Value indices, const Dim& extent) {
  indices = as_indices(indices);
  if (!wraps(op, indices)) return indices;
  Value from_end = indices + rlx::extent(op.graph(), extent, indices.dtype());
  return rlx::select(compare(indices, zeros_like(indices), Comparison::lt), from_end, indices);
}

MIL_OP(gather) {
  Value x = op("x");
  int64_t axis = valid_axis(op.integer("axis", 0), x.dims().size());
  Value indices = wrapped_indices(op, op("indices"), x.dim(axis));
  check(op, indices, {x.dim(axis)});
  int64_t batch = op.integer("batch_dims", 0);
  if (batch < 0) batch += indices.rank();
  if (batch == 0) return one(take(x, indices, axis));
  if (batch > axis || batch > indices.rank())
    op.wrong("batch_dims ", batch, " does not fit axis ", axis, " and indices ", indices.type());
  GatherAttrs a;
  a.operand_batching_dims = a.start_indices_batching_dims = axes_from(0, static_cast<size_t>(batch));
  a.collapsed_slice_dims = a.start_index_map = {axis};
  a.index_vector_dim = indices.rank();
  int64_t inner = indices.rank() - batch;
  for (int64_t d = 0; d < x.rank(); ++d) {
    bool runs = d >= batch && d != axis;
    a.slice_sizes.push_back(runs ? x.dim(d) : Dim(1));
    if (runs) a.offset_dims.push_back(d < axis ? d : d - 1 + inner);
  }
  return one(rlx::gather(x, indices, a));
}

MIL_OP(gather_along_axis) {
  Value x = op("x");
  int64_t axis = valid_axis(op.integer("axis", 0), x.dims().size());
  Value indices = wrapped_indices(op, op("indices"), x.dim(axis));
  check(op, indices, {x.dim(axis)});
  return one(take_along_axis(x, indices, axis));
}

MIL_OP(gather_nd) {
  Value x = op("x"), indices = as_indices(op("indices"));
  int64_t batch = op.integer("batch_dims", 0);
  if (indices.rank() < 1 || batch < 0 || batch + static_dim(op, indices, -1) > x.rank())
    op.wrong("index vectors of ", indices.type(), " do not fit x ", x.type(), " behind ", batch, " batch dims");
  auto first = x.dims().begin() + batch;
  Dims extents(first, first + static_dim(op, indices, -1));
  indices = wrapped_vectors(op, indices, extents);
  check(op, indices, extents);
  return one(rlx::gather_nd(x, indices, batch));
}

MIL_OP(scatter) {
  Value data = op("data"), updates = op("updates");
  int64_t axis = valid_axis(op.integer("axis", 0), data.dims().size());
  Value indices = wrapped_indices(op, op("indices"), data.dim(axis));
  check(op, indices, {data.dim(axis)});
  ScatterAttrs a;
  for (int64_t d = 0; d < data.rank(); ++d)
    if (d != axis) a.update_window_dims.push_back(d < axis ? d : d - 1 + indices.rank());
  a.inserted_window_dims = a.scatter_dims_to_operand_dims = {axis};
  a.index_vector_dim = indices.rank();
  return scattered(op, data, updates, [&](Value x, Value u, ScatterReduction r) {
    static constexpr ScatterKind kKinds[] = {ScatterKind::update, ScatterKind::add, ScatterKind::mul, ScatterKind::max,
                                             ScatterKind::min};
    a.kind = kKinds[static_cast<size_t>(r)];
    return rlx::scatter(x, indices, u, a);
  });
}

MIL_OP(scatter_along_axis) {
  Value data = op("data"), updates = op("updates");
  int64_t axis = valid_axis(op.integer("axis", 0), data.dims().size());
  Value indices = wrapped_indices(op, op("indices"), data.dim(axis));
  check(op, indices, {data.dim(axis)});
  return scattered(op, data, updates,
                   [&](Value x, Value u, ScatterReduction r) { return scatter_elements(x, indices, u, axis, r); });
}

MIL_OP(scatter_nd) {
  Value data = op("data"), updates = op("updates"), indices = as_indices(op("indices"));
  if (indices.rank() < 1 || static_dim(op, indices, -1) > data.rank())
    op.wrong("index vectors of ", indices.type(), " do not fit data ", data.type());
  Dims extents(data.dims().begin(), data.dims().begin() + static_dim(op, indices, -1));
  indices = wrapped_vectors(op, indices, extents);
  check(op, indices, extents);
  return scattered(op, data, updates,
                   [&](Value x, Value u, ScatterReduction r) { return rlx::scatter_nd(x, indices, u, r); });
}

}  // namespace rlx::mlprogram

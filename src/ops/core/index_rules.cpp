// See the header. Reading and adding are each other's transposes: gather's cotangent is a scatter that adds, and what a
// scatter added is read back by a gather. What is out of range moves nothing either way.
#include "ops/core/index_rules.h"

#include "ops/control/subgraph_rules.h"
#include "ops/core/element_index.h"
#include "rlx/ops/contract.h"
#include "rlx/ops/control.h"
#include "rlx/ops/take.h"

namespace rlx {
namespace {

size_t position(const Axes& axes, int64_t axis) {
  return size_t(std::find(axes.begin(), axes.end(), axis) - axes.begin());
}
Axes with_front(Axes axes, int64_t front) {
  axes.insert(axes.begin(), front);
  return axes;
}

/// As i64, in which nothing of what follows wraps. An index beyond is out of any range.
Value signed_index(Value indices) {
  if (indices.dtype() != u64) return convert(indices, i64);
  Tensor last(u64, {});
  store<uint64_t>(last, 0, uint64_t(INT64_MAX));
  return convert(minimum(indices, broadcast_to(indices.graph().constant(last), indices.dims())), i64);
}

/// What one op does: where, and in slices of which sizes.
struct Access {
  Places places;
  Value x, indices;  // indices as i64
  Dims sizes;        // of a slice, for each dim of x

  Access(Places p, Value x_, Value indices_, Dims sizes_)
      : places(std::move(p)), x(x_), indices(signed_index(indices_)), sizes(std::move(sizes_)) {}

  /// The last start at which a slice lies within x, like the indices.
  Value last_starts() const {
    Graph& g = x.graph();
    std::vector<Value> entries;
    for (int64_t d : places.map)
      entries.push_back(reshape(extent(g, x.dims()[size_t(d)] - sizes[size_t(d)], i64), {Dim(1)}));
    if (entries.empty()) return zeros_like(indices);
    if (places.vector_dim == indices.rank()) return broadcast_in_dim(reshape(entries[0], {}), indices.dims(), {});
    return broadcast_in_dim(concatenate(entries, 0), indices.dims(), {places.vector_dim});
  }
  /// Whether each slice lies within x: bool, of the dims of the indices without the vectors'.
  Value in_range() const {
    Value within = bitwise_and(compare(indices, zeros_like(indices), Comparison::ge),
                               compare(indices, last_starts(), Comparison::le));
    return places.vector_dim == indices.rank() ? within : reduce(within, Reduction::all, {places.vector_dim});
  }
  Value clipped() const { return minimum(maximum(indices, zeros_like(indices)), last_starts()); }

  /// Slices of a value like x; what is out of range is gather's fill value.
  Value read(Value from) const { return gather(from, indices, places.gather(sizes, OutOfRange::fill)); }
  Value read_or_zero(Value from) const {
    Value y = read(from);
    return select(broadcast_in_dim(in_range(), y.dims(), places.outer(y.dims().size())), y, zeros_like(y));
  }
  Value put(Value into, Value updates, ScatterKind kind) const {
    return scatter(into, indices, updates, places.scatter(kind));
  }
};

Access access_of(Values in, size_t operands, const ScatterAttrs& a) {
  Places p(a);
  Dims sizes(in[0].dims().size(), Dim(1));
  Axes inner = p.inner(sizes.size());
  for (size_t i = 0; i < inner.size(); ++i) sizes[size_t(inner[i])] = in[operands + 1].dims()[size_t(p.window[i])];
  return {std::move(p), in[0], in[operands], std::move(sizes)};
}

/// Where several updates met, the last one stayed: only it gets the cotangent. Each slice has a number, and what
/// stands at its place tells who won.
Many<Value> replaced_vjp(const Access& at, Value updates, Value ct) {
  Graph& g = ct.graph();
  Axes outer = at.places.outer(updates.dims().size());
  Dims slices = pick(updates.dims(), outer);
  Dim count = element_count(slices);
  DType t = place_dtype(count + 1);
  Value number = iota(g, {t, {count}}, 0) + 1.0;
  Value own = broadcast_in_dim(reshape(number, slices), updates.dims(), outer);
  Value winner = at.put(full(g, 0, {t, at.x.dims()}), own, ScatterKind::update);
  Value untouched = compare(winner, zeros_like(winner), Comparison::eq);
  Value stayed = compare(at.read(winner), own, Comparison::eq);  // out of range reads the lowest number
  return {select(untouched, ct, zeros_like(ct)), Value{}, select(stayed, at.read(ct), zeros_like(updates))};
}

/// y = x * the product of the updates of its place. Each gets x times the product of the others: the whole product
/// over itself, unless it is 0; then that of the others where no other is 0.
Many<Value> multiplied_vjp(const Access& at, Value updates, Value ct) {
  Value x = at.x, none = zeros_like(x), one = full_like(updates, 1);
  Value is_zero = compare(updates, zeros_like(updates), Comparison::eq);
  Value safe = select(is_zero, one, updates);
  Value product = at.put(full_like(x, 1), safe, ScatterKind::mul);
  Value zeros = at.put(none, convert(is_zero, x.dtype()), ScatterKind::add);
  Value no_zero = compare(zeros, none, Comparison::eq), one_zero = compare(zeros, full_like(x, 1), Comparison::eq);
  Value share = ct * x * product;
  Value of_zero = at.read_or_zero(select(one_zero, share, none));
  Value of_other = at.read_or_zero(select(no_zero, share, none)) / safe;
  return {select(no_zero, ct * product, none), Value{}, select(is_zero, of_zero, of_other)};
}

/// x and updates that equal the result share the cotangent.
Many<Value> extreme_vjp(const Access& at, Value updates, Value y, Value ct) {
  Value x = at.x, none = zeros_like(ct);
  Value kept = compare(x, y, Comparison::eq);
  Value hit = compare(at.read(y), updates, Comparison::eq);  // NaN, which is out of range, equals nothing
  Value equals = at.put(convert(kept, ct.dtype()), convert(hit, ct.dtype()), ScatterKind::add);
  Value share = ct / maximum(equals, full_like(equals, 1));
  return {select(kept, share, none), Value{}, select(hit, at.read(share), zeros_like(updates))};
}

/// Where in x, flat, each element of the updates goes: i64. What is out of range has a place that means nothing.
Value places_in(const Access& at, const Dims& updates) {
  Graph& g = at.x.graph();
  const Places& p = at.places;
  size_t rank = at.x.dims().size();
  Axes outer = p.outer(updates.size()), inner = p.inner(rank), index_dims = p.index_dims(at.indices.dims().size());
  Type place{i64, updates};
  Value flat = full(g, 0, place);
  for (size_t d = 0; d < rank; ++d) {
    auto axis = int64_t(d);
    flat = flat * extent(g, at.x.dims()[d], i64);
    if (contains(p.map, axis)) {
      auto entry = int64_t(position(p.map, axis));
      bool vectors = p.vector_dim < at.indices.rank();
      Value start = vectors ? slice_axis(at.indices, p.vector_dim, entry, entry + 1) : at.indices;
      flat = flat + broadcast_in_dim(reshape(start, pick(at.indices.dims(), index_dims)), updates, outer);
    }
    if (contains(p.x_batching, axis)) {
      int64_t along = p.index_batching[position(p.x_batching, axis)];
      flat = flat + iota(g, place, outer[position(index_dims, along)]);
    }
    if (contains(inner, axis)) flat = flat + iota(g, place, p.window[position(inner, axis)]);
  }
  return flat;
}

/// Combined by a sub-graph: the derivative of the fold, a scan over the elements of the updates, slice by slice, which
/// carries the operands. The carry of each step is kept: the price of a combiner that may be anything.
Many<Value> folded_vjp(Values in, Values cts, const ScatterAttrs& a, const Transforms& t) {
  size_t n = in.size() / 2;
  if (element_count(in[0].dims()) == Dim(0)) return {};  // nothing stands there, and nothing stays
  Graph fold = trace(types_of_values(in), [&](Graph& g, Values v) {
    Access at = access_of(v, n, a);
    Dims dims = v[n + 1].dims();
    Dim cells = element_count(v[0].dims()), length = element_count(dims);
    Axes outer = at.places.outer(dims.size());
    auto in_order = [&](Value x) { return reshape(transpose(x, joined(outer, at.places.window)), {length}); };
    std::vector<Value> operands;
    for (size_t i = 0; i < n; ++i) operands.push_back(reshape(v[i], {cells}));
    operands.push_back(in_order(places_in(at, dims)));
    operands.push_back(in_order(broadcast_in_dim(at.in_range(), dims, outer)));
    for (size_t i = 0; i < n; ++i) operands.push_back(in_order(v[n + 1 + i]));
    std::vector<Type> types;
    for (size_t i = 0; i < operands.size(); ++i)
      types.push_back(i < n ? operands[i].type() : Type{operands[i].dtype(), {}});
    Graph body = trace(types, [&](Graph& b, Values w) {
      Value place = w[n], is_within = w[n + 1];
      std::vector<Value> scalars, state;
      for (size_t i = 0; i < n; ++i) scalars.push_back(reshape(dynamic_slice(w[i], {place}, {Dim(1)}), {}));
      for (const Value& update : w.subspan(n + 2)) scalars.push_back(update);
      auto next = inlined(b, *a.body, scalars);
      for (size_t i = 0; i < n; ++i)
        state.push_back(dynamic_update_slice(w[i], reshape(select(is_within, next[i], scalars[i]), {Dim(1)}), {place}));
      return state;
    });
    auto out = scan(g, operands, {int64_t(n), int64_t(n) + 2, length, false, body});
    for (size_t i = 0; i < n; ++i) out[i] = reshape(out[i], v[i].dims());
    return out;
  });
  Mask wrt = floats(in);
  return spread(inlined(in[0].graph(), t.vjp(fold, wrt, mask_of(cts)), joined(in, present(cts))), wrt);
}

}  // namespace

// ---- places ----
Places::Places(const GatherAttrs& a)
    : window(a.offset_dims), collapsed(a.collapsed_slice_dims), x_batching(a.operand_batching_dims),
      index_batching(a.start_indices_batching_dims), map(a.start_index_map), vector_dim(a.index_vector_dim) {}
Places::Places(const ScatterAttrs& a)
    : window(a.update_window_dims), collapsed(a.inserted_window_dims), x_batching(a.input_batching_dims),
      index_batching(a.scatter_indices_batching_dims), map(a.scatter_dims_to_operand_dims),
      vector_dim(a.index_vector_dim) {}
GatherAttrs Places::gather(Dims sizes, OutOfRange out_of_range) const {
  return {window, collapsed, x_batching, index_batching, map, vector_dim, std::move(sizes), out_of_range};
}
ScatterAttrs Places::scatter(ScatterKind kind, Subgraph body) const {
  return {kind, window, collapsed, x_batching, index_batching, map, vector_dim, std::move(body)};
}
Places Places::batched(bool x, bool indices) const {
  Places p = *this;
  p.window = behind_batch(window);
  if (x) p.collapsed = behind_batch(collapsed), p.x_batching = behind_batch(x_batching), p.map = behind_batch(map);
  if (indices) p.index_batching = behind_batch(index_batching), p.vector_dim = vector_dim + 1;
  if (x && indices) p.x_batching = with_front(p.x_batching, 0), p.index_batching = with_front(p.index_batching, 0);
  else if (x) p.window = with_front(p.window, 0);  // whole lanes are part of a slice
  return p;
}
Axes Places::inner(size_t x_rank) const {
  Axes hidden = collapsed;
  hidden.insert(hidden.end(), x_batching.begin(), x_batching.end());
  return other_axes(x_rank, hidden);
}

// ---- gather ----
Many<Value> gather_vjp(Values in, Value, Value ct, const GatherAttrs& a) {
  Value x = in[0], indices = in[1];
  if (a.out_of_range == OutOfRange::clip) indices = Access(Places(a), x, indices, a.slice_sizes).clipped();
  // Many may meet at one place, so low precision adds in f32. (Gather moves bits: nothing else widens it.)
  DType t = is_low_precision(ct.dtype()) ? f32 : ct.dtype();
  Value sum = full(x.graph(), 0, {t, x.dims()});
  return convert(scatter(sum, indices, convert(ct, t), Places(a).scatter(ScatterKind::add)), x.dtype());
}
Value gather_batch(Values in, const Mask& batched, const GatherAttrs& a) {
  Dims sizes = a.slice_sizes;
  if (batched[0]) sizes = prepend(batched[1] ? Dim(1) : in[0].dims()[0], sizes);
  return gather(in[0], in[1], Places(a).batched(batched[0], batched[1]).gather(std::move(sizes), a.out_of_range));
}

// ---- scatter ----
Many<Value> scatter_vjp(Values in, Values out, Values cts, const ScatterAttrs& a, const Transforms& t) {
  if (a.kind == ScatterKind::custom) return folded_vjp(in, cts, a, t);
  Access at = access_of(in, 1, a);
  Value updates = in[2], ct = cts[0];
  switch (a.kind) {
    case ScatterKind::add: return {ct, Value{}, at.read_or_zero(ct)};
    case ScatterKind::mul: return multiplied_vjp(at, updates, ct);
    case ScatterKind::max:
    case ScatterKind::min: return extreme_vjp(at, updates, out[0], ct);
    default: return replaced_vjp(at, updates, ct);
  }
}
Many<Value> scatter_batch(Values in, const Mask& batched, const ScatterAttrs& a) {
  size_t n = in.size() / 2;
  std::vector<Value> wide = all_batched(in, batched);
  if (!batched[n]) wide[n] = in[n];
  return in[0].graph().emit(op::scatter, wide, Places(a).batched(true, batched[n]).scatter(a.kind, a.body));
}

// ---- dynamic slices ----
namespace {

bool is_vector(Values starts) { return starts.size() == 1 && starts[0].rank() == 1; }

/// Starts that no lane has for itself, for operands with the batch in front.
std::vector<Value> starts_behind_batch(Graph& g, Values starts) {
  if (is_vector(starts)) return {concatenate({full(g, 0, {starts[0].dtype(), {1}}), starts[0]}, 0)};
  std::vector<Value> all = {scalar(g, 0, starts.empty() ? i64 : starts[0].dtype())};
  all.insert(all.end(), starts.begin(), starts.end());
  return all;
}
/// One index vector a lane, i64[size, rank].
Value starts_of_lanes(Values starts, const Mask& batched, const Dim& size) {
  if (starts.size() == 1 && starts[0].rank() == 2) return signed_index(starts[0]);  // the vector form, batched
  std::vector<Value> columns;
  for (size_t d = 0; d < starts.size(); ++d) {
    Value start = batched[d] ? starts[d] : repeat_front(starts[d], size);
    columns.push_back(reshape(signed_index(start), {size, Dim(1)}));
  }
  return concatenate(columns, 1);
}
/// A slice a lane, from index vectors [size, rank]; x has the batch in front, or no batch.
Places lane_places(size_t rank, bool x_batched) {
  GatherAttrs a;
  a.offset_dims = axes_from(0, rank);
  a.start_index_map = axes_from(0, rank);
  return Places(a).batched(x_batched, true);
}
bool any(const Mask& mask, size_t first) {
  return std::find(mask.begin() + std::ptrdiff_t(first), mask.end(), true) != mask.end();
}

}  // namespace

Many<Value> dynamic_slice_vjp(Values in, Value, Value ct) {
  auto starts = in.subspan(1);
  return dynamic_update_slice(zeros_like(in[0]), ct, {starts.begin(), starts.end()});
}
Value dynamic_slice_batch(Values in, const Mask& batched, const DynamicSliceAttrs& a) {
  Value x = in[0];
  if (!any(batched, 1)) {
    return dynamic_slice(x, starts_behind_batch(x.graph(), in.subspan(1)), prepend(x.dims()[0], a.sizes));
  }
  Value starts = starts_of_lanes(in.subspan(1), Mask(batched.begin() + 1, batched.end()), batch_size(in, batched));
  return gather(
      x, starts,
      lane_places(a.sizes.size(), batched[0]).gather(batched[0] ? prepend(1, a.sizes) : a.sizes, OutOfRange::clip));
}

Many<Value> dynamic_update_slice_vjp(Values in, Value, Value ct) {
  std::vector<Value> starts(in.begin() + 2, in.end());
  return {dynamic_update_slice(ct, zeros_like(in[1]), starts), dynamic_slice(ct, starts, in[1].dims())};
}
/// What nothing scatters, blocks: each lane of x is updated in its turn, in place. `starts` is [lanes, rank of a lane].
static Value updated_lane_by_lane(Value x, Value update, Value starts) {
  Graph& g = x.graph();
  const std::array types = {x.type(), Type{i64, {}}, Type{starts.dtype(), {starts.dim(1)}}, update.type()};
  Graph one = trace(types, [](Values v) {
    Value lane = reshape(v[1], {1});
    return dynamic_update_slice(v[0], take(v[3], lane), {concatenate({convert(lane, v[2].dtype()), v[2]}, 0)});
  });
  const Dim lanes = x.dim(0);
  return scan(g, {x, iota(g, {i64, {lanes}}, 0), starts, update},
              {.carries = 1, .xs = 2, .length = lanes, .body = std::move(one)})[0];
}
Many<Value> dynamic_update_slice_batch(Values in, const Mask& batched) {
  Dim size = batch_size(in, batched);
  Value x = batched[0] ? in[0] : repeat_front(in[0], size), update = batched[1] ? in[1] : repeat_front(in[1], size);
  if (!any(batched, 2)) return dynamic_update_slice(x, update, starts_behind_batch(x.graph(), in.subspan(2)));
  auto rank = size_t(x.rank()) - 1;
  Value starts = starts_of_lanes(in.subspan(2), Mask(batched.begin() + 2, batched.end()), size);
  if (is_block(x.dtype())) return updated_lane_by_lane(x, update, starts);
  Dims sizes = update.dims();
  sizes[0] = 1;
  Access at(lane_places(rank, true), x, starts, std::move(sizes));
  return scatter(x, at.clipped(), update, at.places.scatter(ScatterKind::update));
}

}  // namespace rlx

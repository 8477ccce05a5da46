// Reading and writing at computed places, and order. Places are computed as one flat index of i64 for each element,
// which is clamped or masked, for MLX checks none.
#include <algorithm>

#include "backends/mlx/lowerings.h"
#include "rlx/ops.h"

namespace rlx::mlx_backend {
namespace {

mx::array as_i64(const mx::array& x, mx::Stream s) { return mx::astype(x, mx::int64, s); }
mx::array i64_of(int64_t v) { return integer(v, i64); }

/// 0, 1, ... along dim `axis` of `shape`, broadcast against the others.
mx::array places_along(const mx::Shape& shape, size_t axis, mx::Stream s) {
  mx::Shape spread(shape.size(), 1);
  spread[axis] = shape[axis];
  return mx::reshape(mx::arange(0, shape[axis], mx::int64, s), spread, s);
}

/// Integers of any dtype as i64; those of u64 beyond its range as its greatest.
mx::array as_places(const mx::array& x, DType t, mx::Stream s) {
  if (t != u64) return as_i64(x, s);
  return as_i64(mx::minimum(x, mx::array(uint64_t{1} << 62, mx::uint64), s), s);
}

/// Where slices are, of a gather or a scatter: the result (or the updates) has dims that run through the indices and
/// dims that run through a slice.
struct Slices {
  std::vector<int64_t> extents;     // of x
  std::vector<int64_t> sizes;       // of a slice, for each dim of x
  Axes window_dims;                 // of the result: run through a slice
  Axes collapsed;                   // of x: no dim in the result
  Axes batching, indices_batching;  // of x, of the indices
  Axes map;                         // entry of an index vector -> dim of x
  int64_t vector_dim;
};

struct Places {
  mx::array flat;    // of x's elements, i64, of the shape of the result
  mx::array inside;  // bool, broadcasts to it: the slice lies within x
};

Places places_of(const Slices& a, const mx::array& indices, DType index_type, const mx::Shape& result, bool clips,
                 mx::Stream s) {
  const size_t rank = a.extents.size();
  const auto named = [](const Axes& list, size_t d) {
    return std::find(list.begin(), list.end(), static_cast<int64_t>(d)) != list.end();
  };
  // The dims of the result that run through the indices, in order, and those of the indices that are no vectors.
  std::vector<size_t> outer;
  for (size_t d = 0; d < result.size(); ++d)
    if (!named(a.window_dims, d)) outer.push_back(d);
  mx::array all = as_places(indices, index_type, s);
  const bool has_vectors = a.vector_dim < static_cast<int64_t>(indices.ndim());
  const size_t entries = a.map.size();
  std::vector<mx::array> starts(rank, i64_of(0));
  mx::Shape spread(result.size(), 1);
  for (size_t i = 0; i < outer.size(); ++i) spread[outer[i]] = result[outer[i]];
  for (size_t e = 0; e < entries; ++e) {
    mx::array entry = all;
    if (has_vectors) {
      mx::Shape first(all.ndim(), 0), last = all.shape();
      const auto d = static_cast<size_t>(a.vector_dim);
      first[d] = static_cast<int>(e), last[d] = static_cast<int>(e) + 1;
      entry = mx::slice(all, first, last, s);
    }
    starts[static_cast<size_t>(a.map[e])] = mx::reshape(entry, spread, s);
  }
  // A batching dim runs along with its dim of the indices, which is a dim of the result.
  for (size_t b = 0; b < a.batching.size(); ++b) {
    int64_t at = a.indices_batching[b];
    if (has_vectors && at > a.vector_dim) --at;
    starts[static_cast<size_t>(a.batching[b])] = places_along(result, outer.at(static_cast<size_t>(at)), s);
  }
  mx::array inside = mx::array(true), flat = i64_of(0);
  size_t window = 0;
  int64_t stride = 1;
  std::vector<int64_t> strides(rank, 1);
  for (size_t d = rank; d-- > 0;) strides[d] = stride, stride *= a.extents[d];
  for (size_t d = 0; d < rank; ++d) {
    mx::array start = starts[d];
    const mx::array most = i64_of(a.extents[d] - a.sizes[d]), least = i64_of(0);
    if (named(a.map, d)) {
      if (!clips)
        inside = mx::logical_and(
            inside, mx::logical_and(mx::greater_equal(start, least, s), mx::less_equal(start, most, s), s), s);
      start = mx::maximum(mx::minimum(start, most, s), least, s);
    }
    if (!named(a.collapsed, d) && !named(a.batching, d))
      start = mx::add(start, places_along(result, static_cast<size_t>(a.window_dims[window++]), s), s);
    flat = mx::add(flat, mx::multiply(start, i64_of(strides[d]), s), s);
  }
  return {mx::broadcast_to(flat, result, s), inside};
}

std::vector<int64_t> numbers(const Dims& dims) {
  std::vector<int64_t> all;
  for (const Dim& d : dims) all.push_back(d.value());
  return all;
}

/// The starts of a dynamic slice, moved so that it lies within x: one array for all dims.
mx::array starts_within(Lowering& l, size_t first, const std::vector<int64_t>& sizes) {
  const size_t rank = sizes.size();
  std::vector<mx::array> scalars;
  if (l.in.size() - first == 1 && l.in[first].ndim() == 1) {
    scalars = mx::split(as_places(l.in[first], l.types[first].dtype, l.s), static_cast<int>(rank), 0, l.s);
  } else {
    for (size_t d = 0; d < rank; ++d)
      scalars.push_back(mx::reshape(as_places(l.in[first + d], l.types[first + d].dtype, l.s), {1}, l.s));
  }
  for (size_t d = 0; d < rank; ++d) {
    const mx::array most = i64_of(l.types[0].dims[d].value() - sizes[d]);
    scalars[d] = mx::maximum(mx::minimum(scalars[d], most, l.s), i64_of(0), l.s);
  }
  return mx::astype(mx::concatenate(scalars, 0, l.s), mx::int32, l.s);
}
std::vector<int> all_axes(size_t rank) {
  std::vector<int> axes;
  for (size_t d = 0; d < rank; ++d) axes.push_back(static_cast<int>(d));
  return axes;
}

}  // namespace

Lowered lower_gather(Lowering& l) {
  const auto& a = l.attrs<GatherAttrs>();
  const mx::array out_of_range = to_array(out_of_range_value(l.types[0].dtype));
  const Slices slices{numbers(l.types[0].dims), numbers(a.slice_sizes),  a.offset_dims,
                      a.collapsed_slice_dims,   a.operand_batching_dims, a.start_indices_batching_dims,
                      a.start_index_map,        a.index_vector_dim};
  const bool clips = a.out_of_range == OutOfRange::clip;
  if (l.in[0].size() == 0) return {mx::broadcast_to(out_of_range, l.shape(), l.s)};
  const Places places = places_of(slices, l.in[1], l.types[1].dtype, l.shape(), clips, l.s);
  const mx::array y = mx::take(mx::reshape(l.in[0], {-1}, l.s), places.flat, l.s);
  if (clips) return {y};
  return {mx::where(places.inside, y, out_of_range, l.s)};
}

namespace when {
std::optional<std::string> can_scatter(const Question& q) {
  const auto& a = q.node.attrs.as<ScatterAttrs>();
  if (a.kind == ScatterKind::custom) return "MLX scatters by no function of one's own";
  if (q.operands[0].dtype == boolean && a.kind != ScatterKind::update) return "MLX combines no bools where it scatters";
  return std::nullopt;
}
std::optional<std::string> can_scatter_anywhere(const Question& q) {
  const auto& a = q.node.attrs.as<ScatterAttrs>();
  const Dims& indices = q.operands[1].dims;
  bool is_one_place = true;
  for (size_t d = 0; d < indices.size(); ++d)
    is_one_place = is_one_place && (static_cast<int64_t>(d) == a.index_vector_dim || indices[d] == Dim(1));
  if (a.kind == ScatterKind::update && !is_one_place)
    return "of updates that meet the last counts, and a GPU keeps any of them";
  if (info(q.operands[0].dtype).bits == 64) return "a GPU scatters no elements of 64 bits";
  return can_scatter(q);
}
}  // namespace when

/// Into a flat operand with one element more, where updates go that lie outside.
Lowered lower_scatter(Lowering& l) {
  const auto& a = l.attrs<ScatterAttrs>();
  std::vector<int64_t> extents = numbers(l.types[0].dims), sizes(extents.size(), 1);
  const size_t count = l.in[0].size();
  if (l.in[2].size() == 0) return {l.in[0]};
  size_t window = 0;
  for (size_t d = 0; d < extents.size(); ++d) {
    const auto named = [&](const Axes& list) {
      return std::find(list.begin(), list.end(), static_cast<int64_t>(d)) != list.end();
    };
    if (!named(a.inserted_window_dims) && !named(a.input_batching_dims))
      sizes[d] = l.types[2].dims[static_cast<size_t>(a.update_window_dims[window++])].value();
  }
  const Slices slices{extents,
                      sizes,
                      a.update_window_dims,
                      a.inserted_window_dims,
                      a.input_batching_dims,
                      a.scatter_indices_batching_dims,
                      a.scatter_dims_to_operand_dims,
                      a.index_vector_dim};
  const Places places = places_of(slices, l.in[1], l.types[1].dtype, carried_shape(l.types[2]), false, l.s);
  const bool combines = a.kind != ScatterKind::update;
  const mx::array x = combines ? wide(l, 0) : l.in[0];
  // In the order of the index vectors: of several that meet, MLX keeps the last too.
  std::vector<int> order;
  for (const bool in_slice : {false, true})
    for (size_t d = 0; d < l.types[2].rank(); ++d)
      if (in_slice == (std::find(a.update_window_dims.begin(), a.update_window_dims.end(), static_cast<int64_t>(d)) !=
                       a.update_window_dims.end()))
        order.push_back(static_cast<int>(d));
  const auto ordered = [&](const mx::array& v) {
    return std::is_sorted(order.begin(), order.end()) ? v : mx::transpose(v, order, l.s);
  };
  const mx::array all = mx::where(places.inside, places.flat, i64_of(static_cast<int64_t>(count)), l.s);
  const mx::array to = mx::reshape(ordered(all), {-1}, l.s), updates = ordered(combines ? wide(l, 2) : l.in[2]);
  mx::array flat = mx::concatenate({mx::reshape(x, {-1}, l.s), mx::zeros({1}, x.dtype(), l.s)}, 0, l.s);
  const mx::array values = mx::reshape(updates, {-1, 1}, l.s);
  switch (a.kind) {
    case ScatterKind::add: flat = mx::scatter_add(flat, to, values, 0, l.s); break;
    case ScatterKind::mul: flat = mx::scatter_prod(flat, to, values, 0, l.s); break;
    case ScatterKind::max: flat = mx::scatter_max(flat, to, values, 0, l.s); break;
    case ScatterKind::min: flat = mx::scatter_min(flat, to, values, 0, l.s); break;
    default: flat = mx::scatter(flat, to, values, 0, l.s);
  }
  const mx::array y = mx::slice(flat, mx::Shape{0}, mx::Shape{static_cast<int>(count)}, l.s);
  return {narrowed(l, mx::reshape(y, l.shape(), l.s))};
}

Lowered lower_dynamic_slice(Lowering& l) {
  const std::vector<int64_t> sizes = numbers(l.attrs<DynamicSliceAttrs>().sizes);
  if (sizes.empty()) return {l.in[0]};
  return {mx::slice(l.in[0], starts_within(l, 1, sizes), all_axes(sizes.size()), l.shape(), l.s)};
}
Lowered lower_dynamic_update_slice(Lowering& l) {
  const std::vector<int64_t> sizes = numbers(l.types[1].dims);
  if (sizes.empty()) return {l.in[1]};
  if (l.in[1].size() == 0) return {l.in[0]};
  return {mx::slice_update(l.in[0], l.in[1], starts_within(l, 2, sizes), all_axes(sizes.size()), l.s)};
}

namespace when {
std::optional<std::string> can_sort(const Question& q) {
  if (q.node.attrs.as<SortAttrs>().comparator) return "MLX sorts by no function of one's own";
  if (q.operands[0].dtype == c64) return "MLX sorts no complex numbers";
  return std::nullopt;
}
}  // namespace when

/// MLX's order of places is stable and has NaN last. A descending one is that of the reversed axis, read backwards.
Lowered lower_sort(Lowering& l) {
  const auto& a = l.attrs<SortAttrs>();
  if (l.types[0].rank() == 0) return l.in;
  const int axis = static_cast<int>(valid_axis(a.axis, l.types[0].rank()));
  const int n = l.in[0].shape(axis);
  const mx::array keys = a.descending ? mx::flip(l.in[0], axis, l.s) : l.in[0];
  mx::array order = mx::argsort(keys, axis, l.s);
  if (a.descending) order = mx::flip(mx::subtract(mx::array(static_cast<uint32_t>(n - 1)), order, l.s), axis, l.s);
  Lowered sorted;
  for (const mx::array& x : l.in) sorted.push_back(mx::take_along_axis(x, order, axis, l.s));
  return sorted;
}

}  // namespace rlx::mlx_backend

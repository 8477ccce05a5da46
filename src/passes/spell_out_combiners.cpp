// See the header.
#include "passes/spell_out_combiners.h"

#include <limits>

#include "ir/rewrite.h"
#include "ops/core/index_rules.h"
#include "ops/nn/window_geometry.h"
#include "passes/subgraphs.h"
#include "rlx/autodiff.h"
#include "rlx/ops.h"

namespace rlx {
namespace {

using List = std::vector<Value>;

/// A function of scalars as one of `size` of each: what a combiner does to many elements at once.
Graph over_elements(const Graph& body, const Dim& size) {
  Graph named = trace(body.input_types(), [&](Graph& to, Values in) -> Many<Value> { return splice(to, body, in); });
  BatchAxes axes;
  for (Ref r : named.inputs()) axes.inputs[named.node(r).name] = 0;
  return vmap(named, axes, size);
}

/// `f` from the left over dim 0 of each x [count, lanes], from the initial scalars on: [lanes] each.
List folded(const List& xs, const List& inits, const Graph& f, const Dim& count, const Dim& lanes) {
  List operands;
  for (const Value& v : inits) operands.push_back(broadcast_in_dim(v, {lanes}, {}));
  operands.insert(operands.end(), xs.begin(), xs.end());
  auto n = static_cast<int64_t>(xs.size());
  return scan(xs[0].graph(), std::move(operands), {n, n, count, false, over_elements(f, lanes)});
}

/// The op of bits that `body` is and nothing else, or null: in which order elements are combined then makes no
/// difference.
const OpDef* op_of_bits(const Graph& body) {
  if (body.inputs().size() != 2 || body.outputs().size() != 1) return nullptr;
  const Node& made = body.node(body.outputs()[0].ref);
  const bool is_one = made.op == &op::bitwise_and || made.op == &op::bitwise_or || made.op == &op::bitwise_xor;
  if (!is_one || made.operands[0] == made.operands[1]) return nullptr;
  for (Ref r : made.operands)
    if (body.node(r).op != &op::input) return nullptr;
  return made.op;
}

/// x [count, lanes] by an op of bits, half of the rows with the other half as often as it takes: unlike a loop, whose
/// carries keep their dtypes, of what other passes know how to compute.
Value halved(Value x, Value init, const OpDef& op) {
  Dims lanes{x.dims()[1]};
  for (int64_t count = x.dims()[0].value(); count > 1;) {
    const int64_t half = count / 2;
    Value joined = emit(op, {slice_axis(x, 0, 0, half), slice_axis(x, 0, half, 2 * half)});
    x = count % 2 ? concatenate({joined, slice_axis(x, 0, count - 1, count)}, 0) : joined;
    count -= half;
  }
  return emit(op, {reshape(x, lanes), broadcast_in_dim(init, lanes, {})});
}

List reduced(const Site& site) {
  const auto& a = site.node.attrs.as<ReduceAttrs>();
  size_t n = site.operands.size() / 2, rank = site.operands[0].dims().size();
  Axes axes = valid_axes(a.axes, rank), kept = other_axes(rank, axes), order = axes;
  order.insert(order.end(), kept.begin(), kept.end());
  Dims dims = site.operands[0].dims();
  Dim count = element_count(pick(dims, axes)), lanes = element_count(pick(dims, kept));
  List xs, inits(site.operands.begin() + static_cast<std::ptrdiff_t>(n), site.operands.end());
  for (size_t i = 0; i < n; ++i) xs.push_back(reshape(transpose(site.operands[i], order), {count, lanes}));
  const OpDef* bits = op_of_bits(*a.body);
  List out =
      bits && count.is_static() ? List{halved(xs[0], inits[0], *bits)} : folded(xs, inits, *a.body, count, lanes);
  for (Value& v : out) v = reshape(v, pick(dims, kept));
  return out;
}

List reduced_windows(const Site& site) {
  const auto& a = site.node.attrs.as<ReduceWindowAttrs>();
  size_t n = site.operands.size() / 2, rank = site.operands[0].dims().size();
  Sliding s(a, rank);
  for (const Dim& d : s.window)
    if (!d.is_static())
      fail(ErrorCode::unsupported, "the windows of ", site.operands[0].type(), " have an extent of ", d,
           ", which is no number; bind it first");
  Dims result = site.node.types[0].dims;
  Shape window = shape_of(s.window);
  Dim count = element_count(window), lanes = element_count(result);
  List xs, inits(site.operands.begin() + static_cast<std::ptrdiff_t>(n), site.operands.end());
  for (size_t i = 0; i < n; ++i) {
    PadAttrs around{s.low, s.high, {}};
    for (int64_t apart : s.base) around.interior.push_back(apart - 1);
    Value x = pad(site.operands[i], inits[i], around);
    List taps;
    for_each_index(window, [&](const Axes& k) {
      Dims starts, limits;
      for (size_t d = 0; d < rank; ++d) {
        starts.emplace_back(k[d] * s.dilation[d]);
        limits.push_back(starts[d] + (result[d] - Dim(1)) * Dim(s.stride[d]) + Dim(1));
      }
      taps.push_back(reshape(rank == 0 ? x : slice(x, starts, limits, s.stride), {1, lanes}));
    });
    xs.push_back(taps.size() == 1 ? taps[0] : concatenate(taps, 0));
  }
  List out = folded(xs, inits, *a.body, count, lanes);
  for (Value& v : out) v = reshape(v, result);
  return out;
}

/// Where each update stands in a flat x of `elements` places; `elements` where its slice does not lie within x.
/// One row for each index vector.
Value places_of(const Site& site, const Places& p, const Dim& elements, const Dim& rows, const Dim& width) {
  size_t n = site.operands.size() / 2;
  Value x = site.operands[0], indices = site.operands[n], updates = site.operands[n + 1];
  Dims dims = x.dims(), sizes(dims.size(), Dim(1));
  Axes inner = p.inner(dims.size());
  for (size_t w = 0; w < p.window.size(); ++w)
    sizes[static_cast<size_t>(inner[w])] = updates.dims()[static_cast<size_t>(p.window[w])];
  Value own = reshape(iota(site.to, {i32, {elements}}, 0), dims);
  Value at = gather(own, indices, p.gather(sizes, OutOfRange::fill));
  at = select(compare(at, zeros_like(at), Comparison::lt), broadcast_to(extent(site.to, elements, i32), at.dims()), at);
  Axes order = p.outer(updates.dims().size());
  order.insert(order.end(), p.window.begin(), p.window.end());
  return reshape(transpose(at, order), {rows, width});
}

List scattered(const Site& site) {
  const auto& a = site.node.attrs.as<ScatterAttrs>();
  Places p(a);
  size_t n = site.operands.size() / 2;
  Dims dims = site.operands[0].dims(), given = site.operands[n + 1].dims();
  Axes outer = p.outer(given.size()), order = outer;
  order.insert(order.end(), p.window.begin(), p.window.end());
  Dim elements = element_count(dims), rows = element_count(pick(given, outer)),
      width = element_count(pick(given, p.window));
  // One place more takes what lies outside.
  List operands;
  for (size_t i = 0; i < n; ++i) {
    Value flat = reshape(site.operands[i], {elements});
    operands.push_back(concatenate({flat, full(site.to, 0, {flat.dtype(), {1}})}, 0));
  }
  operands.push_back(places_of(site, p, elements, rows, width));
  for (size_t i = 0; i < n; ++i) operands.push_back(reshape(transpose(site.operands[n + 1 + i], order), {rows, width}));
  Graph combine = over_elements(*a.body, width);
  std::vector<Type> in;
  for (size_t i = 0; i < operands.size(); ++i) {
    Type t = operands[i].type();
    if (i >= n) t.dims.erase(t.dims.begin());
    in.push_back(t);
  }
  Graph step = trace(in, [&](Graph& to, Values v) -> Many<Value> {
    Value at = v[n];
    List both;
    for (size_t i = 0; i < n; ++i) both.push_back(take(v[i], at, 0, OutOfRange::clip));
    both.insert(both.end(), v.begin() + static_cast<std::ptrdiff_t>(n) + 1, v.end());
    List made = splice(to, combine, both), next;
    for (size_t i = 0; i < n; ++i) next.push_back(scatter_elements(v[i], at, made[i], 0));
    return next;
  });
  auto carries = static_cast<int64_t>(n);
  List out = scan(site.to, std::move(operands), {carries, carries + 1, rows, false, step});
  for (Value& v : out) v = reshape(slice(v, {0}, {elements}), dims);
  return out;
}

List sorted(const Site& site) {
  const auto& a = site.node.attrs.as<SortAttrs>();
  size_t rank = site.operands[0].dims().size();
  if (rank == 0) return {site.operands.begin(), site.operands.end()};
  int64_t axis = valid_axis(a.axis, rank);
  Dims dims = site.operands[0].dims();
  Dim n = dims[static_cast<size_t>(axis)];
  Axes order = other_axes(rank, {axis});
  Dims moved = pick(dims, order);
  Dim lanes = element_count(moved);
  if (n.is_static()) {
    const double each = static_cast<double>(n.value()) * static_cast<double>(n.value());
    const double all = each * (lanes.is_static() ? static_cast<double>(lanes.value()) : 1);
    if (all > std::numeric_limits<int32_t>::max())
      fail(ErrorCode::unsupported, "sort by a comparator of ", site.operands[0].type(), " compares each of its ", n,
           " elements with each, ", static_cast<int64_t>(each), " pairs for each of ", lanes,
           " rows, more than 32 bits count; sort by value (sort without a comparator) or shorter rows");
  }
  Dim pairs = lanes * n * n;
  order.push_back(axis), moved.push_back(n);
  Axes back(rank);
  for (size_t d = 0; d < rank; ++d) back[static_cast<size_t>(order[d])] = static_cast<int64_t>(d);
  List flat, operands;
  Dims square{lanes, n, n};
  for (const Value& x : site.operands) {
    flat.push_back(reshape(transpose(x, order), {lanes, n}));
    // Element j beside element i.
    operands.push_back(reshape(broadcast_in_dim(flat.back(), square, {0, 2}), {pairs}));
    operands.push_back(reshape(broadcast_in_dim(flat.back(), square, {0, 1}), {pairs}));
  }
  Value comes_first = reshape(splice(site.to, over_elements(*a.comparator, pairs), operands)[0], square);
  Value mirrored = transpose(comes_first, {0, 2, 1});
  // Before i stand: of the earlier ones all that i does not precede, of the later ones those that precede i.
  Value i = iota(site.to, {i32, square}, 1), j = iota(site.to, {i32, square}, 2);
  Value before = select(compare(j, i, Comparison::lt), bitwise_not(mirrored),
                        bitwise_and(comes_first, compare(j, i, Comparison::gt)));
  // In order of these counts, and not at these places: a comparator that contradicts itself, as `<` does of NaN, counts
  // alike for several.
  Value standing = argsort(reduce_sum(convert(before, i32), {2}), 1);
  List out;
  for (const Value& x : flat)
    out.push_back(transpose(reshape(take_along_axis(x, standing, 1, OutOfRange::clip), moved), back));
  return out;
}

}  // namespace

Graph spell_out_combiners(const Graph& g) {
  return with_bodies(g, [](const Graph& body) {
    auto holds_one = [](const Node& node) {
      if (node.op == &op::reduce) return node.attrs.as<ReduceAttrs>().kind == Reduction::custom;
      if (node.op == &op::reduce_window) return node.attrs.as<ReduceWindowAttrs>().kind == Reduction::custom;
      if (node.op == &op::scatter) return node.attrs.as<ScatterAttrs>().kind == ScatterKind::custom;
      return node.op == &op::sort && static_cast<bool>(node.attrs.as<SortAttrs>().comparator);
    };
    // What has no elements is told so by what asks for this.
    auto any_empty = [](const Site& site) {
      auto is_empty = [](const Type& t) { return std::find(t.dims.begin(), t.dims.end(), Dim(0)) != t.dims.end(); };
      return std::any_of(site.node.types.begin(), site.node.types.end(), is_empty) ||
             std::any_of(site.operands.begin(), site.operands.end(), [&](Value v) { return is_empty(v.type()); });
    };
    if (std::none_of(body.nodes().begin(), body.nodes().end(), holds_one)) return body;
    return rewritten(body, [&](const Site& site) -> std::optional<List> {
      if (!holds_one(site.node) || any_empty(site)) return std::nullopt;
      if (site.node.op == &op::reduce) return reduced(site);
      if (site.node.op == &op::reduce_window) return reduced_windows(site);
      return site.node.op == &op::scatter ? scattered(site) : sorted(site);
    });
  });
}

}  // namespace rlx

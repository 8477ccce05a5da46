// See the header.
#include "train/row_gradients.h"

#include "rlx/ops/elementary.h"
#include "rlx/ops/index.h"
#include "rlx/ops/reduction.h"
#include "rlx/ops/shape.h"
#include "rlx/ops/sort.h"
#include "rlx/ops/take.h"

namespace rlx::train {
namespace {

Value operand(Value v, size_t i) { return v.graph().value(v.graph().node(v.ref()).operands[i]); }

bool is_zero(Value v) {
  const Node& node = v.graph().node(v.ref());
  if (node.op == &op::broadcast_in_dim || node.op == &op::convert) return is_zero(operand(v, 0));
  if (node.op != &op::constant) return false;
  const Tensor& t = node.attrs.as<ConstantAttrs>().value;
  return t.element_count() == 1 && load_number(t, 0) == 0;
}

/// Rows that were added to the zeros that `v` began as, and where.
bool find_rows(Value v, std::vector<RowGradient>& found) {
  const Node& node = v.graph().node(v.ref());
  if (node.op == &op::add) return find_rows(operand(v, 0), found) && find_rows(operand(v, 1), found);
  Value rows, places;
  if (node.op == &op::scatter_add_rows && node.attrs.as<ScatterAddRowsAttrs>().axis == 0) {
    rows = operand(v, 0), places = operand(v, 1);
  } else if (node.op == &op::scatter && node.operands.size() == 3 && is_zero(operand(v, 0))) {
    const auto& a = node.attrs.as<ScatterAttrs>();
    rows = operand(v, 2), places = operand(v, 1);
    bool whole_rows = a.update_window_dims == axes_from(places.rank(), size_t(v.rank() - 1)) &&
                      a.inserted_window_dims == Axes{0} && a.scatter_dims_to_operand_dims == Axes{0};
    if (a.kind != ScatterKind::add || !whole_rows || a.index_vector_dim != places.rank()) return false;
  }
  if (!rows || !is_static(rows.dims()) || !is_static(v.dims())) return false;
  Dim count = element_count(places.dims());
  Dims dims = v.dims();
  dims[0] = count;
  found.push_back({reshape(rows, dims), convert(reshape(places, {count}), i64)});
  return true;
}

/// What is added at the same place, as one row.
RowGradient coalesced(Value rows, Value places, int64_t size) {
  Graph& g = rows.graph();
  Dim n = places.dim(0);
  Type type{i64, {n}};
  Value none = full(g, double(size), type);
  auto at_most = [&](Value a, Value b) { return compare(a, b, Comparison::le); };
  places = select(logical_and(at_most(full(g, 0, type), places), at_most(places, none)), places, none);
  auto order = sort({places, iota(g, {i32, {n}}, 0)}, {.axis = 0});
  Value before = concatenate({full(g, -1, {i64, {1}}), slice_axis(order[0], 0, 0, n - 1)}, 0);
  Value group = cumsum(convert(compare(order[0], before, Comparison::ne), i32), 0) - 1.0;
  Value sums = scatter_add_rows(take(rows, order[1]), group, n);
  Value firsts = scatter_nd(none, reshape(group, {n, 1}), order[0]);
  Value inside = compare(firsts, none, Comparison::lt);
  for (int64_t d = 1; d < rows.rank(); ++d) inside = expand_dims(inside, d);
  return {select(broadcast_to(inside, sums.dims()), sums, zeros_like(sums)), firsts};
}

}  // namespace

RowGradient as_rows(Value gradient) {
  const Node& node = gradient.graph().node(gradient.ref());
  bool rounded = node.op == &op::convert;  // sums of low precision are made in f32
  Value sums = rounded ? operand(gradient, 0) : gradient;
  std::vector<RowGradient> found;
  if (gradient.rank() == 0 || !find_rows(sums, found)) return {};
  std::vector<Value> rows, places;
  for (const RowGradient& f : found) rows.push_back(f.rows), places.push_back(f.places);
  Value all = concatenate(rows, 0), where = concatenate(places, 0);
  int64_t n = where.dim(0).value(), size = gradient.dim(0).value();
  if (n == 0 || 4 * n > size) return {};
  RowGradient r = coalesced(all, where, size);
  if (rounded) r.rows = convert(r.rows, gradient.dtype());
  return r;
}

bool leaves_rows_alone(const OptimizerRule& rule) {
  if (auto* sgd = std::get_if<SgdAttrs>(&rule)) return sgd->momentum == 0 && sgd->weight_decay == 0;
  auto* adagrad = std::get_if<AdagradAttrs>(&rule);
  return adagrad && adagrad->weight_decay == 0;
}

Value rows_at(Value table, Value places) { return take(table, places, 0, OutOfRange::clip); }

Value with_rows(Value table, Value places, Value rows) {
  return scatter(table, places, rows,
                 {ScatterKind::update, axes_from(1, size_t(table.rank() - 1)), {0}, {}, {}, {0}, 1});
}

}  // namespace rlx::train

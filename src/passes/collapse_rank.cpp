// See the header. A wide value is held flat, in row-major order, beside the dims that it has in the old graph.
#include "passes/collapse_rank.h"

#include <numeric>

#include "ir/leaves.h"
#include "ir/rewrite.h"
#include "rlx/ops.h"

namespace rlx {
namespace {

const Dim kOne = 1;

Dim product(const Dims& shape, size_t from, size_t limit) {
  Dim all = 1;
  for (size_t d = from; d < limit; ++d) all = all * shape[d];
  return all;
}
Dim product(const Dims& shape, const Axes& axes) {
  Dim all = 1;
  for (int64_t axis : axes) all = all * shape[static_cast<size_t>(axis)];
  return all;
}
Value flat(Value x) { return x.rank() == 1 ? x : reshape(x, {element_count(x.dims())}); }

/// x, which stands for `shape`, as the dims around `axis` joined: {before, extent, after}.
Value around(Value x, const Dims& shape, size_t axis, size_t count = 1) {
  return reshape(
      x, {product(shape, 0, axis), product(shape, axis, axis + count), product(shape, axis + count, shape.size())});
}

/// The transposition of what stands for `shape`, flat.
Value transposed(Value x, const Dims& shape, const Axes& permutation, size_t most) {
  // Dims that stay side by side are one, and those of one element none.
  std::vector<Axes> groups;
  for (int64_t axis : permutation) {
    if (shape[static_cast<size_t>(axis)] == kOne) continue;
    // Side by side, but for dims of one element in between.
    bool follows = !groups.empty() && groups.back().back() < axis;
    for (int64_t d = follows ? groups.back().back() + 1 : axis; d < axis; ++d)
      follows &= shape[static_cast<size_t>(d)] == kOne;
    if (follows) groups.back().push_back(axis);
    else groups.push_back({axis});
  }
  Axes from(groups.size());  // groups in the order in which they stand now
  std::iota(from.begin(), from.end(), 0);
  std::sort(from.begin(), from.end(), [&](int64_t a, int64_t b) {
    return groups[static_cast<size_t>(a)][0] < groups[static_cast<size_t>(b)][0];
  });
  Dims now;
  for (int64_t g : from) now.push_back(product(shape, groups[static_cast<size_t>(g)]));
  if (groups.size() <= most) {
    if (groups.size() < 2) return flat(x);
    Axes order(groups.size());
    for (size_t i = 0; i < from.size(); ++i) order[static_cast<size_t>(from[i])] = static_cast<int64_t>(i);
    return flat(transpose(reshape(x, now), order));
  }
  x = flat(x);
  for (size_t i = 0; i < groups.size(); ++i) {
    size_t at = static_cast<size_t>(std::find(from.begin(), from.end(), static_cast<int64_t>(i)) - from.begin());
    if (at == i) continue;
    Dims parts{product(now, 0, i), product(now, i, at), now[at], product(now, at + 1, now.size())};
    x = flat(transpose(reshape(x, parts), {0, 2, 1, 3}));
    auto place = [&](auto& list) {
      std::rotate(list.begin() + static_cast<std::ptrdiff_t>(i), list.begin() + static_cast<std::ptrdiff_t>(at),
                  list.begin() + static_cast<std::ptrdiff_t>(at) + 1);
    };
    place(from);
    place(now);
  }
  return x;
}

/// What stands for `shape` repeated along its dims of one element, flat.
Value stretched(Value x, Dims shape, const Dims& to) {
  x = flat(x);
  for (size_t d = 0; d < to.size();) {
    if (shape[d] == to[d]) {
      ++d;
      continue;
    }
    size_t end = d;
    while (end < to.size() && shape[end] == kOne) ++end;
    Dim before = product(shape, 0, d), count = product(to, d, end), after = product(shape, end, shape.size());
    x = flat(broadcast_in_dim(reshape(x, {before, after}), {before, count, after}, {0, 2}));
    for (; d < end; ++d) shape[d] = to[d];
  }
  return x;
}

/// The dims that are not listed, then those that are.
Axes listed_last(size_t rank, const Axes& listed) {
  Axes order;
  for (int64_t d = 0; d < static_cast<int64_t>(rank); ++d)
    if (std::find(listed.begin(), listed.end(), d) == listed.end()) order.push_back(d);
  order.insert(order.end(), listed.begin(), listed.end());
  return order;
}

Dims dims_of(const Dims& shape, const Axes& axes) {
  Dims out;
  for (int64_t axis : axes) out.push_back(shape[static_cast<size_t>(axis)]);
  return out;
}

/// The dims of slices once those of the indices are one, before them.
Axes behind_one(size_t count) {
  Axes axes(count);
  std::iota(axes.begin(), axes.end(), 1);
  return axes;
}

/// Why the dims of the indices cannot be made one.
std::optional<std::string> cannot_join_indices(const Question& q, bool batched, size_t slices, size_t most) {
  if (batched) return "no rule joins dims that run along with those of the indices";
  if (is_wide(q.operands[0], most)) return "no rule joins dims of what it reads or writes by indices";
  if (slices >= most) return text_of("its slices have ", slices, " dims beside those of the indices");
  return std::nullopt;
}

class Collapser {
 public:
  explicit Collapser(size_t most) : most_(most) {}

  /// Inputs and outputs of a graph that is a sub-graph are flat where they are wide, or where the mask says so.
  Graph run(const Graph& g, bool is_body, const Mask& flat_inputs = {}, const Mask& flat_outputs = {}) {
    Graph to(g.name());
    std::map<Ref, Value> leaves;  // first, for they are the signature
    size_t next = 0;
    for (size_t n = 0; n < g.nodes().size(); ++n) {
      const Node& node = g.nodes()[n];
      if (node.op != &op::input && node.op != &op::param) continue;
      const Type& t = node.types[0];
      Value& leaf = leaves[{static_cast<int32_t>(n), 0}];
      bool asked = node.op == &op::input && next < flat_inputs.size() && flat_inputs[next];
      if (node.op == &op::input) ++next;
      if (!wide(t) && !asked) {
        leaf = node.op == &op::input ? to.input(node.name, t) : to.param(node.name, t);
        continue;
      }
      if (node.op == &op::param)
        fail(ErrorCode::unsupported, "the param '", node.name, "' is ", t, ", of too many dims; bind it first");
      Type carried = is_body ? Type{t.dtype, {element_count(t.dims)}} : Type{t.dtype, joined(t.dims)};
      Value in = to.input(node.name, carried);
      leaf = wide(t) ? flat(in) : reshape(in, t.dims);
    }
    auto outputs = replay(
        to, g, [&](Ref r) { return leaves.at(r); },
        [&](const Site& site) {
          std::vector<Type> types;
          for (Ref r : site.node.operands) types.push_back(g.type(r));
          return with_context([&] { return text_of("collapsing dims of ", site.node.op->name); },
                              [&] {
                                return collapsed(to, site.node, types, {site.operands.begin(), site.operands.end()});
                              });
        });
    for (size_t i = 0; i < g.outputs().size(); ++i) {
      const Output& o = g.outputs()[i];
      Value v = outputs[i];
      if (i < flat_outputs.size() && flat_outputs[i]) v = flat(v);
      else if (wide(g.type(o.ref)) && !is_body) v = reshape(v, joined(g.type(o.ref).dims));
      to.output(v, o.name);
    }
    return to;
  }

 private:
  bool wide(const Type& t) const { return is_wide(t, most_); }

  Dims joined(const Dims& dims) const {
    size_t many = dims.size() - most_ + 1;
    Dims out{element_count(Dims(dims.begin(), dims.begin() + static_cast<std::ptrdiff_t>(many)))};
    out.insert(out.end(), dims.begin() + static_cast<std::ptrdiff_t>(many), dims.end());
    return out;
  }

  /// A flat value as one of that type is held.
  Value held(Value flat_value, const Type& t) const { return wide(t) ? flat(flat_value) : reshape(flat_value, t.dims); }

  bool has_wide(const Graph& g) const {
    return std::any_of(g.nodes().begin(), g.nodes().end(), [&](const Node& node) {
      return std::any_of(node.types.begin(), node.types.end(), [&](const Type& t) { return wide(t); }) ||
             bodies_have_wide(node);
    });
  }
  bool bodies_have_wide(const Node& node) const {
    if (node.op == &op::if_else)
      return has_wide(*node.attrs.as<IfAttrs>().then_branch) || has_wide(*node.attrs.as<IfAttrs>().else_branch);
    if (node.op == &op::while_loop)
      return has_wide(*node.attrs.as<WhileAttrs>().condition) || has_wide(*node.attrs.as<WhileAttrs>().body);
    return node.op == &op::scan && has_wide(*node.attrs.as<ScanAttrs>().body);
  }

  std::vector<Value> collapsed(Graph& to, const Node& node, Types types, std::vector<Value> in) {
    const OpDef* op = node.op;
    auto any_wide = [&](Types all) {
      return std::any_of(all.begin(), all.end(), [&](const Type& t) { return wide(t); });
    };
    if (!any_wide(types) && !any_wide(node.types) && !bodies_have_wide(node)) return to.emit(*op, in, node.attrs);
    if (auto why = cannot_collapse({node, types}, most_)) fail(ErrorCode::unsupported, *why);
    const Type& result = node.types[0];
    if (op == &op::constant) {
      const Tensor& t = node.attrs.as<ConstantAttrs>().value;
      return {to.constant(t.reshaped({static_cast<int64_t>(t.element_count())}))};
    }
    if (op == &op::if_else) {
      const auto& a = node.attrs.as<IfAttrs>();
      return to.emit(*op, in, IfAttrs{run(*a.then_branch, true), run(*a.else_branch, true)});
    }
    if (op == &op::while_loop) {
      WhileAttrs a = node.attrs.as<WhileAttrs>();
      a.condition = run(*a.condition, true), a.body = run(*a.body, true);
      return to.emit(*op, in, a);
    }
    if (op == &op::scan) return scanned(to, node, types, std::move(in));
    if (op->elementwise || op == &op::select || op == &op::optimization_barrier) return to.emit(*op, in, node.attrs);
    Dims shape = types.empty() ? Dims{} : types[0].dims;
    if (op == &op::reshape) return {held(flat(in[0]), result)};
    if (op == &op::broadcast_in_dim) {
      const auto& a = node.attrs.as<BroadcastAttrs>();
      Axes order(a.axes.size());
      std::iota(order.begin(), order.end(), 0);
      std::sort(order.begin(), order.end(),
                [&](int64_t x, int64_t y) { return a.axes[static_cast<size_t>(x)] < a.axes[static_cast<size_t>(y)]; });
      Dims spread(result.rank(), 1);
      for (size_t d = 0; d < a.axes.size(); ++d) spread[static_cast<size_t>(a.axes[d])] = shape[d];
      return {held(stretched(transposed(in[0], shape, order, most_), spread, result.dims), result)};
    }
    if (op == &op::transpose)
      return {held(transposed(in[0], shape, node.attrs.as<TransposeAttrs>().permutation, most_), result)};
    if (op == &op::iota) {
      IotaAttrs a = node.attrs.as<IotaAttrs>();
      auto axis = static_cast<size_t>(valid_axis(a.axis, a.type.rank()));
      Dims all = a.type.dims, line(all.size(), 1);
      line[axis] = all[axis];
      return {stretched(iota(to, {a.type.dtype, {all[axis]}}, 0), line, all)};
    }
    if (op == &op::dot_general) return {held(products(to, node, types, in), result)};
    if (op == &op::gather) return {held(gathered(node, types, in), result)};
    if (op == &op::scatter) return {scattered(to, node, types, in)};
    return {held(by_dims(node, types, in, shape), result)};
  }

  Value products(Graph& to, const Node& node, Types types, const std::vector<Value>& in) {
    DotAttrs a = node.attrs.as<DotAttrs>();
    DotAxes axes(a, types[0].rank(), types[1].rank());
    auto side = [&](size_t i, const Axes& batch, const Axes& first, const Axes& second) {
      const Dims& shape = types[i].dims;
      Axes order = batch;
      order.insert(order.end(), first.begin(), first.end());
      order.insert(order.end(), second.begin(), second.end());
      return reshape(transposed(in[i], shape, order, most_),
                     {product(shape, batch), product(shape, first), product(shape, second)});
    };
    DotAttrs joint{{0}, {0}, {2}, {1}, a.accumulate};
    return to.emit(op::dot_general,
                   {side(0, axes.lhs_batch, axes.lhs_free, axes.lhs_contract),
                    side(1, axes.rhs_batch, axes.rhs_contract, axes.rhs_free)},
                   joint)[0];
  }

  /// Index vectors one below the other: {how many, how long}.
  Value vectors(Value indices, const Dims& shape, int64_t vector_dim) {
    if (vector_dim == static_cast<int64_t>(shape.size())) return reshape(indices, {element_count(shape), 1});
    Value last = transposed(indices, shape, listed_last(shape.size(), {vector_dim}), most_);
    Axes others = listed_last(shape.size(), {vector_dim});
    others.pop_back();
    return reshape(last, {product(shape, others), shape[static_cast<size_t>(vector_dim)]});
  }

  /// By one dim of indices; their dims come apart, and to where the result has them, afterwards.
  Value gathered(const Node& node, Types types, const std::vector<Value>& in) {
    GatherAttrs a = node.attrs.as<GatherAttrs>();
    const Dims& shape = node.types[0].dims;
    Axes order = listed_last(shape.size(), a.offset_dims), back(order.size());
    for (size_t d = 0; d < order.size(); ++d) back[static_cast<size_t>(order[d])] = static_cast<int64_t>(d);
    Value indices = vectors(in[1], types[1].dims, a.index_vector_dim);
    a.offset_dims = behind_one(a.offset_dims.size()), a.index_vector_dim = 1;
    return transposed(gather(in[0], indices, a), dims_of(shape, order), back, most_);
  }

  Value scattered(Graph& to, const Node& node, Types types, const std::vector<Value>& in) {
    ScatterAttrs a = node.attrs.as<ScatterAttrs>();
    const Dims& shape = types[2].dims;
    Value indices = vectors(in[1], types[1].dims, a.index_vector_dim);
    Dims joint = dims_of(shape, a.update_window_dims);
    joint.insert(joint.begin(), indices.dim(0));
    Value updates = transposed(in[2], shape, listed_last(shape.size(), a.update_window_dims), most_);
    a.update_window_dims = behind_one(a.update_window_dims.size()), a.index_vector_dim = 1;
    return to.emit(op::scatter, {in[0], indices, reshape(updates, joint)}, a)[0];
  }

  /// What is done dim by dim. Flat.
  static Value by_dims(const Node& node, Types types, const std::vector<Value>& in, Dims shape) {
    const OpDef* op = node.op;
    Value x = in[0];
    if (op == &op::slice) {
      const auto& a = node.attrs.as<SliceAttrs>();
      for (size_t d = 0; d < shape.size(); ++d) {
        int64_t stride = a.strides.empty() ? 1 : a.strides[d];
        if (a.starts[d] == Dim(0) && a.limits[d] == shape[d] && stride == 1) continue;
        Value parts = around(x, shape, d);
        x = slice(parts, {0, a.starts[d], 0}, {parts.dim(0), a.limits[d], parts.dim(2)}, {1, stride, 1});
        shape[d] = x.dim(1);
      }
      return x;
    }
    if (op == &op::pad) {
      const auto& a = node.attrs.as<PadAttrs>();
      for (size_t d = 0; d < shape.size(); ++d) {
        int64_t gap = a.interior.empty() ? 0 : a.interior[d];
        if (a.low[d] == Dim(0) && a.high[d] == Dim(0) && gap == 0) continue;
        x = pad(around(x, shape, d), in[1], {{0, a.low[d], 0}, {0, a.high[d], 0}, {0, gap, 0}});
        shape[d] = x.dim(1);
      }
      return x;
    }
    if (op == &op::reverse) {
      for (int64_t axis : valid_axes(node.attrs.as<AxesAttrs>().axes, shape.size()))
        x = reverse(around(x, shape, static_cast<size_t>(axis)), {1});
      return x;
    }
    if (op == &op::concatenate) {
      auto axis = static_cast<size_t>(valid_axis(node.attrs.as<AxisAttrs>().axis, shape.size()));
      std::vector<Value> parts;
      for (size_t i = 0; i < in.size(); ++i) parts.push_back(around(in[i], types[i].dims, axis));
      return concatenate(parts, 1);
    }
    const auto& a = node.attrs.as<ReduceAttrs>();
    Axes axes = valid_axes(a.axes, shape.size());
    Mask reduced(shape.size());
    for (int64_t axis : axes) reduced[static_cast<size_t>(axis)] = true;
    for (size_t end = shape.size(); end > 0;) {
      size_t begin = end;
      while (begin > 0 && reduced[begin - 1]) --begin;
      if (begin < end) {
        x = reduce(around(x, shape, begin, end - begin), a.kind, {1});
        shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(begin),
                    shape.begin() + static_cast<std::ptrdiff_t>(end));
      }
      end = begin > 0 ? begin - 1 : 0;
    }
    return x;
  }

  std::vector<Value> scanned(Graph& to, const Node& node, Types types, std::vector<Value> in) {
    ScanAttrs a = node.attrs.as<ScanAttrs>();
    auto carries = static_cast<size_t>(a.carries), xs = static_cast<size_t>(a.xs);
    // Slices of what is wide are flat, also where they alone would not be wide.
    Mask flat_inputs(types.size()), flat_outputs(node.types.size());
    for (size_t i = carries; i < carries + xs; ++i)
      if (wide(types[i])) {
        flat_inputs[i] = true;
        in[i] = reshape(in[i], {types[i].dims[0], product(types[i].dims, 1, types[i].rank())});
      }
    for (size_t i = carries; i < node.types.size(); ++i) flat_outputs[i] = wide(node.types[i]);
    a.body = run(*a.body, true, flat_inputs, flat_outputs);
    std::vector<Value> out = to.emit(*node.op, std::move(in), a);
    for (size_t i = carries; i < out.size(); ++i)
      if (wide(node.types[i])) out[i] = flat(out[i]);
    return out;
  }

  size_t most_;
};

}  // namespace

bool is_wide(const Type& t, size_t most) { return t.dims.size() > most; }

std::optional<std::string> cannot_collapse(const Question& q, size_t most) {
  for (const Type& t : q.operands)
    for (const Dim& d : t.dims)
      if (d == Dim(0)) return text_of(t, " has no elements, and is to be of fewer dims");
  const OpDef* op = q.node.op;
  if (op == &op::reduce && q.node.attrs.as<ReduceAttrs>().kind == Reduction::custom)
    return "no rule reduces many dims by a function of one's own";
  if (op == &op::gather) {
    const auto& a = q.node.attrs.as<GatherAttrs>();
    return cannot_join_indices(q, !a.operand_batching_dims.empty(), a.offset_dims.size(), most);
  }
  if (op == &op::scatter && q.node.attrs.as<ScatterAttrs>().kind != ScatterKind::custom) {
    const auto& a = q.node.attrs.as<ScatterAttrs>();
    return cannot_join_indices(q, !a.input_batching_dims.empty(), a.update_window_dims.size(), most);
  }
  if (op->elementwise) return std::nullopt;
  for (const OpDef* each : {&op::input, &op::constant, &op::select, &op::optimization_barrier, &op::reshape,
                            &op::broadcast_in_dim, &op::transpose, &op::iota, &op::dot_general, &op::slice, &op::pad,
                            &op::reverse, &op::concatenate, &op::reduce, &op::if_else, &op::while_loop, &op::scan})
    if (op == each) return std::nullopt;
  return "no rule joins dims around it";
}

Graph collapse_rank(const Graph& g, size_t most) { return Collapser(most).run(g, false); }

}  // namespace rlx

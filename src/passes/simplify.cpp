// One table of rules, one sweep; see the header. A rule returns an absent Value where it does not apply.
#include "passes/simplify.h"

#include <cmath>

#include "ir/leaves.h"
#include "ir/rewrite.h"
#include "passes/constants.h"
#include "passes/value_nodes.h"

namespace rlx {
namespace {

struct Candidate {
  Graph& to;
  const OpDef& op;
  Values in;
  const Attrs& attrs;

  template <class A>
  const A& as() const {
    return attrs.as<A>();
  }
};

Value simplified(const Candidate& c);
/// The op on these operands, or what it comes down to.
Value make(Graph& to, const OpDef& op, std::vector<Value> in, Attrs attrs = {}) {
  if (Value v = simplified({to, op, in, attrs})) return v;
  return to.emit(op, std::move(in), std::move(attrs))[0];
}

/// The node that makes `v`, if it is this op.
const Node* maker(Value v, const OpDef& op) {
  const Node& node = v.graph().node(v.ref());
  return node.op == &op ? &node : nullptr;
}
bool is_splat(Value v, double wanted) {
  auto number = splat(v);
  return number && *number == wanted && std::signbit(*number) == std::signbit(wanted);
}
bool is_unit(const Axes& strides) {
  return std::all_of(strides.begin(), strides.end(), [](int64_t s) { return s == 1; });
}

// ---- arithmetic and logic ----
Value add_rule(const Candidate& c) {
  double zero = is_integer(c.in[0].dtype()) ? 0.0 : -0.0;
  if (is_splat(c.in[1], zero)) return c.in[0];
  return is_splat(c.in[0], zero) ? c.in[1] : Value();
}
Value sub_rule(const Candidate& c) { return is_splat(c.in[1], 0) ? c.in[0] : Value(); }
Value mul_rule(const Candidate& c) {
  if (is_splat(c.in[1], 1)) return c.in[0];
  return is_splat(c.in[0], 1) ? c.in[1] : Value();
}
Value div_rule(const Candidate& c) { return is_splat(c.in[1], 1) ? c.in[0] : Value(); }
Value pow_rule(const Candidate& c) {
  if (is_splat(c.in[1], 1)) return c.in[0];
  return is_splat(c.in[1], 2) ? make(c.to, op::mul, {c.in[0], c.in[0]}) : Value();
}
/// f(f(x)) = x
Value involution_rule(const Candidate& c) { return maker(c.in[0], c.op) ? operand(c.in[0]) : Value(); }
Value and_rule(const Candidate& c) {
  if (c.in[0] == c.in[1]) return c.in[0];
  if (c.in[0].dtype() != boolean) return {};
  if (is_splat(c.in[1], 1)) return c.in[0];
  return is_splat(c.in[0], 1) ? c.in[1] : Value();
}
Value or_rule(const Candidate& c) {
  if (c.in[0] == c.in[1] || is_splat(c.in[1], 0)) return c.in[0];
  return is_splat(c.in[0], 0) ? c.in[1] : Value();
}
Value select_rule(const Candidate& c) {
  if (c.in[1] == c.in[2]) return c.in[1];
  auto condition = splat(c.in[0]);
  return condition ? c.in[*condition != 0 ? 1 : 2] : Value();
}
Value identity_rule(const Candidate& c) { return c.in[0]; }

// ---- conversions ----
/// Does `to` hold every value of `from`?
bool holds(DType to, DType from) {
  if (to == from) return true;
  const DTypeInfo &f = info(from), &t = info(to);
  switch (f.kind) {
    case Kind::boolean:
      return t.kind == Kind::signed_int || t.kind == Kind::unsigned_int || (t.kind == Kind::real && t.bits >= 16);
    case Kind::unsigned_int:
      if (t.kind == Kind::unsigned_int) return t.bits >= f.bits;
      if (t.kind == Kind::signed_int) return t.bits > f.bits;
      return t.kind == Kind::real && t.bits >= 16 && t.mantissa_bits + 1 >= f.bits;
    case Kind::signed_int:
      if (t.kind == Kind::signed_int) return t.bits >= f.bits;
      return t.kind == Kind::real && t.bits >= 16 && t.mantissa_bits + 2 >= f.bits;
    case Kind::real:  // the small formats differ in what they do without: infinities, zero, a sign
      return t.kind == Kind::real && f.bits >= 16 && t.bits >= 16 && t.exponent_bits >= f.exponent_bits &&
             t.mantissa_bits >= f.mantissa_bits;
    case Kind::complex:
    case Kind::block: break;
  }
  return false;
}
Value convert_rule(const Candidate& c) {
  DType to = c.as<ConvertAttrs>().dtype;
  if (c.in[0].dtype() == to) return c.in[0];
  if (!maker(c.in[0], op::convert)) return {};
  Value x = operand(c.in[0]);
  DType from = x.dtype(), between = c.in[0].dtype();
  if (!holds(between, from)) return {};
  // An integer wraps on its way to a narrower one, a float saturates: the detour over a float shows.
  if (is_float(between) && !is_float(from) && is_integer(to) && !holds(to, from)) return {};
  return make(c.to, op::convert, {x}, ConvertAttrs{to});
}

// ---- moves ----
Value reshape_rule(const Candidate& c) {
  const Dims& dims = c.as<ReshapeAttrs>().dims;
  if (c.in[0].dims() == dims) return c.in[0];
  if (maker(c.in[0], op::reshape)) return make(c.to, op::reshape, {operand(c.in[0])}, c.attrs);
  if (maker(c.in[0], op::broadcast_in_dim) && operand(c.in[0]).rank() == 0)
    return make(c.to, op::broadcast_in_dim, {operand(c.in[0])}, BroadcastAttrs{dims, {}});
  return {};
}

Value transpose_rule(const Candidate& c) {
  size_t rank = c.in[0].dims().size();
  Axes permutation = valid_axes(c.as<TransposeAttrs>().permutation, rank);
  if (permutation == axes_from(0, rank)) return c.in[0];
  if (const Node* inner = maker(c.in[0], op::transpose))
    return make(c.to, op::transpose, {operand(c.in[0])},
                TransposeAttrs{pick(valid_axes(inner->attrs.as<TransposeAttrs>().permutation, rank), permutation)});
  if (const Node* inner = maker(c.in[0], op::broadcast_in_dim)) {
    Axes place(rank), axes;
    for (size_t d = 0; d < rank; ++d) place[size_t(permutation[d])] = int64_t(d);
    for (int64_t axis : valid_axes(inner->attrs.as<BroadcastAttrs>().axes, rank)) axes.push_back(place[size_t(axis)]);
    return make(c.to, op::broadcast_in_dim, {operand(c.in[0])},
                BroadcastAttrs{pick(c.in[0].dims(), permutation), axes});
  }
  return {};
}

/// Where each dim of `from` stands in `to`, if `to` is `from` with dims of 1 put in between.
std::optional<Axes> inserted_dims(const Dims& from, const Dims& to) {
  Axes at;
  size_t d = 0;
  for (const Dim& dim : from) {
    while (d < to.size() && to[d] != dim && to[d] == Dim(1)) ++d;
    if (d == to.size() || to[d] != dim) return {};
    at.push_back(int64_t(d++));
  }
  for (; d < to.size(); ++d)
    if (to[d] != Dim(1)) return {};
  return at;
}
Value broadcast_rule(const Candidate& c) {
  const auto& a = c.as<BroadcastAttrs>();
  Axes axes = valid_axes(a.axes, a.dims.size());
  if (c.in[0].dims() == a.dims && axes == axes_from(0, axes.size())) return c.in[0];
  std::optional<Axes> from;  // where the dims of the inner operand stand in the inner result
  if (const Node* inner = maker(c.in[0], op::broadcast_in_dim))
    from = valid_axes(inner->attrs.as<BroadcastAttrs>().axes, axes.size());
  else if (maker(c.in[0], op::reshape)) from = inserted_dims(operand(c.in[0]).dims(), c.in[0].dims());
  if (!from) return {};
  return make(c.to, op::broadcast_in_dim, {operand(c.in[0])}, BroadcastAttrs{a.dims, pick(axes, *from)});
}

Value slice_rule(const Candidate& c) {
  const auto& a = c.as<SliceAttrs>();
  const Dims& dims = c.in[0].dims();
  if (is_unit(a.strides) && a.limits == dims &&
      std::all_of(a.starts.begin(), a.starts.end(), [](const Dim& d) { return d == Dim(0); }))
    return c.in[0];
  if (maker(c.in[0], op::broadcast_in_dim) && operand(c.in[0]).rank() == 0) {
    Type t = infer_types(c.op, std::array{c.in[0].type()}, c.attrs)[0];
    return make(c.to, op::broadcast_in_dim, {operand(c.in[0])}, BroadcastAttrs{t.dims, {}});
  }
  const Node* inner = maker(c.in[0], op::slice);
  if (!inner) return {};
  const auto& first = inner->attrs.as<SliceAttrs>();
  if (!is_unit(first.strides)) return {};
  SliceAttrs joined = a;
  for (size_t d = 0; d < dims.size(); ++d)
    joined.starts[d] = a.starts[d] + first.starts[d], joined.limits[d] = a.limits[d] + first.starts[d];
  return make(c.to, op::slice, {operand(c.in[0])}, std::move(joined));
}

Value pad_rule(const Candidate& c) {
  const auto& a = c.as<PadAttrs>();
  auto is_zero = [](const auto& d) { return d == 0; };
  bool nothing = std::all_of(a.low.begin(), a.low.end(), is_zero) &&
                 std::all_of(a.high.begin(), a.high.end(), is_zero) &&
                 std::all_of(a.interior.begin(), a.interior.end(), is_zero);
  return nothing ? c.in[0] : Value();
}

Value concatenate_rule(const Candidate& c) {
  int64_t axis = c.as<AxisAttrs>().axis;
  std::vector<Value> parts;
  for (const Value& v : c.in)
    if (v.dim(axis) != Dim(0)) parts.push_back(v);
  if (parts.empty()) return c.in[0];
  if (parts.size() == 1) return parts[0];
  return parts.size() < c.in.size() ? make(c.to, op::concatenate, std::move(parts), c.attrs) : Value();
}

Value reverse_rule(const Candidate& c) {
  Axes axes = valid_axes(c.as<AxesAttrs>().axes, c.in[0].dims().size());
  size_t given = axes.size();
  std::erase_if(axes, [&](int64_t axis) { return c.in[0].dim(axis) == Dim(1); });
  if (axes.empty()) return c.in[0];
  Value x = c.in[0];
  if (const Node* inner = maker(x, op::reverse)) {
    x = operand(x);
    for (int64_t axis : valid_axes(inner->attrs.as<AxesAttrs>().axes, x.dims().size()))
      if (std::erase(axes, axis) == 0) axes.push_back(axis);
    std::sort(axes.begin(), axes.end());
  } else if (axes.size() == given) {
    return {};
  }
  return make(c.to, op::reverse, {x}, AxesAttrs{axes});
}

Value reduce_rule(const Candidate& c) {
  const auto& a = c.as<ReduceAttrs>();
  return a.axes.empty() && a.kind != Reduction::custom ? c.in[0] : Value();
}

// ---- broadcasts ----
/// f(stretched x, stretched y) = stretched f(x, y): computed where there is less of it.
Value unstretched(const Candidate& c) {
  Value small;  // an operand as it was before it was stretched; scalars fit any of them
  const BroadcastAttrs* stretch = nullptr;
  for (const Value& v : c.in) {
    const Node* node = maker(v, op::broadcast_in_dim);
    if (!node) return {};
    if (small && small.rank() > 0 && operand(v).rank() > 0 &&
        (operand(v).dims() != small.dims() || node->attrs.as<BroadcastAttrs>().axes != stretch->axes))
      return {};
    if (!small || operand(v).rank() > 0) small = operand(v), stretch = &node->attrs.as<BroadcastAttrs>();
  }
  if (!small || element_count(small.dims()) == element_count(stretch->dims)) return {};
  std::vector<Value> in;
  for (const Value& v : c.in) {
    Value x = operand(v);
    if (x.rank() < small.rank()) x = make(c.to, op::broadcast_in_dim, {x}, BroadcastAttrs{small.dims(), {}});
    in.push_back(x);
  }
  return make(c.to, op::broadcast_in_dim, {make(c.to, c.op, std::move(in), c.attrs)}, *stretch);
}

struct Row {
  const OpDef* op;
  Value (*rule)(const Candidate&);
};
const Row kRules[] = {
    {&op::add, add_rule},
    {&op::sub, sub_rule},
    {&op::mul, mul_rule},
    {&op::div, div_rule},
    {&op::pow, pow_rule},
    {&op::neg, involution_rule},
    {&op::bitwise_not, involution_rule},
    {&op::bitwise_and, and_rule},
    {&op::bitwise_or, or_rule},
    {&op::select, select_rule},
    {&op::stop_gradient, identity_rule},
    {&op::convert, convert_rule},
    {&op::reshape, reshape_rule},
    {&op::transpose, transpose_rule},
    {&op::broadcast_in_dim, broadcast_rule},
    {&op::slice, slice_rule},
    {&op::pad, pad_rule},
    {&op::concatenate, concatenate_rule},
    {&op::reverse, reverse_rule},
    {&op::reduce, reduce_rule},
};

Value simplified(const Candidate& c) {
  for (const Row& row : kRules)
    if (row.op == &c.op)
      if (Value v = row.rule(c)) return v;
  return c.op.elementwise ? unstretched(c) : Value();
}

/// if_else on a constant is the branch that it takes.
std::optional<std::vector<Value>> chosen_branch(const Site& site) {
  auto condition = splat(site.operands[0]);
  if (!condition) return std::nullopt;
  const auto& a = site.node.attrs.as<IfAttrs>();
  return splice(site.to, *condition != 0 ? *a.then_branch : *a.else_branch, site.operands.subspan(1));
}

}  // namespace

Graph simplify(const Graph& g) {
  return rewritten(g, [](const Site& site) -> std::optional<std::vector<Value>> {
    if (site.node.op == &op::if_else) return chosen_branch(site);
    if (site.operands.empty()) return std::nullopt;
    if (Value v = simplified({site.to, *site.node.op, site.operands, site.node.attrs})) return std::vector{v};
    return std::nullopt;
  });
}

}  // namespace rlx

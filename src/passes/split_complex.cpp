// See the header. A value is held as its parts; what moves or sums elements does so with each part, the rest is said by
// formulas of real numbers.
#include "passes/split_complex.h"

#include <cmath>

#include "ir/leaves.h"
#include "rlx/ops.h"

namespace rlx {
namespace {

/// A value, or the parts of one.
struct Parts {
  Value re, im;  ///< im is absent of what is real
  bool is_complex() const { return static_cast<bool>(im); }
};

bool is_any_complex(Types types) {
  return std::any_of(types.begin(), types.end(), [](const Type& t) { return is_complex(t.dtype); });
}

// ---- formulas ----
Value zero_like(Value x) { return zeros_like(x); }
Value is_zero(Value x) { return compare(x, zeros_like(x), Comparison::eq); }
Value is_below_zero(Value x) { return compare(x, zeros_like(x), Comparison::lt); }

Parts times(Parts x, Parts y) { return {x.re * y.re - x.im * y.im, x.re * y.im + x.im * y.re}; }
Parts scaled(Parts x, Value by) { return {x.re * by, x.im * by}; }
Parts negated(Parts x) { return {-x.re, -x.im}; }

/// |z| = m sqrt(1 + (n / m)^2) with m the larger part.
Value magnitude(Parts z) {
  Value a = abs(z.re), b = abs(z.im), large = maximum(a, b), small = minimum(a, b);
  Value none = is_zero(large), ratio = small / select(none, full_like(large, 1), large);
  // Infinite parts make the ratio NaN where both are.
  Value finite = is_finite(large);
  Value length = large * sqrt(ratio * ratio + 1.0);
  return select(finite, length, large);
}
/// Smith, CACM 5 (1962), with both parts of the divisor scaled.
Parts quotient(Parts x, Parts y) {
  Value large = maximum(abs(y.re), abs(y.im)), none = is_zero(large), safe = select(none, full_like(large, 1), large);
  Parts d{y.re / safe, y.im / safe};
  Value length = d.re * d.re + d.im * d.im;
  // By zero: the parts' own quotients, infinities and NaN.
  return {select(none, x.re / y.re, (x.re * d.re + x.im * d.im) / length / safe),
          select(none, x.im / y.re, (x.im * d.re - x.re * d.im) / length / safe)};
}
Parts exponential(Parts z) {
  Value length = exp(z.re);
  return {length * cos(z.im), length * sin(z.im)};
}
Parts logarithm(Parts z) { return {log(magnitude(z)), atan2(z.im, z.re)}; }
/// Kahan, "Branch cuts for complex elementary functions", 1987, without the scaling of extremes.
Parts root(Parts z) {
  Value t = sqrt((magnitude(z) + abs(z.re)) * 0.5), none = is_zero(t);
  Value other = z.im / (select(none, full_like(t, 1), t) * 2.0), left = is_below_zero(z.re);
  Value signed_t = select(is_below_zero(z.im), -t, t);
  return {select(left, abs(other), t), select(left, signed_t, other)};
}
/// tan(a) and tanh(b) joined: (t + i h) / (1 - i t h).
Parts tangent(Value t, Value h) {
  Value by = t * t * h * h + 1.0;
  return {t * (1.0 - h * h) / by, h * (1.0 + t * t) / by};
}
Parts expm1_of(Parts z) {
  Value s = sin(z.im * 0.5);
  return {expm1(z.re) * cos(z.im) - 2.0 * s * s, exp(z.re) * sin(z.im)};
}
Parts log1p_of(Parts z) { return {0.5 * log1p(z.re * (2.0 + z.re) + z.im * z.im), atan2(z.im, 1.0 + z.re)}; }
Parts one_over(Parts z) { return quotient({full_like(z.re, 1), zero_like(z.re)}, z); }
Parts sigmoid(Parts z) {
  // (1 + tanh(z / 2)) / 2, which no exponential overflows.
  Parts half = scaled(z, full_like(z.re, 0.5)), t = tangent(tan(half.im), tanh(half.re));
  return {(t.im + 1.0) * 0.5, t.re * 0.5};  // tanh(z) = -i tan(i z): the parts change places
}
Parts hyperbolic_tangent(Parts z) {
  Parts t = tangent(tan(z.im), tanh(z.re));
  return {t.im, t.re};
}
Parts sign_of(Parts z) {
  Value length = magnitude(z), none = is_zero(length), safe = select(none, full_like(length, 1), length);
  return {z.re / safe, z.im / safe};
}
Parts power_of(Parts x, Parts y) {
  // 0 to the power of 0 is 1, and to any other 0.
  Value none = bitwise_and(is_zero(x.re), is_zero(x.im)), flat = bitwise_and(is_zero(y.re), is_zero(y.im));
  Value one = full_like(x.re, 1), zero = zero_like(x.re);
  Parts safe{select(none, one, x.re), x.im}, p = exponential(times(y, logarithm(safe)));
  Value at_none = select(flat, one, zero);
  return {select(none, at_none, p.re), select(none, zero, p.im)};
}

using Unary = Parts (*)(Parts);
struct UnaryRow {
  const OpDef* op;
  Unary formula;
};
std::span<const UnaryRow> unary_rows() {
  static const UnaryRow kRows[] = {
      {&op::neg, negated},
      {&op::sign, sign_of},
      {&op::exp, exponential},
      {&op::expm1, expm1_of},
      {&op::log, logarithm},
      {&op::log1p, log1p_of},
      {&op::sqrt, root},
      {&op::rsqrt, [](Parts z) { return one_over(root(z)); }},
      {&op::sin,
       [](Parts z) {
         return Parts{sin(z.re) * cosh(z.im), cos(z.re) * sinh(z.im)};
       }},
      {&op::cos,
       [](Parts z) {
         return Parts{cos(z.re) * cosh(z.im), -(sin(z.re) * sinh(z.im))};
       }},
      {&op::tan, [](Parts z) { return tangent(tan(z.re), tanh(z.im)); }},
      {&op::tanh, hyperbolic_tangent},
      {&op::logistic, sigmoid},
      {&op::conjugate,
       [](Parts z) {
         return Parts{z.re, -z.im};
       }},
  };
  return kRows;
}
Unary unary_of(const OpDef* op) {
  for (const UnaryRow& row : unary_rows())
    if (row.op == op) return row.formula;
  return nullptr;
}

/// Ops that do to each part what they do to a number.
bool is_partwise(const Question& q) {
  const OpDef* op = q.node.op;
  for (const OpDef* each : {&op::broadcast_in_dim, &op::reshape, &op::transpose, &op::slice, &op::pad, &op::concatenate,
                            &op::reverse, &op::gather, &op::dynamic_slice, &op::dynamic_update_slice, &op::select,
                            &op::add, &op::sub, &op::stop_gradient})
    if (op == each) return true;
  if (op == &op::reduce) return q.node.attrs.as<ReduceAttrs>().kind == Reduction::sum;
  if (op == &op::reduce_window) return q.node.attrs.as<ReduceWindowAttrs>().kind == Reduction::sum;
  if (op == &op::scatter) {
    ScatterKind kind = q.node.attrs.as<ScatterAttrs>().kind;
    return kind == ScatterKind::update || kind == ScatterKind::add;
  }
  return false;
}

bool is_product(const OpDef* op) { return op == &op::dot_general || op == &op::convolution; }

/// Attributes in which a dtype is complex name that of the parts.
std::optional<DType> part_of(std::optional<DType> t) { return t ? std::optional(real_part(*t)) : t; }

Tensor part_of_tensor(const Tensor& t, bool imaginary) {
  Tensor part = Tensor::uninitialized(real_part(t.dtype()), t.shape());
  for (size_t i = 0; i < t.element_count(); ++i) {
    auto z = load<std::complex<double>>(t, i);
    store<double>(part, i, imaginary ? z.imag() : z.real());
  }
  return part;
}

class Splitter {
 public:
  /// With `to` empty but for nothing: writes the whole of g.
  Graph run(const Graph& g) {
    Graph to(g.name());
    std::vector<std::vector<Parts>> values(g.nodes().size());
    auto part_type = [](const Type& t) { return Type{real_part(t.dtype), t.dims}; };
    for (size_t n = 0; n < g.nodes().size(); ++n) {  // leaves first: they are the signature
      const Node& node = g.nodes()[n];
      if (node.op != &op::input && node.op != &op::param) continue;
      const Type& t = node.types[0];
      if (!is_complex(t.dtype)) {
        values[n] = {{node.op == &op::input ? to.input(node.name, t) : to.param(node.name, t), {}}};
      } else if (node.op == &op::input) {
        Value re = to.input(node.name + "_re", part_type(t));
        values[n] = {{re, to.input(node.name + "_im", part_type(t))}};
      } else {
        fail(ErrorCode::unsupported, "the param '", node.name, "' is ", t, ", and has no parts; bind it first");
      }
    }
    for (size_t n = 0; n < g.nodes().size(); ++n) {
      const Node& node = g.nodes()[n];
      if (node.op == &op::input || node.op == &op::param) continue;
      std::vector<Parts> operands;
      std::vector<Type> types;
      for (Ref r : node.operands) {
        operands.push_back(values[static_cast<size_t>(r.node)][static_cast<size_t>(r.result)]);
        types.push_back(g.type(r));
      }
      to.set_scope(node.name);
      values[n] = with_context([&] { return text_of("splitting complex numbers of ", node.op->name); },
                               [&] { return split(to, node, types, operands); });
    }
    to.set_scope("");
    for (const Output& o : g.outputs()) {
      const Parts& p = values[static_cast<size_t>(o.ref.node)][static_cast<size_t>(o.ref.result)];
      to.output(p.re, p.is_complex() ? o.name + "_re" : o.name);
      if (p.is_complex()) to.output(p.im, o.name + "_im");
    }
    return to;
  }

 private:
  using Operands = std::span<const Parts>;

  std::vector<Parts> split(Graph& to, const Node& node, Types types, Operands in) {
    const OpDef* op = node.op;
    if (holds_programs_with_complex(node)) return control_flow(to, node, types, in);
    if (!is_any_complex(types) && !is_any_complex(node.types)) return plain(to, node, in);
    if (auto why = cannot_split_complex({node, {types.begin(), types.end()}})) fail(ErrorCode::unsupported, *why);
    if (op == &op::constant) {
      const Tensor& t = node.attrs.as<ConstantAttrs>().value;
      return {{to.constant(part_of_tensor(t, false)), to.constant(part_of_tensor(t, true))}};
    }
    if (Unary formula = unary_of(op)) return {formula(in[0])};
    if (op == &op::real) return {{in[0].re, {}}};
    if (op == &op::imag) return {{in[0].im, {}}};
    if (op == &op::complex) return {{in[0].re, in[1].re}};
    if (op == &op::abs) return {{magnitude(in[0]), {}}};
    if (op == &op::complex_norm_sq) return {{in[0].re * in[0].re + in[0].im * in[0].im, {}}};
    if (op == &op::mul) return {times(in[0], in[1])};
    if (op == &op::div) return {quotient(in[0], in[1])};
    if (op == &op::pow) return {power_of(in[0], in[1])};
    if (op == &op::compare) return {{compared(node.attrs.as<CompareAttrs>().direction, in[0], in[1]), {}}};
    if (op == &op::convert) return {converted(node.attrs.as<ConvertAttrs>().dtype, types[0].dtype, in[0])};
    if (op == &op::iota) {
      IotaAttrs a = node.attrs.as<IotaAttrs>();
      a.type.dtype = real_part(a.type.dtype);
      Value re = to.emit(*op, {}, a)[0];
      return {{re, zeros_like(re)}};
    }
    if (op == &op::optimization_barrier) return barrier(to, in);
    if (op == &op::reduce && node.attrs.as<ReduceAttrs>().kind == Reduction::prod)
      return {product_along(in[0], node.attrs.as<ReduceAttrs>().axes)};
    if (is_product(op)) return {sum_of_products(to, node, in)};
    return partwise(to, node, in);
  }

  std::vector<Parts> plain(Graph& to, const Node& node, Operands in) {
    std::vector<Value> operands;
    for (const Parts& p : in) operands.push_back(p.re);
    std::vector<Parts> out;
    for (Value v : to.emit(*node.op, std::move(operands), node.attrs)) out.push_back({v, {}});
    return out;
  }

  std::vector<Parts> partwise(Graph& to, const Node& node, Operands in) {
    std::vector<Value> re, im;
    for (const Parts& p : in) {
      re.push_back(p.re);
      im.push_back(p.is_complex() ? p.im : p.re);
    }
    auto first = to.emit(*node.op, std::move(re), node.attrs), second = to.emit(*node.op, std::move(im), node.attrs);
    std::vector<Parts> out;
    for (size_t i = 0; i < first.size(); ++i) out.push_back({first[i], second[i]});
    return out;
  }

  std::vector<Parts> barrier(Graph& to, Operands in) {
    std::vector<Value> all;
    for (const Parts& p : in) {
      all.push_back(p.re);
      if (p.is_complex()) all.push_back(p.im);
    }
    return joined(in, to.emit(op::optimization_barrier, std::move(all)));
  }
  /// Values in the order of `like`, two for each complex one.
  static std::vector<Parts> joined(Operands like, const std::vector<Value>& flat) {
    std::vector<Parts> out;
    size_t next = 0;
    for (const Parts& p : like) {
      Value re = flat[next++];
      out.push_back({re, p.is_complex() ? flat[next++] : Value{}});
    }
    return out;
  }

  static Value compared(Comparison direction, Parts x, Parts y) {
    bool equal = direction == Comparison::eq;
    Value re = compare(x.re, y.re, direction), im = compare(x.im, y.im, direction);
    return equal ? bitwise_and(re, im) : bitwise_or(re, im);
  }

  static Parts converted(DType to, DType from, Parts x) {
    DType part = real_part(to);
    if (is_complex(to)) {
      Value re = convert(x.re, part);
      return {re, is_complex(from) ? convert(x.im, part) : zeros_like(re)};
    }
    if (to == boolean)
      return {
          bitwise_or(compare(x.re, zeros_like(x.re), Comparison::ne), compare(x.im, zeros_like(x.im), Comparison::ne)),
          {}};
    return {convert(x.re, to), {}};
  }

  static Parts sum_of_products(Graph& to, const Node& node, Operands in) {
    Attrs attrs = node.attrs;
    if (node.op == &op::dot_general) {
      DotAttrs a = attrs.as<DotAttrs>();
      a.accumulate = part_of(a.accumulate);
      attrs = a;
    } else {
      ConvAttrs a = attrs.as<ConvAttrs>();
      a.accumulate = part_of(a.accumulate);
      attrs = a;
    }
    auto product = [&](Value x, Value y) { return to.emit(*node.op, {x, y}, attrs)[0]; };
    return {product(in[0].re, in[1].re) - product(in[0].im, in[1].im),
            product(in[0].re, in[1].im) + product(in[0].im, in[1].re)};
  }

  /// Halves multiplied until one element is left.
  static Parts product_along(Parts x, const Axes& reduced) {
    size_t rank = x.re.dims().size();
    Axes axes = valid_axes(reduced, rank), order;
    Dims kept;
    for (size_t d = 0; d < rank; ++d)
      if (std::find(axes.begin(), axes.end(), static_cast<int64_t>(d)) == axes.end()) {
        order.push_back(static_cast<int64_t>(d));
        kept.push_back(x.re.dims()[d]);
      }
    order.insert(order.end(), axes.begin(), axes.end());
    int64_t count = 1;
    for (int64_t axis : axes) count *= x.re.dim(axis).value();
    Dims flat = kept;
    flat.push_back(count);
    auto each = [](Parts p, auto f) { return Parts{f(p.re), f(p.im)}; };
    x = each(x, [&](Value v) { return reshape(transpose(v, order), flat); });
    if (count == 0) return {full(x.re.graph(), 1, {x.re.dtype(), kept}), full(x.re.graph(), 0, {x.re.dtype(), kept})};
    for (; count > 1; count = (count + 1) / 2) {
      int64_t half = count / 2;
      auto piece = [&](int64_t from, int64_t limit) {
        return each(x, [&](Value v) { return slice_axis(v, -1, from, limit); });
      };
      Parts p = times(piece(0, half), piece(half, 2 * half));
      if (count % 2) {
        Parts rest = piece(count - 1, count);
        p = {concatenate({p.re, rest.re}, -1), concatenate({p.im, rest.im}, -1)};
      }
      x = p;
    }
    return each(x, [&](Value v) { return reshape(v, kept); });
  }

  // ---- sub-graphs ----
  static bool holds_complex(const Graph& g) {
    return std::any_of(g.nodes().begin(), g.nodes().end(), [](const Node& node) {
      return is_any_complex(node.types) || holds_programs_with_complex(node);
    });
  }
  static bool holds_programs_with_complex(const Node& node) {
    if (node.op == &op::if_else) {
      const auto& a = node.attrs.as<IfAttrs>();
      return holds_complex(*a.then_branch) || holds_complex(*a.else_branch);
    }
    if (node.op == &op::while_loop) {
      const auto& a = node.attrs.as<WhileAttrs>();
      return holds_complex(*a.condition) || holds_complex(*a.body);
    }
    return node.op == &op::scan && holds_complex(*node.attrs.as<ScanAttrs>().body);
  }

  std::vector<Parts> control_flow(Graph& to, const Node& node, Types types, Operands in) {
    std::vector<Value> operands;
    for (const Parts& p : in) {
      operands.push_back(p.re);
      if (p.is_complex()) operands.push_back(p.im);
    }
    auto counted = [&](size_t from, size_t count) {
      int64_t all = 0;
      for (size_t i = from; i < from + count; ++i) all += is_complex(types[i].dtype) ? 2 : 1;
      return all;
    };
    Attrs attrs;
    if (node.op == &op::if_else) {
      const auto& a = node.attrs.as<IfAttrs>();
      attrs = IfAttrs{run(*a.then_branch), run(*a.else_branch)};
    } else if (node.op == &op::while_loop) {
      WhileAttrs a = node.attrs.as<WhileAttrs>();
      a.carries = counted(0, static_cast<size_t>(a.carries));
      a.condition = run(*a.condition), a.body = run(*a.body);
      attrs = a;
    } else {
      ScanAttrs a = node.attrs.as<ScanAttrs>();
      auto carries = static_cast<size_t>(a.carries), xs = static_cast<size_t>(a.xs);
      a.carries = counted(0, carries), a.xs = counted(carries, xs);
      a.body = run(*a.body);
      attrs = a;
    }
    std::vector<Value> flat = to.emit(*node.op, std::move(operands), std::move(attrs));
    std::vector<Parts> out;
    size_t next = 0;
    for (const Type& t : node.types) {
      Value re = flat[next++];
      out.push_back({re, is_complex(t.dtype) ? flat[next++] : Value{}});
    }
    return out;
  }
};

}  // namespace

std::optional<std::string> cannot_split_complex(const Question& q) {
  const OpDef* op = q.node.op;
  for (const OpDef* each :
       {&op::input, &op::constant, &op::real, &op::imag, &op::complex, &op::abs, &op::complex_norm_sq, &op::mul,
        &op::div, &op::pow, &op::compare, &op::convert, &op::iota, &op::optimization_barrier, &op::dot_general,
        &op::convolution, &op::if_else, &op::while_loop, &op::scan})
    if (op == each) return std::nullopt;
  if (unary_of(op) || is_partwise(q)) return std::nullopt;
  if (op == &op::reduce && q.node.attrs.as<ReduceAttrs>().kind == Reduction::prod) return std::nullopt;
  return text_of("no rule makes pairs of real numbers of its complex ones");
}

Graph split_complex(const Graph& g) { return Splitter().run(g); }

}  // namespace rlx

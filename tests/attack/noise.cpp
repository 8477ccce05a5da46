// Interpreting with noise; see the header.
#include "attack/noise.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <set>

#include "ir/leaves.h"
#include "ir/rewrite.h"
#include "judge/error_bounds.h"
#include "reference/interpreter.h"
#include "rlx/element.h"
#include "rlx/extras/sparse.h"
#include "rlx/graph_file.h"
#include "rlx/ops/contract.h"
#include "rlx/ops/elementwise.h"
#include "rlx/ops/shape.h"
#include "rlx/ops/window.h"
#include "support/tolerance.h"

namespace rlx::attack {
namespace {

using Clock = std::chrono::steady_clock;
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kNotFinite[] = {kInfinity, -kInfinity, kNaN};

/// Results that are operands' elements, or one rounding of what they say exactly: whoever gets another number computes
/// something else.
bool is_exact(const OpDef& op) {
  static const std::set<std::string_view> exact = {"abs",
                                                   "neg",
                                                   "sign",
                                                   "floor",
                                                   "ceil",
                                                   "round_nearest_even",
                                                   "round_nearest_afz",
                                                   "real",
                                                   "imag",
                                                   "complex",
                                                   "conjugate",
                                                   "maximum",
                                                   "minimum",
                                                   "compare",
                                                   "select",
                                                   "convert",
                                                   "bitcast",
                                                   "clamp",
                                                   "relu",
                                                   "relu6",
                                                   "iota",
                                                   "extent",
                                                   "stop_gradient",
                                                   "sort",
                                                   "top_k",
                                                   "sort_values",
                                                   "rng_uniform",
                                                   "optimization_barrier"};
  return op.moves_data || exact.contains(op.name);
}
/// Of those that combine elements, some only choose one.
bool chooses(const OpDef& op, const Attrs& attrs) {
  const auto is_choice = [](Reduction kind) {
    return kind != Reduction::sum && kind != Reduction::prod && kind != Reduction::custom;
  };
  if (&op == &op::reduce) return is_choice(attrs.as<ReduceAttrs>().kind);
  return &op == &op::reduce_window && is_choice(attrs.as<ReduceWindowAttrs>().kind);
}
/// One rounding of the exact result, in any correct arithmetic.
bool is_rounded_once(const OpDef& op) {
  static const std::set<std::string_view> once = {"add", "sub", "mul", "div", "sqrt", "square", "fma"};
  return once.contains(op.name);
}
/// Whether errors are small beside the largest number of a matrix, not beside each of its own. Sparse systems are
/// solved by the same algorithms as dense ones; their ops are registered, so that the library's table does not know
/// them.
bool is_normwise(const OpDef& op) {
  return error_bound_of(op).norm != ErrorNorm::element || &op == &op::sparse_solve ||
         &op == &op::sparse_triangular_solve || &op == &op::sparse_cg;
}

/// What `row_relative` is about; others that multiply matrices are made of these.
bool is_product(const OpDef& op) { return &op == &op::dot_general || &op == &op::convolution; }

/// Ops whose sums are rounded, and may overflow, on the way: in an order that is the kernel's affair.
bool sums_up(const OpDef& op) {
  static const std::set<std::string_view> summing = {"reduce",        "dot_general", "convolution",
                                                     "reduce_window", "scatter",     "select_and_scatter",
                                                     "cumsum",        "fft",         "cumprod"};
  return summing.contains(op.name);
}

/// Element-wise ops that overflow. (What is infinite by nature, as a quotient by 0 is, is not meant.)
bool overflows(const OpDef& op) {
  static const std::set<std::string_view> some = {"add", "sub",   "mul",  "div",    "pow",
                                                  "exp", "expm1", "exp2", "square", "fma"};
  return some.contains(op.name);
}

/// Functions that approach 1 or -1, and round to that from some argument on.
bool saturates(const OpDef& op) { return &op == &op::tanh || &op == &op::logistic || &op == &op::erf; }

/// Of a singular system they give infinities or NaN, as their documents say: whichever. So do transforms of what is not
/// finite: infinity times a root of unity depends on whether its parts are 0, 1 or nearly so, which the order decides.
bool gives_any_not_finite(const OpDef& op) {
  return op.name.find("solve") != std::string_view::npos || op.name == "inverse" || op.name == "pinv" ||
         op.name == "fft";
}
/// What a factorization of a matrix that is not finite makes of it is NaN from the step on that meets it, and of parts
/// that it does not meet a number.
bool factorizes(const OpDef& op) {
  static const std::set<std::string_view> some = {
      "lu", "cholesky", "geqrf", "householder_product", "qr", "det", "slogdet", "eigh", "svd", "eig", "lstsq"};
  return some.contains(op.name);
}
/// Weights of 0, of what a mask hides, are multiplied by values, or the values are passed over: it is the same but for
/// infinities and NaN.
bool may_pass_over(const OpDef& op) { return op.name.find("attention") != std::string_view::npos; }

/// One rounding of that dtype, relative.
double rounding_of(DType t) { return std::ldexp(1.0, -info(t).mantissa_bits - 1); }

class NoisyInterpreter {
 public:
  NoisyInterpreter(uint64_t seed, const Judged& judged, Clock::time_point end)
      : seed_(seed), random_(seed), row_relative_(judged.row_relative), relaxed_(judged.relaxed),
        widens_all_(random_.chance(4)), calm_(random_.chance(4)), passes_over_zeros_(random_.chance(2)), end_(end) {}

  /// The outputs that `wanted` names, and what they are made of; all of them if it is empty.
  std::vector<std::optional<Tensor>> run(const Graph& g, Tensors inputs, const std::map<std::string, Tensor>& params,
                                         const std::set<size_t>& wanted) {
    const Bindings bindings = solve_symbols(g, inputs);
    std::vector<bool> needed(g.nodes().size(), wanted.empty());
    for (size_t o : wanted) needed[size_t(g.outputs()[o].ref.node)] = true;
    for (size_t n = needed.size(); n-- > 0;)
      if (needed[n])
        for (Ref r : g.nodes()[n].operands) needed[size_t(r.node)] = true;
    std::vector<std::vector<Tensor>> values;
    size_t next_input = 0;
    for (const Node& node : g.nodes()) {
      if (node.op == &op::input) {
        values.push_back({inputs[next_input++]});
      } else if (node.op == &op::param) {
        values.push_back({params.at(node.name)});
      } else if (!needed[values.size()]) {
        values.emplace_back();
      } else {
        std::vector<Tensor> operands;
        for (Ref r : node.operands) operands.push_back(values[size_t(r.node)][size_t(r.result)]);
        values.push_back(run_node(*node.op, substitute(node.attrs, bindings), std::move(operands)));
      }
    }
    std::vector<std::optional<Tensor>> outputs(g.outputs().size());
    for (size_t o = 0; o < outputs.size(); ++o)
      if (const auto [node, result] = g.outputs()[o].ref; needed[size_t(node)])
        outputs[o] = values[size_t(node)][size_t(result)];
    return outputs;
  }

 private:
  std::vector<Tensor> run_body(const Graph& body, Tensors in) {
    std::vector<Tensor> outputs;
    for (auto& t : run(body, in, {}, {})) outputs.push_back(*std::move(t));
    return outputs;
  }
  std::vector<Tensor> run_node(const OpDef& op, const Attrs& attrs, std::vector<Tensor> operands) {
    if (&op == &op::constant) return op.reference(operands, attrs, {});
    // The reciprocal of a pivot that is subnormal is infinite.
    const bool divides_by_subnormal =
        (factorizes(op) || gives_any_not_finite(op)) && std::any_of(operands.begin(), operands.end(), holds_subnormals);
    const bool squares_overflow = op.decompose && !is_exact(op) && !holds_subgraph(attrs) &&
                                  std::any_of(operands.begin(), operands.end(), has_large_squares);
    const bool solves = gives_any_not_finite(op) && op.name != "fft";
    bool singular = false;  // noise makes a matrix regular that is not
    if (solves)
      for (const Tensor& t : run_op(op, attrs, operands)) singular |= !is_finite(t);
    // What is not finite reaches all unknowns if it is multiplied by the zeros of a matrix and of its factors, or only
    // those that depend on it: these are infinite or NaN, and the others as if it were not there.
    if (solves && passes_over_zeros_ && !std::all_of(operands.begin(), operands.end(), is_finite)) {
      for (Tensor& t : operands) replace_not_finite(t, {0.0});
      singular = false;
    }
    std::vector<Tensor> results = computed(op, attrs, std::move(operands));
    for (Tensor& t : results) {
      if (gives_any_not_finite(op)) {
        if (singular && random_.chance(2)) spoil(t);
        replace_not_finite(t, {kInfinity, kNaN});
      }
      if (factorizes(op)) replace_not_finite(t, {kInfinity, kNaN, 0});
    }
    // Which rows are pivots is anybody's choice where they cannot be compared.
    if (factorizes(op) && !std::all_of(results.begin(), results.end(), is_finite) && random_.chance(2))
      for (Tensor& t : results)
        for (size_t i = 0; is_integer(t.dtype()) && i < t.element_count(); ++i)
          store<int64_t>(t, i, static_cast<int64_t>(random_.below(64)));
    // What is made of others multiplies its operands somewhere, in an order of its own.
    if (squares_overflow && !calm_ && random_.chance(3))
      for (Tensor& t : results) lose_some(t);
    if (!calm_ &&
        (divides_by_subnormal || (factorizes(op) && std::any_of(results.begin(), results.end(), nearly_overflows))) &&
        random_.chance(2))
      for (Tensor& t : results) spoil(t);
    turn_free_rows(op, results);
    return results;
  }
  /// Rows whose sign is open (judge/error_bounds.h) come with either.
  void turn_free_rows(const OpDef& op, std::vector<Tensor>& results) {
    const ErrorBound bound = error_bound_of(op);
    if (bound.free_rows < 0) return;
    Tensor& rows = results[size_t(bound.free_rows)];
    const Tensor& values = results[size_t(bound.values_of_rows)];
    const size_t count = size_t(values.shape().back()), width = size_t(rows.shape().back());
    const size_t stride = size_t(rows.shape()[rows.rank() - 2]) * width;
    for (size_t v = 0; v < values.element_count(); ++v) {
      if (load<double>(values, v) != 0 || random_.chance(2)) continue;
      for (size_t i = v / count * stride + v % count * width, end = i + width; i < end; ++i)
        if (is_complex(rows.dtype())) store<Complex>(rows, i, -load<Complex>(rows, i));
        else store<double>(rows, i, -load<double>(rows, i));
    }
  }
  std::vector<Tensor> computed(const OpDef& op, const Attrs& attrs, std::vector<Tensor> operands) {
    // One op of the same operands is off by the same wherever it stands, as kernels are.
    draw_anew(op.name, operands);
    const bool exact = is_exact(op) || chooses(op, attrs);
    const bool as_parts = calm_ && op.decompose && !op.reference && !op.elementwise;
    if (!exact && !op.elementwise && !holds_subgraph(attrs) && !as_parts) {
      for (Tensor& t : operands) {
        const bool low = is_low_precision(t.dtype());
        double relative = low ? 1.2 * rounding_of(t.dtype()) : tolerance_of(t.dtype());
        // Errors of factorizations are those of a matrix that differs by some roundings for each of their steps: a row,
        // or, in Jacobi's, a stage of rotations, of which a sweep has as many as there are rows, and it takes a handful
        // (Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., 2002, Lemma 19.9).
        if (is_normwise(op) && t.rank() > 0 && (is_float(t.dtype()) || is_complex(t.dtype())))
          relative += 8 * static_cast<double>(t.shape().back()) * rounding_of(low ? f32 : t.dtype());
        disturb(t, relative, is_normwise(op) || (row_relative_ && is_product(op)));
      }
    }
    // Which sign a NaN has is nobody's choice, but a total order tells.
    if (&op == &op::compare && attrs.as<CompareAttrs>().total_order)
      for (Tensor& t : operands)
        for (size_t i = 0; is_float(t.dtype()) && is_byte_sized(t.dtype()) && i < t.element_count(); ++i)
          if (std::isnan(load<double>(t, i)) && random_.chance(2))
            t.mutable_data()[(i + 1) * byte_size(t.dtype()) - 1] ^= std::byte{0x80};
    if (may_pass_over(op) && random_.chance(2))
      for (Tensor& t : operands) replace_not_finite(t, {0.0});
    if (op.decompose && !exact && !as_parts && (widens_all_ || random_.chance(3)))
      if (auto results = widened(op, attrs, operands)) return *results;
    // An op that is made of others rounds in each of them, if it is they that run.
    if (op.decompose && (!op.reference || ((row_relative_ || random_.chance(2)) && Clock::now() < end_))) {
      std::vector<Type> types;
      for (const Tensor& t : operands) types.push_back(t.type());
      ++inside_;
      auto results = run_body(trace(types, [&](Graph& g, Values in) { return decompose(g, op, in, attrs); }), operands);
      --inside_;
      // In f16 and bf16 its parts are computed in f32, and the results are rounded.
      if (!exact)
        for (Tensor& t : results)
          if (is_low_precision(t.dtype())) disturb(t, tolerance_of(t.dtype()), false);
      return results;
    }
    std::vector<Tensor> results =
        op.reference(operands, attrs, [this](const Graph& body, Tensors in) { return run_body(body, in); });
    if (!exact && !holds_subgraph(attrs))
      for (Tensor& t : results) {
        const bool once = is_rounded_once(op) && !is_low_precision(t.dtype());
        const Tensor exactly = t;
        disturb(t, once ? 2 * rounding_of(t.dtype()) : tolerance_of(t.dtype()), false);
        if (saturates(op)) keep_saturated(op, attrs, operands, exactly, t);
      }
    if (relaxed_ && &op == &op::convert)
      for (Tensor& t : results)
        if (is_low_precision(t.dtype())) disturb(t, 2 * rounding_of(t.dtype()), false);
    if (sums_up(op) && !exact && !widens_all_ && !calm_) overflow_on_the_way(op, attrs, operands, results);
    if (inside_ && overflows(op)) saturate(op, operands, results[0]);
    if (op.elementwise && is_complex(results[0].dtype())) replace_not_finite(results[0], {kInfinity, -kInfinity, kNaN});
    if (&op == &op::convolution && random_.chance(2)) multiply_padding(attrs, operands, results[0]);
    return results;
  }

  void draw_anew(std::string_view what, Tensors of) {
    size_t seed = std::hash<std::string_view>()(what) ^ seed_;
    for (const Tensor& t : of)
      seed = seed * 31 + std::hash<std::string_view>()({reinterpret_cast<const char*>(t.data()), t.byte_count()});
    random_ = Random(seed);
  }

  static double size_of(const Tensor& t, size_t i) {
    return is_complex(t.dtype()) ? std::abs(load<Complex>(t, i))
           : is_float(t.dtype()) ? std::abs(load<double>(t, i))
                                 : 0;
  }
  static bool is_finite(const Tensor& t) {
    bool finite = true;
    for (size_t i = 0; i < t.element_count(); ++i) finite &= std::isfinite(size_of(t, i));
    return finite;
  }
  /// The numbers on the way to an eigenvalue or a factor are some times as large.
  static bool nearly_overflows(const Tensor& t) {
    const double limit = (t.dtype() == f64 || t.dtype() == c128 ? std::numeric_limits<double>::max()
                                                                : double{std::numeric_limits<float>::max()}) /
                         64;
    bool large = false;
    for (size_t i = 0; i < t.element_count(); ++i) large |= size_of(t, i) > limit;
    return large;
  }
  static bool has_large_squares(const Tensor& t) {
    const double limit = t.dtype() == f64 || t.dtype() == c128 ? 1e154 : 1e19;
    bool found = false;
    for (size_t i = 0; i < t.element_count(); ++i) found |= size_of(t, i) > limit && std::isfinite(size_of(t, i));
    return found;
  }
  void lose_some(Tensor& t) {
    for (size_t i = 0; i < t.element_count(); ++i) {
      if (random_.chance(2)) continue;
      const double by = random_.of(kNotFinite);
      if (is_complex(t.dtype())) store<Complex>(t, i, {by, by});
      else if (is_float(t.dtype())) store<double>(t, i, by);
    }
  }
  static bool holds_subnormals(const Tensor& t) {
    if (!is_float(t.dtype()) && !is_complex(t.dtype())) return false;
    const double normal = t.dtype() == f64 || t.dtype() == c128 ? std::numeric_limits<double>::min()
                                                                : double{std::numeric_limits<float>::min()};
    bool found = false;
    for (size_t i = 0; i < t.element_count(); ++i) found |= size_of(t, i) > 0 && size_of(t, i) < normal;
    return found;
  }
  /// All is lost to what is not finite: of a singular system the unknowns, of what overflows the factors.
  static void spoil(Tensor& t) {
    for (size_t i = 0; i < t.element_count(); ++i)
      if (is_complex(t.dtype())) store<Complex>(t, i, {kNaN, kNaN});
      else if (is_float(t.dtype())) store<double>(t, i, kNaN);
  }

  void replace_not_finite(Tensor& t, const std::vector<double>& by) {
    if (!is_float(t.dtype()) && !is_complex(t.dtype())) return;
    for (size_t i = 0; i < t.element_count(); ++i) {
      if (is_complex(t.dtype())) {
        if (!std::isfinite(std::abs(load<Complex>(t, i)))) store<Complex>(t, i, {random_.of(by), random_.of(by)});
      } else if (!std::isfinite(load<double>(t, i))) {
        store<double>(t, i, random_.of(by));
      }
    }
  }

  /// What an op gives that is computed in f64 throughout and rounded once, as kernels may and `exact` does: what
  /// overflows in its parts need not overflow there. Nothing where the op does not take f64 instead.
  std::optional<std::vector<Tensor>> widened(const OpDef& op, const Attrs& attrs, const std::vector<Tensor>& operands) {
    if (holds_subgraph(attrs)) return std::nullopt;
    const auto wide = [](DType t) { return is_float(t) && info(t).bits >= 16 ? f64 : t == c64 ? c128 : t; };
    std::vector<Tensor> inputs;
    std::vector<Type> types, wide_types;
    for (const Tensor& t : operands) {
      inputs.push_back(run_op(op::convert, ConvertAttrs{wide(t.dtype())}, {&t, 1})[0]);
      types.push_back(t.type()), wide_types.push_back(inputs.back().type());
    }
    std::vector<Tensor> results;
    try {
      const auto own = infer_types(op, types, attrs), other = infer_types(op, wide_types, attrs);
      // Of an op that is made of others these may run in f64, and their results differ from its own where it has a
      // jump.
      if (op.decompose && (!op.reference || (random_.chance(2) && Clock::now() < end_)))
        results = run_body(trace(wide_types, [&](Graph& g, Values in) { return decompose(g, op, in, attrs); }), inputs);
      else results = run_op(op, attrs, inputs);
      for (size_t r = 0; r < own.size(); ++r) {
        if (wide(own[r].dtype) != other[r].dtype || own[r].dims != other[r].dims) return std::nullopt;
        results[r] = run_op(op::convert, ConvertAttrs{own[r].dtype}, {&results[r], 1})[0];
        disturb(results[r], tolerance_of(own[r].dtype), false);
      }
    } catch (const Error&) {
      return std::nullopt;
    }
    return results;
  }

  /// Kernels that compute in a wider dtype, or scale, need not overflow where the parts of an op do: there an infinity
  /// made of finite operands is now and then the largest finite number instead.
  void saturate(const OpDef& op, const std::vector<Tensor>& operands, Tensor& result) {
    if (!is_float(result.dtype()) || random_.chance(2)) return;
    for (size_t i = 0; i < result.element_count(); ++i) {
      const double v = load<double>(result, i);
      bool made_here = std::isinf(v);
      for (size_t o = 0; made_here && o < operands.size(); ++o) {
        const double x = load<double>(operands[o], i);
        made_here = std::isfinite(x) && !(o > 0 && x == 0 && op.name == "div");
      }
      if (made_here) store<double>(result, i, v > 0 ? largest_number(result.dtype()) : -largest_number(result.dtype()));
    }
  }
  static double largest_number(DType t) {
    return (2 - std::ldexp(1.0, -info(t).mantissa_bits)) * std::ldexp(1.0, (1 << (info(t).exponent_bits - 1)) - 1);
  }

  /// The zeros around and between the elements of a convolution are multiplied by its weights in some kernels, and
  /// passed over in others: of a weight that is infinite or NaN that makes NaN, or nothing.
  static void multiply_padding(const Attrs& attrs, const std::vector<Tensor>& operands, Tensor& result) {
    ConvAttrs a = attrs.as<ConvAttrs>();
    const Tensor& weights = operands[1];
    if (!is_float(weights.dtype())) return;
    bool finite = true;
    for (size_t i = 0; i < weights.element_count(); ++i) finite &= std::isfinite(load<double>(weights, i));
    if (finite) return;
    const size_t rank = operands[0].rank();
    PadAttrs pad{Dims(rank, 0), Dims(rank, 0), Axes(rank, 0)};
    for (size_t d = 0; d + 2 < rank; ++d) {
      const size_t dim = a.lhs_layout.empty() ? d + 2 : static_cast<size_t>(a.lhs_layout[d + 2]);
      if (d < a.padding_low.size()) pad.low[dim] = a.padding_low[d];
      if (d < a.padding_high.size()) pad.high[dim] = a.padding_high[d];
      if (d < a.lhs_dilation.size()) pad.interior[dim] = a.lhs_dilation[d] - 1;
    }
    a.padding_low.clear(), a.padding_high.clear(), a.lhs_dilation.clear();
    std::vector<Tensor> padded = {operands[0], Tensor(operands[0].dtype(), {})};
    padded = {op::pad.reference(padded, pad, {})[0], weights};
    const Tensor with_zeros = op::convolution.reference(padded, a, {})[0];
    for (size_t i = 0; i < result.element_count(); ++i)
      if (std::isnan(load<double>(with_zeros, i))) store<double>(result, i, load<double>(with_zeros, i));
  }

  /// The reference sums in f64 what kernels sum in f32: where the sum of all absolute values is too large, some order
  /// of the terms is too large before it ends. There a result is not finite, now and then.
  void overflow_on_the_way(const OpDef& op, const Attrs& attrs, std::vector<Tensor> operands,
                           std::vector<Tensor>& results) {
    bool large = false;
    for (Tensor& t : operands) {
      if (!is_float(t.dtype()) && !is_complex(t.dtype())) continue;
      const double limit = t.dtype() == f64 || t.dtype() == c128 ? 1e140 : 1e15;
      for (size_t i = 0; i < t.element_count(); ++i) {
        const double size = is_complex(t.dtype()) ? std::abs(load<Complex>(t, i)) : std::abs(load<double>(t, i));
        large |= size > limit && std::isfinite(size);
        if (!std::isfinite(size)) continue;
        if (is_complex(t.dtype())) store<Complex>(t, i, {size, 0});
        else store<double>(t, i, size);
      }
    }
    if (!large || random_.chance(2)) return;
    const auto sizes = op.reference(operands, attrs, {});
    for (size_t r = 0; r < results.size(); ++r)
      for (size_t i = 0; i < results[r].element_count(); ++i) {
        if (!is_float(results[r].dtype()) && !is_complex(results[r].dtype())) break;
        const bool complex = is_complex(results[r].dtype());
        const double size = complex ? std::abs(load<Complex>(sizes[r], i)) : std::abs(load<double>(sizes[r], i));
        if (std::isfinite(size)) continue;
        const double by = random_.of(kNotFinite);
        if (complex) store<Complex>(results[r], i, {by, by});
        else store<double>(results[r], i, by);
      }
  }

  /// Where half of the operand gives the same bound of the function's range, any algorithm gives that bound.
  static void keep_saturated(const OpDef& op, const Attrs& attrs, const std::vector<Tensor>& operands,
                             const Tensor& exactly, Tensor& result) {
    if (!is_float(result.dtype())) return;
    Tensor half(operands[0].dtype(), operands[0].shape());
    for (size_t i = 0; i < half.element_count(); ++i) store<double>(half, i, load<double>(operands[0], i) / 2);
    const Tensor bounds = op.reference({&half, 1}, attrs, {})[0];
    for (size_t i = 0; i < result.element_count(); ++i)
      if (const double v = load<double>(exactly, i); std::abs(v) == 1 && load<double>(bounds, i) == v)
        store<double>(result, i, v);
  }

  /// Each element off by up to `relative`, of itself or of the largest one of its matrix; equal tensors by the same.
  void disturb(Tensor& t, double relative, bool normwise) {
    if (!is_float(t.dtype()) && !is_complex(t.dtype())) return;
    if (info(t.dtype()).bits < 16 || t.element_count() == 0) return;
    draw_anew("", {&t, 1});
    size_t matrix = 1;
    for (size_t d = t.rank() > 2 ? t.rank() - 2 : 0; d < t.rank(); ++d) matrix *= static_cast<size_t>(t.shape()[d]);
    with_element_type(t.dtype(), [&]<class T>() {
      if constexpr (std::is_same_v<T, double> || std::is_same_v<T, Complex>) {
        for (size_t begin = 0; begin < t.element_count(); begin += matrix) {
          double largest = 0;
          for (size_t i = begin; normwise && i < begin + matrix; ++i)
            if (const double size = std::abs(load<T>(t, i)); std::isfinite(size)) largest = std::max(largest, size);
          for (size_t i = begin; i < begin + matrix; ++i) {
            const T v = load<T>(t, i);
            double size = normwise ? largest : std::abs(v);
            if (!std::isfinite(size)) continue;
            // Subnormal numbers are rounded as the smallest normal one is.
            if (size > 0) size = std::max(size, std::ldexp(1.0, 2 - (1 << (info(t.dtype()).exponent_bits - 1))));
            if constexpr (std::is_same_v<T, double>) store<T>(t, i, v + relative * size * random_.uniform(-1, 1));
            else store<T>(t, i, v + relative * size * Complex(random_.uniform(-1, 1), random_.uniform(-1, 1)));
          }
        }
      }
    });
  }

  uint64_t seed_;
  Random random_;
  int inside_ = 0;  ///< of how many ops that are made of others
  bool row_relative_, relaxed_;
  bool widens_all_;  ///< several ops behind one another that overflow need not, and each alone is widened now and then
  /// Ops that are only made of others have no errors but those of their parts. So two functions of one matrix, which
  /// both begin with its eigenvalues, have the same eigenvalues, as where native makes them of their parts. And nothing
  /// overflows on the way that need not: each op alone is spared that now and then, here all of them are.
  bool calm_;
  bool passes_over_zeros_;  ///< solvers multiply no zeros, as sparse ones do
  Clock::time_point end_;
};

/// The parts of an element as numbers: one, or two of a complex one.
struct Parts {
  double at[2] = {0, 0};
  size_t count = 1;
};
Parts parts_of(const Tensor& t, size_t i) {
  if (is_complex(t.dtype())) {
    const auto v = load<Complex>(t, i);
    return {{v.real(), v.imag()}, 2};
  }
  return {{is_float(t.dtype()) ? load<double>(t, i) : 0, 0}, 1};
}
bool has_tolerance(DType t) { return tolerance_of(t) > 0; }
bool is_same_number(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }
bool is_within(double a, double b, double allowed) {
  return is_same_number(a, b) || (std::isfinite(b) && std::abs(a - b) <= allowed);
}
bool is_same_element(const Tensor& a, const Tensor& b, size_t i) {
  return with_element_type(a.dtype(), [&]<class T>() {
    const T x = load<T>(a, i), y = load<T>(b, i);
    return x == y || (x != x && y != y);
  });
}

struct Mismatch {
  size_t tensor, element;
};

bool is_close(const Tensor& got, const Tensor& wanted, size_t i) {
  const double tolerance = tolerance_of(got.dtype());
  if (tolerance == 0) return is_same_element(got, wanted, i);
  const Parts x = parts_of(got, i), y = parts_of(wanted, i);
  for (size_t p = 0; p < x.count; ++p)
    if (!is_within(x.at[p], y.at[p], tolerance * (1 + std::abs(y.at[p])))) return false;
  return true;
}

/// How many standard deviations under noise an element may be off. To first order its error is a sum of what each
/// rounding on the way adds. Each term is at most as large as the noise makes it, and they are independent: that such a
/// sum is beyond 6 times the root of the sum of their squares has a probability of at most 2 exp(-6^2 / 2), or one in
/// 3e7 (Hoeffding's inequality; for rounding errors Higham and Mary, SIAM J. Sci. Comput. 41, 2019). Noise is uniform:
/// its variance is a third of the sum of squares.
const double kMostDeviations = 6 * std::sqrt(3.0);

/// The excuse for an element that is off, by what it became under noise; nothing if there is none.
std::optional<Excuse> excuse_for(const Tensor& got, const Tensor& wanted, size_t i, const std::vector<Tensor>& noisy) {
  if (!has_tolerance(got.dtype())) {
    for (const Tensor& t : noisy)
      if (!is_same_element(t, wanted, i)) return Excuse::flipped;
    return std::nullopt;
  }
  const Parts x = parts_of(got, i), y = parts_of(wanted, i);
  const double tolerance = tolerance_of(got.dtype());
  std::optional<Excuse> excuse = Excuse::carried;
  for (size_t p = 0; p < x.count; ++p) {
    double spread = 0, squares = 0;
    bool turns = false, is_lost = !noisy.empty() && std::abs(y.at[p]) > 1e6;
    for (const Tensor& t : noisy) {
      const double z = parts_of(t, i).at[p];
      is_lost &= std::abs(z - y.at[p]) > 0.9 * std::abs(y.at[p]);
      if (!std::isfinite(z) || !std::isfinite(y.at[p])) turns |= !is_same_number(z, y.at[p]);
      else spread = std::max(spread, std::abs(z - y.at[p])), squares += (z - y.at[p]) * (z - y.at[p]);
    }
    const double deviation = std::sqrt(squares / static_cast<double>(std::max<size_t>(noisy.size(), 1)));
    const double one = 1 + std::abs(y.at[p]);
    if (is_within(x.at[p], y.at[p], tolerance * one)) continue;
    // Which of infinity and NaN a result is depends on an order; of an op alone tests/ops says which it has to be.
    if (turns || (!std::isfinite(x.at[p]) && !std::isfinite(y.at[p]))) return Excuse::not_finite;
    // A matrix that is singular but for rounding: each noise takes away nearly all of its inverse's size, and the
    // inverse of one that is singular exactly is infinite or NaN.
    if (!std::isfinite(x.at[p]) && is_lost) return Excuse::not_finite;
    if (!std::isfinite(x.at[p]) || !std::isfinite(y.at[p])) return std::nullopt;
    if (std::abs(x.at[p] - y.at[p]) > tolerance * one + kMostDeviations * deviation) {
      if (spread <= 1e-2 * one) return std::nullopt;
      excuse = Excuse::ill_defined;
    }
  }
  return excuse;
}

std::string described(size_t tensor, size_t i, const Tensor& got, const Tensor& wanted,
                      const std::vector<Tensor>& noisy) {
  return with_element_type(got.dtype(), [&]<class T>() {
    std::ostringstream out;
    out.precision(17);
    out << "result " << tensor << " [" << i << "] of " << got.type() << " is " << load<T>(got, i) << " instead of "
        << load<T>(wanted, i) << "; with noise";
    for (size_t n = 0; n < std::min<size_t>(noisy.size(), 4); ++n) out << (n ? ", " : " ") << load<T>(noisy[n], i);
    return out.str();
  });
}

/// The dtypes that `relaxed` computes in f32. Narrower ones are stored, and rounded to, as they are.
bool is_computed_in_f32(DType t) { return t == f16 || t == bf16; }
/// The graph with f32 in place of f16 and bf16, which `relaxed` computes in f32 and need not round in between: what is
/// infinite, 0 or a tie there need not be so here. Nothing if it has none of them, or an op that takes no f32 instead.
std::optional<Graph> without_low_precision(const Graph& g) {
  const std::string text = graph_text(g);
  std::string wide;
  const auto is_word = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; };
  bool quoted = false, found = false;
  for (size_t i = 0; i < text.size();) {
    size_t end = i + 1;
    if (quoted) {
      if (text[i] == '\\' && end < text.size()) ++end;
    } else if (is_word(text[i])) {
      while (end < text.size() && is_word(text[end])) ++end;
    }
    if (text[i] == '"') quoted = !quoted;
    const std::string word = text.substr(i, end - i);
    const bool narrow = !quoted && (word == "f16" || word == "bf16");
    found |= narrow;
    wide += narrow ? "f32" : word;
    i = end;
  }
  if (!found) return std::nullopt;
  try {
    return parse_graph_text(wide);
  } catch (const Error&) {
    return std::nullopt;
  }
}
Tensor converted(const Tensor& t, DType dtype) {
  return t.dtype() == dtype ? t : run_op(op::convert, ConvertAttrs{dtype}, {&t, 1})[0];
}

}  // namespace

Compared compare_with_noise(const Judged& judged, Tensors got, Tensors wanted, Random& random) {
  Compared result;
  if (got.size() != wanted.size()) {
    result.why = text_of(got.size(), " results instead of ", wanted.size());
    return result;
  }
  std::vector<Mismatch> open;
  for (size_t t = 0; t < got.size(); ++t) {
    if (got[t].type() != wanted[t].type()) {
      result.why = text_of("result ", t, " is ", got[t].type(), " instead of ", wanted[t].type());
      return result;
    }
    result.elements += got[t].element_count();
    if (is_block(got[t].dtype())) {
      if (!(got[t] == wanted[t]))
        result.why = text_of("result ", t, " of type ", got[t].type(), " differs in its bytes");
      continue;
    }
    for (size_t i = 0; i < got[t].element_count(); ++i)
      if (!is_close(got[t], wanted[t], i)) open.push_back({t, i});
  }
  if (!result.why.empty()) return result;
  result.beyond_tolerance = open.size();

  const auto begin = Clock::now();
  const auto end = begin + std::chrono::seconds(4);
  std::vector<std::vector<Tensor>> noisy(got.size());
  constexpr size_t kLeastRuns = 12, kRounds[] = {4, kLeastRuns, 32, 128};
  const std::optional<Graph> wide =
      open.empty() || !judged.relaxed ? std::nullopt : without_low_precision(judged.graph);
  std::vector<Tensor> wide_inputs;
  std::map<std::string, Tensor> wide_params;
  if (wide) {
    const auto widened = [](const Tensor& t) { return is_computed_in_f32(t.dtype()) ? converted(t, f32) : t; };
    for (const Tensor& t : judged.inputs) wide_inputs.push_back(widened(t));
    for (const auto& [name, t] : judged.params) wide_params.emplace(name, widened(t));
  }
  for (size_t runs = 0; size_t until : kRounds) {
    if (open.empty()) break;
    std::set<size_t> doubtful;
    for (const Mismatch& m : open) doubtful.insert(m.tensor);
    for (; runs < until && (runs < kLeastRuns || Clock::now() < end); ++runs) {
      NoisyInterpreter interpreter(random.bits(), judged, end);
      std::vector<std::optional<Tensor>> outputs;
      try {
        outputs = wide && runs % 2 ? interpreter.run(*wide, wide_inputs, wide_params, doubtful)
                                   : interpreter.run(judged.graph, judged.inputs, judged.params, doubtful);
      } catch (const Error&) {
        continue;  // a loop that rounding lets run too long
      }
      for (size_t t : doubtful) {
        if (is_computed_in_f32(got[t].dtype())) outputs[t] = converted(*outputs[t], got[t].dtype());
        if (outputs[t]->type() == got[t].type()) noisy[t].push_back(*std::move(outputs[t]));
      }
    }
    std::erase_if(open, [&](Mismatch m) {
      const auto excuse = excuse_for(got[m.tensor], wanted[m.tensor], m.element, noisy[m.tensor]);
      if (excuse) ++result.excused[static_cast<size_t>(*excuse)];
      return excuse.has_value();
    });
  }
  if (!open.empty()) {
    const auto [t, i] = open.front();
    result.why = described(t, i, got[t], wanted[t], noisy[t]) +
                 (open.size() > 1 ? text_of(" (and ", open.size() - 1, " more)") : "");
  }
  return result;
}

}  // namespace rlx::attack

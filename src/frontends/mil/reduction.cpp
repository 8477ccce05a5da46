// Reductions, positions of extremes, running sums.
#include "frontends/mil/handlers.h"

namespace rlx::mlprogram {
namespace {

template <class F>
Results reduced(Call& op, F f) {
  Value x = op("x");
  Axes axes = op.integers("axes", axes_from(0, x.dims().size()));
  if (axes.empty()) axes = axes_from(0, x.dims().size());
  axes = valid_axes(axes, x.dims().size());
  return one(f(x, axes, op.flag("keep_dims", false)));
}
/// Roots, logarithms and means of integers are computed as floats and truncated, as NumPy and a cast have them.
template <class F>
Results reduced_as_floats(Call& op, F f) {
  return reduced(op, [&](Value x, const Axes& axes, bool keep) {
    if (is_float(x.dtype())) return f(x, axes, keep);
    return convert(f(convert(x, f32), axes, keep), x.dtype());
  });
}

Results extreme(Call& op, Value (*where)(Value, int64_t, bool)) {
  Value at = where(op("x"), op.integer("axis", -1), op.flag("keep_dims", false));
  return one(convert(at, dtype_of_word(op.word("output_dtype", "int32"))));
}

}  // namespace

MIL_OP(reduce_sum) {
  return reduced(op, [](Value x, const Axes& a, bool k) { return rlx::reduce_sum(x, a, k); });
}
MIL_OP(reduce_max) {
  return reduced(op, [](Value x, const Axes& a, bool k) { return rlx::reduce_max(x, a, k); });
}
MIL_OP(reduce_min) {
  return reduced(op, [](Value x, const Axes& a, bool k) { return rlx::reduce_min(x, a, k); });
}
MIL_OP(reduce_prod) {
  return reduced(op, [](Value x, const Axes& a, bool k) { return rlx::reduce_prod(x, a, k); });
}
MIL_OP(reduce_sum_square) {
  return reduced(op, [](Value x, const Axes& a, bool k) { return rlx::reduce_sum(rlx::square(x), a, k); });
}
MIL_OP(reduce_l1_norm) {
  return reduced(op, [](Value x, const Axes& a, bool k) { return rlx::reduce_sum(rlx::abs(x), a, k); });
}
MIL_OP(reduce_l2_norm) {
  return reduced_as_floats(op, [](Value x, const Axes& a, bool k) { return norm(x, NormKind::l2, a, k); });
}
MIL_OP(reduce_mean) {
  return reduced_as_floats(op, [](Value x, const Axes& a, bool k) { return mean(x, a, k); });
}
MIL_OP(reduce_log_sum) {
  return reduced_as_floats(op, [](Value x, const Axes& a, bool k) { return rlx::log(rlx::reduce_sum(x, a, k)); });
}
MIL_OP(reduce_log_sum_exp) {
  return reduced_as_floats(op, [](Value x, const Axes& a, bool k) { return logsumexp(x, a, k); });
}
MIL_OP(reduce_argmax) {
  return extreme(op, [](Value x, int64_t axis, bool keep) { return argmax(x, axis, keep); });
}
MIL_OP(reduce_argmin) {
  return extreme(op, [](Value x, int64_t axis, bool keep) { return argmin(x, axis, keep); });
}
MIL_OP(cumsum) {
  return one(rlx::cumsum(op("x"), op.integer("axis", 0), op.flag("exclusive", false), op.flag("reverse", false)));
}

}  // namespace rlx::mlprogram

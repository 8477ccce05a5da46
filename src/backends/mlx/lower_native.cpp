// Composites for which MLX has one operation with the same meaning. The rest are composed.
#include <mlx/fast.h>
#include <mlx/fft.h>
#include <mlx/random.h>

#include <cmath>
#include <limits>

#include "backends/mlx/lowerings.h"
#include "backends/mlx/packed_weights.h"
#include "ops/nn/heads.h"
#include "rlx/ops.h"

namespace rlx::mlx_backend {
namespace {

constexpr int64_t kLongRow = 2048;

int axis_of(int64_t axis, const Type& type) { return static_cast<int>(valid_axis(axis, type.rank())); }
/// Along the last axis of a matrix, which stays as an extent of 1.
mx::array mean_of(const mx::array& x, mx::Stream s) {
  return mx::multiply(summed(x, {1}, s), number(1.0 / x.shape(1), f32), s);
}

}  // namespace

namespace when {
std::optional<std::string> can_normalize(const Question& q) {
  for (const Type& t : q.operands)
    if (t.dtype != q.operands[0].dtype) return "MLX has it for operands of one dtype";
  return is_narrow_float(q);
}
std::optional<std::string> can_transform(const Question& q) {
  const DType t = q.operands[0].dtype;
  if (t != f32 && t != c64) return text_of("MLX transforms no ", t);
  return std::nullopt;
}
std::optional<std::string> is_cumulated(const Question& q) {
  if (q.operands[0].rank() == 0) return "MLX has it along an axis only";
  return is_real(q);
}
std::optional<std::string> can_attend(const Question& q) {
  const auto& a = q.node.attrs.as<AttentionAttrs>();
  for (size_t i = 0; i < 3; ++i)
    if (q.operands[i].dtype != q.operands[0].dtype) return "MLX has it for operands of one dtype";
  if (a.softcap) return "MLX caps no scores";
  return is_narrow_float(q);
}
std::optional<std::string> can_multiply_packed(const Question& q) {
  std::string why;
  if (!packed_form(q, &why)) return why;
  for (size_t i : weight_operands(q.node))
    if (q.is_weight && !q.is_weight(i)) return "MLX's form of the weights is made once, of params and constants";
  return std::nullopt;
}
std::optional<std::string> can_draw(const Question& q) {
  const auto& a = q.node.attrs.as<RngBitsAttrs>();
  if (a.algorithm != RngAlgorithm::threefry_original) return "MLX draws as threefry_original does";
  if (a.dtype == u64) return "MLX draws words of 8, 16 and 32 bits";
  if (q.operands[0].rank() != 1) return "MLX draws for one key at a time";
  return std::nullopt;
}
}  // namespace when

namespace {

/// Which matrix of a stack each row is multiplied with. Where there is none such it is the first, and `none` is true.
struct Choice {
  mx::array index, none;
  Choice(Lowering& l, int count) : index(mx::astype(l.in[2], mx::int64, l.s)), none(index) {
    none =
        mx::logical_or(mx::less(index, integer(0, i64), l.s), mx::greater_equal(index, integer(count, i64), l.s), l.s);
    index = mx::astype(mx::where(none, integer(0, i64), index, l.s), mx::uint32, l.s);
  }
  /// y[m, 1, n] as the result: NaN where there is no matrix.
  Lowered result(Lowering& l, const mx::array& y) const {
    const mx::array rows = mx::reshape(none, {static_cast<int>(none.size()), 1}, l.s);
    return {narrowed(l, mx::where(rows, number(NAN, f32), mx::reshape(y, l.shape(), l.s), l.s))};
  }
};
/// x[m, k] as m matrices of one row.
mx::array rows_of(Lowering& l) {
  const mx::array x = wide(l, 0);
  return mx::expand_dims(x, 1, l.s);
}

}  // namespace

Lowered lower_grouped_product(Lowering& l) {
  const int experts = l.in[1].shape(0);
  if (experts == 0) return {mx::full(l.shape(), number(NAN, l.result().dtype), l.dtype(), l.s)};
  const Choice chosen(l, experts);
  if (l.in[0].shape(1) == 0) return chosen.result(l, mx::zeros(l.shape(), mx::float32, l.s));
  return chosen.result(l, mx::gather_mm(rows_of(l), wide(l, 1), std::nullopt, chosen.index, false, l.s));
}

/// Rows in the order of their segments, those of none behind all others, where no segment reaches.
Lowered lower_segment_product(Lowering& l) {
  if (l.in[0].size() == 0) return {mx::zeros(l.shape(), l.dtype(), l.s)};
  const int segments = l.shape()[0];
  const mx::array given = mx::astype(l.in[2], mx::int64, l.s), end = integer(segments, i64);
  const mx::array none = mx::logical_or(mx::less(given, integer(0, i64), l.s), mx::greater_equal(given, end, l.s), l.s);
  const mx::array index = mx::where(none, end, given, l.s), rows = mx::argsort(index, 0, l.s);
  // How many rows stand before each segment, and before the end of each.
  const mx::array each = mx::arange(0, segments, mx::int64, l.s), of_row = mx::expand_dims(index, 1, l.s);
  const auto count = [&](const mx::array& is_before) {
    return mx::astype(mx::sum(is_before, 0, false, l.s), mx::uint32, l.s);
  };
  const mx::array bounds =
      mx::stack({count(mx::less(of_row, each, l.s)), count(mx::less_equal(of_row, each, l.s))}, 1, l.s);
  const auto ordered = [&](size_t i) { return mx::take(wide(l, i), rows, 0, l.s); };
  return {narrowed(l, mx::segmented_mm(mx::transpose(ordered(0), l.s), ordered(1), bounds, l.s))};
}

Lowered lower_packed_grouped_product(Lowering& l) {
  const PackedForm form = packed_form({l.node, l.types}).value();
  const Choice chosen(l, l.packed[0].shape(0));
  std::optional<mx::array> biases;
  if (l.packed.size() > 2) biases = l.packed[2];
  mx::array y = mx::gather_qmm(rows_of(l), l.packed[0], l.packed[1], biases, std::nullopt, chosen.index, true,
                               form.group, form.bits, form.mode, std::nullopt, false, l.s);
  if (l.attrs<DequantGroupedMatmulAttrs>().has_global)
    y = mx::multiply(y, mx::astype(l.in.back(), mx::float32, l.s), l.s);
  return chosen.result(l, y);
}

/// MLX's generator is Threefry, with the counters of RngAlgorithm::threefry_original.
Lowered lower_random_bits(Lowering& l) {
  return {mx::random::bits(l.shape(), static_cast<int>(byte_size(l.result().dtype)), l.in[0], l.s)};
}

Lowered lower_packed_product(Lowering& l) {
  const auto& a = l.attrs<DequantMatmulAttrs>();
  const PackedForm form = packed_form({l.node, l.types}).value();
  const int64_t k = l.types[0].dims.back().value();
  const int rows = static_cast<int>(l.in[0].size() / static_cast<size_t>(k));
  std::optional<mx::array> biases;
  if (l.packed.size() > 2) biases = l.packed[2];
  mx::array y = mx::quantized_matmul(mx::reshape(wide(l, 0), {rows, extent_of(k)}, l.s), l.packed[0], l.packed[1],
                                     biases, true, form.group, form.bits, form.mode, l.s);
  if (a.has_global) y = mx::multiply(y, mx::astype(l.in.back(), mx::float32, l.s), l.s);
  return {narrowed(l, mx::reshape(y, l.shape(), l.s))};
}

Lowered lower_softmax(Lowering& l) {
  return {narrowed(l, mx::softmax(wide(l, 0), axis_of(l.attrs<AxisAttrs>().axis, l.types[0]), true, l.s))};
}
Lowered lower_logsumexp(Lowering& l) {
  const auto& a = l.attrs<ReduceDimsAttrs>();
  const std::vector<int> axes = ints(valid_axes(a.axes, l.types[0].rank()));
  if (l.in[0].size() == 0)
    return {mx::full(l.shape(), number(-std::numeric_limits<double>::infinity(), l.result().dtype), l.dtype(), l.s)};
  if (axes.empty()) return {l.in[0]};
  return {narrowed(l, mx::logsumexp(wide(l, 0), axes, a.keep_dims, l.s))};
}

/// The dims from `axis` on as one, and back.
Lowered lower_norm(Lowering& l) {
  const auto& a = l.attrs<LayerNormAttrs>();
  int64_t n = 1;
  for (size_t d = static_cast<size_t>(axis_of(a.axis, l.types[0])); d < l.types[0].rank(); ++d)
    n *= l.types[0].dims[d].value();
  mx::array x = mx::reshape(wide(l, 0), {-1, extent_of(n)}, l.s);
  std::optional<mx::array> gamma, beta;
  size_t next = 1;
  if (a.has_gamma) gamma = mx::reshape(wide(l, next++), {-1}, l.s);
  if (a.has_beta) beta = mx::reshape(wide(l, next++), {-1}, l.s);
  const auto epsilon = static_cast<float>(a.epsilon);
  // A mean far from zero, taken off once, leaves the error of its rounding in each element; MLX takes off that.
  if (l.node.op == &op::layer_norm) x = mx::subtract(x, mean_of(x, l.s), l.s);
  if (n > kLongRow && is_on_cpu(l.s)) {  // MLX's own sum of squares is of one element after another
    if (l.node.op == &op::layer_norm) x = mx::subtract(x, mean_of(x, l.s), l.s);
    const mx::array spread = mx::add(mean_of(mx::square(x, l.s), l.s), number(epsilon, f32), l.s);
    mx::array y = mx::multiply(x, mx::rsqrt(spread, l.s), l.s);
    if (gamma) y = mx::multiply(y, *gamma, l.s);
    if (beta) y = mx::add(y, *beta, l.s);
    return {narrowed(l, mx::reshape(y, l.shape(), l.s))};
  }
  mx::array y = l.node.op == &op::layer_norm ? mx::fast::layer_norm(x, gamma, beta, epsilon, l.s)
                                             : mx::fast::rms_norm(x, gamma, epsilon, l.s);
  if (l.node.op == &op::rms_norm && beta) y = mx::add(y, *beta, l.s);
  return {narrowed(l, mx::reshape(y, l.shape(), l.s))};
}

Lowered lower_fft(Lowering& l) {
  const auto& a = l.attrs<FftAttrs>();
  const std::vector<int> axes = ints(valid_axes(a.axes, l.types[0].rank()));
  const auto norm = a.norm == FftNorm::backward  ? mx::fft::FFTNorm::Backward
                    : a.norm == FftNorm::forward ? mx::fft::FFTNorm::Forward
                                                 : mx::fft::FFTNorm::Ortho;
  const mx::Shape to = l.shape();
  mx::Shape n;
  for (int axis : axes) n.push_back(a.kind == FftKind::irfft ? to[static_cast<size_t>(axis)] : l.in[0].shape(axis));
  mx::array y = a.kind == FftKind::fft    ? mx::fft::fftn(l.in[0], n, axes, norm, l.s)
                : a.kind == FftKind::ifft ? mx::fft::ifftn(l.in[0], n, axes, norm, l.s)
                : a.kind == FftKind::rfft ? mx::fft::rfftn(l.in[0], n, axes, norm, l.s)
                                          : mx::fft::irfftn(l.in[0], n, axes, norm, l.s);
  return {narrowed(l, y)};
}

Lowered lower_cumulated(Lowering& l) {
  const auto& a = l.attrs<CumulateAttrs>();
  const int axis = axis_of(a.axis, l.types[0]);
  const mx::array x = wide(l, 0);
  if (l.node.op == &op::cumsum) return {narrowed(l, mx::cumsum(x, axis, a.reverse, !a.exclusive, l.s))};
  if (l.node.op == &op::cumprod) return {narrowed(l, mx::cumprod(x, axis, a.reverse, !a.exclusive, l.s))};
  return {narrowed(l, mx::cummax(x, axis, a.reverse, !a.exclusive, l.s))};
}

/// MLX passes over NaN; here the first one is the answer.
Lowered lower_argmax(Lowering& l) {
  const auto& a = l.attrs<ArgReduceAttrs>();
  const int axis = axis_of(a.axis, l.types[0]);
  const mx::array x = wide(l, 0);
  mx::array at =
      l.node.op == &op::argmax ? mx::argmax(x, axis, a.keep_dims, l.s) : mx::argmin(x, axis, a.keep_dims, l.s);
  if (is_float(l.types[0].dtype)) {
    const mx::array odd = mx::isnan(x, l.s);
    at = mx::where(mx::any(odd, axis, a.keep_dims, l.s),
                   mx::argmax(mx::astype(odd, mx::int32, l.s), axis, a.keep_dims, l.s), at, l.s);
  }
  return {narrowed(l, at)};
}

/// What a query sees is told as one mask, where "causal" alone does not tell it; a query that sees nothing gives zeros.
Lowered lower_attention(Lowering& l) {
  const auto& a = l.attrs<AttentionAttrs>();
  const int64_t kv_heads = a.kv_heads.value_or(a.heads);
  const auto heads_first = [&](size_t i, int64_t heads) {  // [B, H, S, D]
    const HeadDims d(l.types[i], a.layout, heads, "operand");
    const int b = extent_of(d.batch.value()), s = extent_of(d.length.value()), h = extent_of(heads),
              w = extent_of(d.width.value());
    const mx::array x = wide(l, i);
    if (a.layout == AttentionLayout::bhsd) return mx::reshape(x, {b, h, s, w}, l.s);
    return mx::transpose(mx::reshape(x, {b, s, h, w}, l.s), {0, 2, 1, 3}, l.s);
  };
  const mx::array q = heads_first(0, a.heads), k = heads_first(1, kv_heads), v = heads_first(2, kv_heads);
  const int queries = q.shape(2), keys = k.shape(2), batch = q.shape(0);
  const double scale = a.scale.value_or(1 / std::sqrt(static_cast<double>(q.shape(3))));
  std::optional<mx::array> visible, bias;  // each broadcasts to [B, H, Sq, Sk]
  const auto both = [&](const mx::array& more) { visible = visible ? mx::logical_and(*visible, more, l.s) : more; };
  const bool simple = a.causal && !a.window && a.mask == AttentionMask::none && queries <= keys;
  if ((a.causal || a.window) && !simple) {
    const mx::array p = mx::reshape(mx::arange(keys - queries, keys, mx::int32, l.s), {queries, 1}, l.s);
    const mx::array at = mx::reshape(mx::arange(0, keys, mx::int32, l.s), {1, keys}, l.s);
    const mx::array ahead = mx::subtract(at, p, l.s);
    if (a.causal) both(mx::less_equal(ahead, mx::array(0), l.s));
    if (a.window) {
      const mx::array most(static_cast<int>(std::min<int64_t>(*a.window, std::numeric_limits<int>::max())));
      both(mx::less_equal(mx::abs(ahead, l.s), most, l.s));
    }
  }
  if (a.mask == AttentionMask::key_padding) {
    const mx::array keeps = l.types[3].dtype == boolean
                                ? l.in[3]
                                : mx::greater_equal(mx::astype(l.in[3], mx::float32, l.s), number(0.5, f32), l.s);
    const int rows = static_cast<int>(keeps.size()) / std::max(1, keys);
    both(mx::reshape(keeps, {rows == batch ? batch : 1, 1, 1, keys}, l.s));
  }
  if (a.mask == AttentionMask::bias) {
    mx::Shape padded = l.in[3].shape();
    padded.insert(padded.begin(), 4 - padded.size(), 1);
    bias = mx::reshape(mx::astype(l.in[3], q.dtype(), l.s), padded, l.s);
    const mx::array sees =
        mx::greater(*bias, number(-std::numeric_limits<double>::infinity(), wide_dtype(l.types[0].dtype)), l.s);
    if (visible)
      bias = mx::where(*visible, *bias, number(-std::numeric_limits<double>::infinity(), wide_dtype(l.types[0].dtype)),
                       l.s);
    both(sees);
  }
  mx::array y = mx::fast::scaled_dot_product_attention(q, k, v, static_cast<float>(scale), simple ? "causal" : "",
                                                       simple ? std::nullopt
                                                       : bias ? bias
                                                              : visible,
                                                       {}, false, l.s);
  if (visible) {
    const mx::array any = mx::any(*visible, -1, true, l.s);
    y = mx::where(any, y, mx::zeros({}, y.dtype(), l.s), l.s);
  }
  if (a.layout != AttentionLayout::bhsd) y = mx::transpose(y, {0, 2, 1, 3}, l.s);
  return {narrowed(l, mx::reshape(y, l.shape(), l.s))};
}

}  // namespace rlx::mlx_backend

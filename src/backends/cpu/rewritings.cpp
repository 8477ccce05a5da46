// See the header. Each rewriting was measured to be faster than the op's decomposition: attention 2.8 to 8.1 times,
// logsumexp 1.2 to 4.4 times, a network of qconv2d 3 times, a max pool of bf16 7 times. A softmax or an
// l2_normalize along another axis than the last is not rewritten: its decomposition consists of element-wise ops and
// reductions, which run along any axis, and two transposes would cost more.
#include "backends/cpu/rewritings.h"

#include "backends/cpu/lowering.h"
#include "ops/quant/requantized.h"
#include "rlx/ops.h"

namespace rlx::cpu {
namespace {

// ---- attention ----
/// Whether the kernel supports q, k and v, but not the mask's dtype.
bool has_foreign_mask(const Question& q) {
  if (!when::is_float({q.node, q.operands.first(3)}).empty() || q.operands.size() < 4) return false;
  DType t = q.operands[0].dtype, mask = q.operands[3].dtype;
  return q.operands[1].dtype == t && q.operands[2].dtype == t && mask != t && mask != f32;
}
std::vector<Value> with_mask_that_is_read(Graph&, Values in, const Attrs& attrs) {
  const auto& a = attrs.as<AttentionAttrs>();
  Value mask = in[3];
  // A key is kept if its mask is at least 0.5. Rounded to f32, a slightly smaller f64 would become 0.5, so f64 masks
  // are compared in f64.
  if (a.mask == AttentionMask::key_padding && mask.dtype() == f64)
    mask = compare(mask, full_like(mask, 0.5), Comparison::ge);
  else mask = convert(mask, f32);
  return {attention(in[0], in[1], in[2], mask, a)};
}

// ---- reductions ----
/// Whether there are several axes, and they are the last ones.
bool has_trailing_axes(const Question& q) {
  const Type& x = q.operands[0];
  if (!when::is_float(q).empty()) return false;
  Axes axes = valid_axes(q.node.attrs.as<ReduceDimsAttrs>().axes, x.rank());
  std::sort(axes.begin(), axes.end());
  return axes.size() > 1 && axes == axes_from(int64_t(x.rank() - axes.size()), axes.size());
}
std::vector<Value> over_one_axis(Graph&, Values in, const Attrs& attrs) {
  const auto& a = attrs.as<ReduceDimsAttrs>();
  const Dims& dims = in[0].dims();
  auto kept = std::ptrdiff_t(dims.size() - a.axes.size());
  Dims merged(dims.begin(), dims.begin() + kept), result = merged;
  merged.push_back(element_count(Dims(dims.begin() + kept, dims.end())));
  if (a.keep_dims) result.resize(dims.size(), Dim(1));
  return {reshape(logsumexp(reshape(in[0], merged), {-1}), result)};
}

// ---- convolutions of quantized values ----
/// The largest distance of a quantized value of i8 or u8 from the zero point.
double max_distance(DType t, int64_t zero_point) {
  const double lowest = t == i8 ? -128 : 0, zero = static_cast<double>(zero_point);
  return std::max(std::abs(lowest - zero), std::abs(lowest + 255 - zero));
}
/// Whether no sum reaches 2^24, so that f32 sums of integers are exact, in any order.
bool has_exact_sums(const Question& q) {
  const auto& a = q.node.attrs.as<QConv2dAttrs>();
  const Type &x = q.operands[0], &w = q.operands[1];
  double max_sum = max_distance(x.dtype, a.x_zero_point) * max_distance(w.dtype, a.w_zero_point);
  for (size_t d = 1; d < w.dims.size(); ++d) {
    if (!w.dims[d].is_static()) return false;
    max_sum *= static_cast<double>(w.dims[d].value());
  }
  return max_sum < 0x1p24;
}
std::vector<Value> convolved_in_floats(Graph&, Values in, const Attrs& attrs) {
  const auto& a = attrs.as<QConv2dAttrs>();
  auto centered = [](Value quantized, int64_t zero_point) {
    Value wide = convert(quantized, f32);
    return zero_point == 0 ? wide : wide - static_cast<double>(zero_point);
  };
  Value sums = conv(centered(in[0], a.x_zero_point), centered(in[1], a.w_zero_point),
                    ConvNdAttrs{a.stride, a.padding, a.dilation, a.groups});
  Value acc = convert(sums, i32) + broadcast_in_dim(in[2], sums.dims(), {1});
  return {requantized(acc, Requantization(in, a, 1))};
}

// ---- pools ----
/// Whether it chooses among numbers of 16 bits, which its decomposition would widen and round again. Windows of 2 x 2
/// side by side have a kernel of f32 (kernels/reduce/pool_2x2.h) that gains more than widening costs: of planes of
/// 112 x 112 they took 0.66 ms widened and 1.4 as they are.
bool chooses_narrow(const Question& q) {
  const auto& a = q.node.attrs.as<PoolAttrs>();
  const DType t = q.operands[0].dtype;
  const bool is_2x2 = a.kernel_size == Dims{2, 2} && (a.stride.empty() || a.stride == Axes{2, 2});
  return (a.kind == PoolKind::max || a.kind == PoolKind::min) && (t == f16 || t == bf16) && !is_2x2;
}
std::vector<Value> chosen_as_they_are(Graph& g, Values in, const Attrs& attrs) {
  return op::pool.decompose(g, in, attrs);
}

const Rewriting kRewritings[] = {
    // op             applies              build                  what
    {&op::attention, has_foreign_mask, with_mask_that_is_read, "its mask is converted"},
    {&op::qconv2d, has_exact_sums, convolved_in_floats, "its sums are exact in f32"},
    {&op::pool, chooses_narrow, chosen_as_they_are, "it chooses among its numbers as they are"},
    {&op::logsumexp, has_trailing_axes, over_one_axis, "its axes are merged to one"},
};

}  // namespace

std::span<const Rewriting> rewritings() { return kRewritings; }

}  // namespace rlx::cpu

// Dims that are no numbers: which lowerings write what is right for every size. They are those that hand shapes on, or
// compute them by Emitter::sizes; the others lay tables out for one size.
#include <set>

#include "backends/coreml/coreml.h"
#include "backends/coreml/lowerings.h"
#include "ops/window_geometry.h"
#include "rlx/ops.h"

namespace rlx::coreml {

bool is_gather_of_rows(const Question& q);

namespace {

bool has_symbols(const Type& t) { return !is_static(t.dims); }

/// Those that ask nothing about dims.
bool takes_any_dims(Lowered (*lower)(Lowering&)) {
  static const std::set<Lowered (*)(Lowering&)> kAll = {
      lower_unary,       lower_gelu,        lower_neg,     lower_round_afz, lower_expm1,      lower_log,
      lower_log1p,       lower_rsqrt,       lower_cbrt,    lower_is_finite, lower_arithmetic, lower_logical,
      lower_integer_pow, lower_div,         lower_rem,     lower_atan2,     lower_fma,        lower_not,
      lower_compare,     lower_select,      lower_convert, lower_same,      lower_broadcast,  lower_reshape,
      lower_transpose,   lower_concatenate, lower_reverse, lower_iota,      lower_extent,     lower_reduce,
      lower_mean,        lower_argmax,      lower_cumsum,  lower_dot,       lower_matmul,     lower_softmax,
      lower_layer_norm,  lower_sort,        lower_pool};
  return kAll.contains(lower);
}

std::optional<std::string> slice_cannot(const Question& q) {
  const auto& a = q.node.attrs.as<SliceAttrs>();
  for (size_t d = 0; d < a.strides.size(); ++d)
    if (a.strides[d] != 1 && !(a.starts[d].is_static() && a.limits[d].is_static()))
      return "steps along a dim that is no number";
  return std::nullopt;
}
std::optional<std::string> pad_cannot(const Question& q) {
  const auto& a = q.node.attrs.as<PadAttrs>();
  if (!is_static(a.low) || !is_static(a.high)) return "padding that is no number";
  if (std::any_of(a.interior.begin(), a.interior.end(), [](int64_t gap) { return gap != 0; }))
    return "gaps between elements";
  return std::nullopt;
}
std::optional<std::string> convolution_cannot(const Question& q) {
  const auto& a = q.node.attrs.as<ConvAttrs>();
  ConvLayout layout(a, q.operands);
  Sliding s = layout.sliding(a, q.operands);
  if (!rlx::is_float(q.operands[0].dtype)) return "a convolution of integers";
  if (a.batch_group_count != 1 || has_symbols(q.operands[1])) return "weights or groups that depend on them";
  if (!q.operands[0].dims[static_cast<size_t>(layout.lhs[1])].is_static()) return "features that are no number";
  for (size_t d = 0; d < s.base.size(); ++d) {
    bool open = !q.operands[0].dims[static_cast<size_t>(layout.lhs[d + 2])].is_static();
    if (s.base[d] != 1 && has_symbols(q.operands[0])) return "gaps between elements";
    if (open && (!s.low[d].is_static() || !s.high[d].is_static())) return "padding along a dim that is no number";
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::string> cannot_be_open(const Row& row, const Question& q) {
  bool open = std::any_of(q.operands.begin(), q.operands.end(), has_symbols) ||
              std::any_of(q.node.types.begin(), q.node.types.end(), has_symbols) ||
              (q.node.op == &op::extent && !q.node.attrs.as<ExtentAttrs>().dim.is_static());
  if (!open || takes_any_dims(row.lower)) return std::nullopt;
  std::optional<std::string> why;
  if (row.lower == lower_slice) why = slice_cannot(q);
  else if (row.lower == lower_pad) why = pad_cannot(q);
  else if (row.lower == lower_convolution) why = convolution_cannot(q);
  else if (row.lower == lower_gather) why = is_gather_of_rows(q) ? why : "places other than whole rows of a table";
  else if (row.lower == lower_attention)
    why = q.operands[0].dims.back().is_static() ? why : "a width that is no number";
  else why = "tables that are laid out for one size";
  if (why) *why = text_of("it has dims that are no numbers, and needs ", *why, "; give its symbols numbers");
  return why;
}

}  // namespace rlx::coreml

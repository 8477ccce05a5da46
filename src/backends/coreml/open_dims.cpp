// Dims that are no numbers: lowerings hand shapes on, or compute them by Emitter::sizes, so what they write is right
// for every size. Here stand the few that cannot, with the reason.
#include "backends/coreml/coreml.h"
#include "backends/coreml/lowerings.h"
#include "ops/window_geometry.h"
#include "rlx/ops.h"

namespace rlx::coreml {
namespace {

bool has_symbols(const Type& t) { return !is_static(t.dims); }

std::optional<std::string> slice_cannot(const Question& q) {
  const auto& a = q.node.attrs.as<SliceAttrs>();
  for (size_t d = 0; d < a.strides.size(); ++d)
    if (a.strides[d] != 1 && !(a.starts[d].is_static() && a.limits[d].is_static()))
      return "the ends of a slice with steps";
  return std::nullopt;
}
std::optional<std::string> pad_cannot(const Question& q) {
  const auto& a = q.node.attrs.as<PadAttrs>();
  if (!is_static(a.low) || !is_static(a.high)) return "the extents of padding";
  return std::nullopt;
}
std::optional<std::string> convolution_cannot(const Question& q) {
  const auto& a = q.node.attrs.as<ConvAttrs>();
  ConvLayout layout(a, q.operands);
  Sliding s = layout.sliding(a, q.operands);
  bool floats = rlx::is_float(q.operands[0].dtype);
  if (!q.operands[0].dims[static_cast<size_t>(layout.lhs[1])].is_static()) return "the features of a convolution";
  if (has_symbols(q.operands[1]) && floats) return "the dims of a convolution's weights";
  for (size_t d = 0; d < s.base.size(); ++d)
    if (floats && (!s.low[d].is_static() || !s.high[d].is_static())) return "the padding of a convolution";
  return std::nullopt;
}

}  // namespace

std::optional<std::string> cannot_be_open(const Row& row, const Question& q) {
  bool open = std::any_of(q.operands.begin(), q.operands.end(), has_symbols) ||
              std::any_of(q.node.types.begin(), q.node.types.end(), has_symbols);
  if (!open) return std::nullopt;
  std::optional<std::string> why;
  if (row.lower == lower_slice) why = slice_cannot(q);
  else if (row.lower == lower_pad) why = pad_cannot(q);
  else if (row.lower == lower_convolution) why = convolution_cannot(q);
  else if (row.lower == lower_attention && !q.operands[0].dims.back().is_static()) why = "the width of its keys";
  if (why) *why = text_of("in an ML Program ", *why, " must be numbers, and here are symbols; give them numbers");
  return why;
}

}  // namespace rlx::coreml

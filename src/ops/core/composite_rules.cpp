// Checks and means of the composite families; see the header.
#include "ops/core/composite_rules.h"

#include "rlx/ops/shape.h"

namespace rlx {

DType require_dtype(Types in, unsigned kinds) {
  require_kind(in[0], kinds);
  for (const Type& t : in)
    if (t.dtype != in[0].dtype)
      fail(ErrorCode::shape_mismatch, "operands must have one dtype, got ", in[0], " and ", t, "; convert one of them");
  return in[0].dtype;
}
void require_accumulator(DType operands, DType result) {
  bool wider =
      kind_of(result) == kind_of(operands) && has_arithmetic(result) && info(result).bits > info(operands).bits;
  if (result != operands && !wider)
    fail(ErrorCode::invalid_argument, "products of ", operands, " cannot be accumulated in ", result,
         "; leave `accumulate` out, or name a wider dtype of their kind");
}
void require_dims(const Type& t, const Dims& dims, std::string_view name) {
  if (t.dims != dims) fail(ErrorCode::shape_mismatch, name, " must be ", Type{t.dtype, dims}, ", got ", t);
}
void require_rank(const Type& t, size_t least, size_t most, std::string_view name) {
  if (t.rank() >= least && t.rank() <= most) return;
  std::string wanted = least == most      ? text_of(least)
                       : most == SIZE_MAX ? text_of("at least ", least)
                                          : text_of(least, " to ", most);
  fail(ErrorCode::shape_mismatch, name, " must be of rank ", wanted, ", got ", t);
}
void require_operands(size_t got, size_t wanted, std::string_view why) {
  if (got != wanted) fail(ErrorCode::invalid_argument, why, " calls for ", wanted, " operands, got ", got);
}
std::string flag_text(std::string_view name, bool value) { return text_of(name, " = ", value ? "true" : "false"); }
void require_broadcasts(const Type& x, const Dims& dims, std::string_view name) {
  bool fits = x.rank() <= dims.size();
  for (size_t i = 0; fits && i < x.rank(); ++i)
    fits = x.dims[i] == Dim(1) || x.dims[i] == dims[dims.size() - x.rank() + i];
  if (!fits) fail(ErrorCode::shape_mismatch, name, " must broadcast to ", Type{x.dtype, dims}, ", got ", x);
}

std::vector<std::vector<size_t>> lanes_of(const Shape& shape, const Axes& axes) {
  Axes kept = other_axes(shape.size(), axes);
  Shape lanes = pick(shape, kept);
  std::vector<std::vector<size_t>> positions(static_cast<size_t>(element_count(lanes)));
  for_each_index(shape,
                 [&](const Axes& i) { positions[offset_of(lanes, pick(i, kept))].push_back(offset_of(shape, i)); });
  return positions;
}

Value count_over(Value x, const Axes& axes) {
  return extent(x.graph(), element_count(pick(x.dims(), axes)), x.dtype());
}
Value mean_over(Value x, const Axes& axes) { return reduce_sum(x, axes) / count_over(x, axes); }
Value centered(Value x, const Axes& axes) { return x - broadcast_like(mean_over(x, axes), x, axes); }
Value summed_to(Value ct, const Dims& dims) {
  size_t rank = ct.dims().size(), more = rank - dims.size();
  Axes repeated = axes_from(0, more);
  for (size_t d = more; d < rank; ++d)
    if (dims[d - more] == Dim(1) && ct.dims()[d] != Dim(1)) repeated.push_back(int64_t(d));
  return reshape(repeated.empty() ? ct : reduce_sum(ct, repeated), dims);
}
Dims reduced_dims(const Dims& dims, const Axes& axes, bool keep_dims) {
  if (!keep_dims) return pick(dims, other_axes(dims.size(), axes));
  Dims kept = dims;
  for (int64_t axis : axes) kept[static_cast<size_t>(axis)] = 1;
  return kept;
}

}  // namespace rlx

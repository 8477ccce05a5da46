// What follows from a target's data; see the header.
#include "passes/target.h"

#include <algorithm>

namespace rlx {

std::optional<std::string> Limits::refusal(const Type& type) const {
  if (std::find(absent_dtypes.begin(), absent_dtypes.end(), type.dtype) != absent_dtypes.end())
    return text_of("there is no ", type.dtype);
  if (!is_static(type.dims)) return std::nullopt;
  const Shape shape = shape_of(type.dims);
  const size_t bytes = byte_count(type.dtype, shape);
  if (largest_buffer && bytes > largest_buffer)
    return text_of(type, " takes ", bytes, " bytes, and a buffer may have ", largest_buffer);
  if (index_bits < 64 && element_count(shape) > (int64_t{1} << (index_bits - 1)) - 1)
    return text_of(type, " has more elements than an index of ", index_bits, " bits can count");
  return std::nullopt;
}

std::optional<std::string> Target::refuses(const Question& q) const {
  const size_t buffers = q.operands.size() + q.node.types.size();
  if (limits.buffers_per_launch && buffers > limits.buffers_per_launch)
    return text_of(buffers, " operands and results, and a launch may have ", limits.buffers_per_launch, " buffers");
  for (const Types types : {q.operands, Types(q.node.types)})
    for (const Type& type : types)
      if (auto why = limits.refusal(type)) return why;
  return refusal(q);
}

}  // namespace rlx

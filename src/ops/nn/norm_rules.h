// What norms and their backward ops share: operands that may be left out, and the axes they normalize. Neighbours:
// norm.cpp, backward_norm.cpp.
#pragma once

#include "ops/core/composite_rules.h"
#include "rlx/ops/shape.h"

namespace rlx {

/// Those of the values that are there.
inline std::vector<Value> given(std::initializer_list<Value> values) {
  std::vector<Value> all;
  for (const Value& v : values)
    if (v) all.push_back(v);
  return all;
}
/// `axis` and all behind it.
inline Axes trailing_axes(int64_t axis, size_t rank) {
  int64_t first = valid_axis(axis, rank);
  return axes_from(first, rank - static_cast<size_t>(first));
}
/// x[n, c, ...] as [n, groups, c / groups, ...], whose axes from 2 on are normalized.
inline Dims grouped_dims(const Type& x, int64_t groups) {
  require_rank(x, 2, SIZE_MAX, "x");
  const Dim& channels = x.dims[1];
  if (groups < 1 || (channels.is_static() && channels.value() % groups != 0))
    fail(ErrorCode::invalid_argument, channels, " channels of ", x, " do not divide into ", groups, " groups");
  Dims dims = {x.dims[0], groups, channels / groups};
  dims.insert(dims.end(), x.dims.begin() + 2, x.dims.end());
  return dims;
}

}  // namespace rlx

// Operands that hold heads, in any layout: what attention and the rotary positions share.
#pragma once

#include "rlx/ops/attention.h"

namespace rlx {

struct HeadDims {
  AttentionLayout layout;
  Dim batch, length;
  int64_t heads;
  Dim width;

  /// `t` read in that layout; fails, calling it `name`, if it does not have that rank or so many heads.
  HeadDims(const Type& t, AttentionLayout layout, int64_t heads, std::string_view name);
  /// Row-major position of an element; all dims are known.
  size_t at(int64_t b, int64_t s, int64_t h, int64_t d) const;
};
/// As [B, H, S, D], whatever the layout.
Value to_bhsd(Value x, const HeadDims& dims);
/// [B, H, S, D] in the layout of `like`, whose rank it has; D may differ.
Value from_bhsd(Value x, const HeadDims& dims, Value like);

}  // namespace rlx

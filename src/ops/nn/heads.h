// Operands that consist of heads, in any layout: what attention and rotary positions share.
#pragma once

#include "rlx/ops/attention.h"

namespace rlx {

struct HeadDims {
  AttentionLayout layout;
  Dim batch, length;
  int64_t heads;
  Dim width;

  /// Reads `t` in that layout. Fails if it has not that rank or not so many heads; the message calls it `name`.
  HeadDims(const Type& t, AttentionLayout layout, int64_t heads, std::string_view name);
  /// The row-major position of an element. All dims must be known.
  size_t at(int64_t b, int64_t s, int64_t h, int64_t d) const;
};
/// x as [B, H, S, D], whatever its layout is.
Value to_bhsd(Value x, const HeadDims& dims);
/// The inverse: x[B, H, S, D] in the layout of `dims`, with as many heads; D may differ from its width. `like` is a
/// value of that layout, of which the leading dims are taken.
Value from_bhsd(Value x, const HeadDims& dims, Value like);

}  // namespace rlx

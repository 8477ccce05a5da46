// How loops carry values from trip to trip without copying them: where the body allows, over the old one; else two
// buffers take turns, one of which is the result's.
#pragma once

#include <cstring>

#include "backends/cpu/nested.h"
#include "rlx/ops/control.h"

namespace rlx::cpu {

inline size_t byte_count_of(const Type& t) { return byte_count(t.dtype, shape_of(t.dims)); }

inline void copy_bytes(std::byte* to, const std::byte* from, size_t bytes) {
  if (bytes > 0 && to != from) std::memcpy(to, from, bytes);
}

/// The tensors that a loop's captured operands, those from `first` on, are in every run.
inline std::vector<const Tensor*> bound_captured(const LoweringContext& c, size_t first) {
  std::vector<const Tensor*> bound(c.operands.size());
  for (size_t i = first; i < bound.size(); ++i) bound[i] = c.bound(i);
  return bound;
}

std::vector<bool> updated_while_carries(const WhileAttrs&);

}  // namespace rlx::cpu

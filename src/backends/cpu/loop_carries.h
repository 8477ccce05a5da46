// What lower_while.cpp and lower_scan.cpp share. Loops carry values from iteration to iteration without copying them:
// the body updates a carry in place where it can; otherwise two buffers alternate, one of which is the result's.
#pragma once

#include <cstring>

#include "backends/cpu/lowering.h"
#include "rlx/ops/control.h"

namespace rlx::cpu {

inline size_t byte_count_of(const Type& t) { return byte_count(t.dtype, shape_of(t.dims)); }

inline void copy_bytes(std::byte* to, const std::byte* from, size_t bytes) {
  if (bytes > 0 && to != from) std::memcpy(to, from, bytes);
}

/// The tensors of those captured operands of a loop (from number `first` on) that are the same in every run; null for
/// all other operands.
inline std::vector<const Tensor*> bound_captured(const LoweringContext& c, size_t first) {
  std::vector<const Tensor*> bound(c.operands.size());
  for (size_t i = first; i < bound.size(); ++i) bound[i] = c.bound(i);
  return bound;
}

/// For each carry of a while loop, whether the body updates it in place.
std::vector<bool> updated_while_carries(const WhileAttrs&);

}  // namespace rlx::cpu

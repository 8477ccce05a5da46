// Pools of 2 by 2 elements side by side, f32, i8 and u8: the greatest or least of four, and of f32 where its gradient
// goes. Each element lies in one window at most, so nothing is added up. Neighbour: window.h, for windows of every
// kind.
#pragma once

#include <cstdint>

#include "kernels/window.h"

namespace rlx::kernels {

/// Whether the windows are such: in the last two dims, rows dense, no other dim slides, nothing is padded.
bool are_pairs(const ReduceWindowArgs&);
bool are_pairs(const SelectAndScatterArgs&);

/// As reduce_window and select_and_scatter, of args that `are_pairs`.
void reduce_pairs(const ReduceWindowArgs& args, int64_t begin, int64_t end) noexcept;
void select_pairs(const SelectAndScatterArgs& args, int64_t begin, int64_t end) noexcept;

}  // namespace rlx::kernels

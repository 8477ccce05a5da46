// Max and min pooling of f32, i8 and u8 over windows of 2 x 2 with stride 2, and its gradient for f32. An element lies
// in at most one window, so each element of the gradient is a copy and no sum. Neighbour: window.h, for all other
// windows.
#pragma once

#include <cstdint>

#include "kernels/reduce/window.h"

namespace rlx::kernels {

/// Whether the windows are 2 x 2 with stride 2 in the last two dims, of size 1 in the others, without padding and
/// dilation, with dense rows and a dtype and an op that this file knows.
bool is_pool_2x2(const ReduceWindowArgs&);
bool is_pool_2x2(const SelectAndScatterArgs&);

/// Like reduce_window() and select_and_scatter(), for arguments for which is_pool_2x2() is true.
void reduce_pool_2x2(const ReduceWindowArgs& args, int64_t begin, int64_t end) noexcept;
void select_pool_2x2(const SelectAndScatterArgs& args, int64_t begin, int64_t end) noexcept;

}  // namespace rlx::kernels

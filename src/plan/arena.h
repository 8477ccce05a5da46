// Offsets for buffers that live at different times: those whose lives overlap do not overlap in memory.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace rlx {

/// A buffer is needed from step `first` to step `last`, both included.
struct BufferLife {
  size_t bytes = 0;
  size_t first = 0, last = 0;
};

struct ArenaPlan {
  std::vector<size_t> offsets;  ///< of each buffer, multiples of 64
  size_t bytes = 0;             ///< of the whole arena
};

/// The largest buffers first, each into the lowest gap among those that live at the same time and stand already
/// (Pisarchyk, Lee 2020, "greedy by size"); where that takes more than the most that is needed at one time, the best of
/// this and of three other orders. Buffers of no bytes take none. Fails with out_of_memory if it would exceed 2^60
/// bytes.
ArenaPlan plan_arena(std::span<const BufferLife> buffers);

/// The most that is needed at one time: no arena for these buffers is smaller.
size_t largest_live_bytes(std::span<const BufferLife> buffers);

}  // namespace rlx

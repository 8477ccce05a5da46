// Simulated accelerators, for tests: what assumes the memory or the order of the host fails on them. They compute by
// the CPU's programs, in a memory whose addresses only their queues hand out.
#pragma once

#include "backends/backend.h"

namespace rlx::simulated {

/// "loopback": 512 MiB of memory that is reached by copies alone, a queue of two threads that wait at random
/// and take the work that is ready in any order, indices of 32 bits, no f64 or c128. Faults happen when they are asked
/// for (faults.h).
std::unique_ptr<Backend> make_loopback();
/// "tiny": WebGPU's least limits, but for the size of a buffer, which is 1 MiB here: 8 buffers a launch, memory that is
/// said to be mapped, indices of 32 bits, no f64 or c128.
std::unique_ptr<Backend> make_tiny();

}  // namespace rlx::simulated

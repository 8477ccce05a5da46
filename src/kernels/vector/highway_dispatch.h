// Which of the targets that kernels are compiled for Highway may choose among. RLX uses the headers of Highway alone:
// highway_dispatch.cpp defines the three functions that they call at run time. The library of Highway 1.0 measures the
// resolution of the clock when it is loaded, which took 8 ms of every process that loaded RLX.
#pragma once

#include <cstdint>

namespace rlx::kernels {

/// The targets, as bits of HWY_TARGETS, that the processor has and that limit_targets() left.
int64_t available_targets();

/// From now on kernels are those of the best of `targets`; 0 takes the limit away. Of the whole process, and not while
/// kernels run: for RLX_ISA before the first kernel, and for tests of each target.
void limit_targets(int64_t targets);

}  // namespace rlx::kernels

// The choice of an instruction set at run time. RLX uses the headers of Highway alone: highway_dispatch.cpp defines the
// functions that they call (SupportedTargets, GetChosenTarget, SetSupportedTargetsForTest). Highway 1.0's own library
// measures the resolution of the clock when it is loaded, which took 8 ms of every process that loaded RLX. A new
// target of x86-64 needs a line in highway_targets.h and a test of CPUID in highway_dispatch.cpp.
#pragma once

#include <cstdint>

namespace rlx::kernels {

/// The targets that the processor supports, as Highway's bits (HWY_AVX2 ...); after limit_targets(), the bits that it
/// was given. In an InstructionSetScope (instruction_set.h) those of its limit. Some may not be compiled in: mask them
/// with HWY_TARGETS. None is where the processor has not even what the build takes for granted.
int64_t available_targets();

/// Replaces the available targets of the whole process; 0 restores the processor's own. The bits are not checked: pass
/// some of available_targets(). No kernel may run meanwhile: RLX_ISA sets it before the first kernel, and tests do.
void limit_targets(int64_t targets);

}  // namespace rlx::kernels

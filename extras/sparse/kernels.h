// The family's kernels for the CPU.
#pragma once

#include "extras/sparse/pattern.h"
#include "rlx/kernel.h"

namespace rlx::sparse {

void register_kernels();
void register_cg_kernel();
/// Nothing where the build is without Eigen: the solve is composed then.
void register_lu_kernel();

}  // namespace rlx::sparse

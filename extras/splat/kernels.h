// The family's kernels for the CPU.
#pragma once

namespace rlx::splat {

void register_kernels();

}  // namespace rlx::splat

// Ops that the CPU supports in one form only, and how their other forms are rewritten into it.
#pragma once

#include "passes/legalize.h"

namespace rlx::cpu {

std::span<const Rewriting> rewritings();

}  // namespace rlx::cpu

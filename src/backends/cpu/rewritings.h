// Ops that the CPU takes in one shape only, and how the others become that shape.
#pragma once

#include "passes/legalize.h"

namespace rlx::cpu {

std::span<const Rewriting> rewritings();

}  // namespace rlx::cpu

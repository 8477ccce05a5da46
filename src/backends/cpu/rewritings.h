// The ops of which the CPU supports one form only, and how their other forms are rewritten into that.
#pragma once

#include "passes/legalize.h"

namespace rlx::cpu {

std::span<const Rewriting> rewritings();

}  // namespace rlx::cpu

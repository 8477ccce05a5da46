// How ops that the CPU supports in one form only (logsumexp over one axis) are rewritten into it from other forms.
#pragma once

#include "passes/legalize.h"

namespace rlx::cpu {

std::span<const Rewriting> rewritings();

}  // namespace rlx::cpu

// See the header.
#include "backends/cpu/rewritings.h"

namespace rlx::cpu {

std::span<const Rewriting> rewritings() { return {}; }

}  // namespace rlx::cpu

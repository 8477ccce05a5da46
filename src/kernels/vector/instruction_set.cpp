// See the header.
#include "kernels/vector/instruction_set.h"

#include "kernels/gemm/amx/tiles.h"
#include "kernels/vector/highway_targets.h"

#include <hwy/targets.h>

namespace rlx::kernels {
namespace {

constexpr const char* kArchitecture =
#if defined(__x86_64__) || defined(_M_X64)
    "x86-64";
#elif defined(__aarch64__) || defined(_M_ARM64)
    "aarch64";
#else
    "another architecture";
#endif

}  // namespace

std::string instruction_set() {
  const int64_t usable = hwy::SupportedTargets() & HWY_TARGETS;  // a better one has a lower bit
  const int64_t best = usable & -usable;
  return std::string(kArchitecture) + " with " + (best ? hwy::TargetName(best) : "scalars") +
         (has_matrix_tiles() ? " and matrix tiles" : "");
}

}  // namespace rlx::kernels

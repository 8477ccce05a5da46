// Sizes of the caches that one core sees, by which kernels choose how much of an operand they work on at a time.
#pragma once

#include <cstdint>

namespace rlx::kernels {

struct CacheSizes {
  int64_t l2_bytes = 2 << 20;   ///< second level, of one core
  int64_t l3_bytes = 32 << 20;  ///< outer level, shared between cores

  bool operator==(const CacheSizes&) const = default;
};

/// The caches of this machine, read once in a process. A size that the system does not tell keeps its default.
CacheSizes cache_sizes() noexcept;

}  // namespace rlx::kernels

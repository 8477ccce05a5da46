// The memory traffic of one cache line (memory_traffic.h), for loops that interleave it with arithmetic. Compiled per
// target.
#if defined(RLX_KERNELS_MEMORY_MEMORY_TRAFFIC_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef RLX_KERNELS_MEMORY_MEMORY_TRAFFIC_INL_H_
#undef RLX_KERNELS_MEMORY_MEMORY_TRAFFIC_INL_H_
#else
#define RLX_KERNELS_MEMORY_MEMORY_TRAFFIC_INL_H_
#endif

#include <cstdint>

#include "hwy/cache_control.h"
#include "hwy/highway.h"
#include "kernels/memory/memory_traffic.h"

HWY_BEFORE_NAMESPACE();
namespace rlx::kernels {
namespace HWY_NAMESPACE {

/// Prefetches cache line `i`, and copies cache line `i` by non-temporal stores.
HWY_INLINE void move_cache_line(const MemoryTraffic::CacheLines& cache_lines, int64_t i) {
  namespace hn = hwy::HWY_NAMESPACE;
  const hn::CappedTag<uint8_t, MemoryTraffic::kCacheLine> d;
  const auto offset = static_cast<size_t>(i) * MemoryTraffic::kCacheLine;
  // Prefetching from null on is harmless and cheaper than a branch. Adding to a null pointer is undefined, so the
  // address is computed as an integer.
  __builtin_prefetch(reinterpret_cast<const void*>(reinterpret_cast<uintptr_t>(cache_lines.prefetch) + offset));
  if (!cache_lines.to) return;
  for (size_t k = offset; k < offset + MemoryTraffic::kCacheLine; k += hn::Lanes(d))
    hn::Stream(hn::Load(d, reinterpret_cast<const uint8_t*>(cache_lines.from) + k), d,
               reinterpret_cast<uint8_t*>(cache_lines.to) + k);
}

}  // namespace HWY_NAMESPACE
}  // namespace rlx::kernels
HWY_AFTER_NAMESPACE();

#endif  // RLX_KERNELS_MEMORY_MEMORY_TRAFFIC_INL_H_

// One line of memory's work (memory_traffic.h), for loops that put it between their own. Compiled per target.
#if defined(RLX_KERNELS_MEMORY_TRAFFIC_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef RLX_KERNELS_MEMORY_TRAFFIC_INL_H_
#undef RLX_KERNELS_MEMORY_TRAFFIC_INL_H_
#else
#define RLX_KERNELS_MEMORY_TRAFFIC_INL_H_
#endif

#include <cstdint>

#include "hwy/cache_control.h"
#include "hwy/highway.h"
#include "kernels/memory_traffic.h"

HWY_BEFORE_NAMESPACE();
namespace rlx::kernels {
namespace HWY_NAMESPACE {

/// Asks for line `i`, and writes line `i` past the caches.
HWY_INLINE void move_line(const MemoryTraffic::Lines& lines, int64_t i) {
  namespace hn = hwy::HWY_NAMESPACE;
  const hn::CappedTag<uint8_t, MemoryTraffic::kLine> d;
  const auto line = static_cast<size_t>(i) * MemoryTraffic::kLine;
  // Of null too, which is harmless and cheaper than to look; not by a pointer, which could not go on from there.
  __builtin_prefetch(reinterpret_cast<const void*>(reinterpret_cast<uintptr_t>(lines.ahead) + line));
  if (!lines.to) return;
  for (size_t k = line; k < line + MemoryTraffic::kLine; k += hn::Lanes(d))
    hn::Stream(hn::Load(d, reinterpret_cast<const uint8_t*>(lines.from) + k), d,
               reinterpret_cast<uint8_t*>(lines.to) + k);
}

}  // namespace HWY_NAMESPACE
}  // namespace rlx::kernels
HWY_AFTER_NAMESPACE();

#endif  // RLX_KERNELS_MEMORY_TRAFFIC_INL_H_

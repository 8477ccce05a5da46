// See the header. A non-temporal store that is as wide as a cache line goes out at once; narrower ones first have to be
// combined in one of the core's write-combining buffers.
#include "kernels/memory/memory_traffic.h"

#include <cstring>

#include "kernels/vector/highway_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/memory/memory_traffic.cpp"
#include "hwy/cache_control.h"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace rlx::kernels {
namespace HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

void stream(std::byte* to, const std::byte* from, size_t bytes) {
  constexpr size_t kCacheLine = 64;
  const hn::CappedTag<uint8_t, kCacheLine> d;
  const size_t lanes = hn::Lanes(d),
               head = std::min(bytes, (kCacheLine - reinterpret_cast<uintptr_t>(to) % kCacheLine) % kCacheLine);
  if (head) std::memcpy(to, from, head);
  size_t i = head;
  for (; i + kCacheLine <= bytes; i += kCacheLine)
    for (size_t k = 0; k < kCacheLine; k += lanes)
      hn::Stream(hn::LoadU(d, reinterpret_cast<const uint8_t*>(from) + i + k), d,
                 reinterpret_cast<uint8_t*>(to) + i + k);
  if (i < bytes) std::memcpy(to + i, from + i, bytes - i);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace rlx::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rlx::kernels {
namespace {
HWY_EXPORT(stream);
}  // namespace

void stream_copy(void* to, const void* from, size_t bytes) noexcept {
  HWY_DYNAMIC_DISPATCH(stream)(static_cast<std::byte*>(to), static_cast<const std::byte*>(from), bytes);
}
void stream_fence() noexcept { hwy::FlushStream(); }

}  // namespace rlx::kernels
#endif  // HWY_ONCE

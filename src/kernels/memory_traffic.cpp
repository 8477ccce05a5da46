// See the header. A store as wide as a cache line is written whole: four narrow ones wait for each other in a buffer.
#include "kernels/memory_traffic.h"

#include <cstring>

#include "kernels/highway_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/memory_traffic.cpp"
#include "hwy/cache_control.h"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace rlx::kernels {
namespace HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

void stream(std::byte* to, const std::byte* from, size_t bytes) {
  constexpr size_t kLine = 64;
  const hn::CappedTag<uint8_t, kLine> d;
  const size_t lanes = hn::Lanes(d), head = std::min(bytes, (kLine - reinterpret_cast<uintptr_t>(to) % kLine) % kLine);
  if (head) std::memcpy(to, from, head);
  size_t i = head;
  for (; i + kLine <= bytes; i += kLine)
    for (size_t k = 0; k < kLine; k += lanes)
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

// See the header.
#include "kernels/aligned_memory.h"

#include <mutex>
#include <new>
#include <utility>

#include "base/large_pages.h"

namespace rlx::kernels {
namespace {

constexpr size_t kAlignment = 64, kBehind = 64;

std::shared_ptr<char> block(size_t bytes, size_t alignment) {
  const auto aligned = std::align_val_t(alignment);
  auto* data = static_cast<char*>(::operator new[](bytes, aligned));
  std::shared_ptr<char> holder(data, [aligned](char* p) { ::operator delete[](p, aligned); });
  prefer_large_pages(data, bytes);
  return holder;
}

#if defined(__SANITIZE_ADDRESS__)
constexpr bool kShares = false;  // so that what runs over a piece's end is seen
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
constexpr bool kShares = false;
#else
constexpr bool kShares = true;
#endif
#else
constexpr bool kShares = true;
#endif

/// The slab that is being filled.
struct Slab {
  static constexpr size_t kBytes = size_t{16} << 20, kPage = size_t{2} << 20;
  static constexpr size_t kLeastPiece = size_t{64} << 10, kMostPiece = size_t{4} << 20;

  std::mutex mutex;
  std::weak_ptr<char> memory;
  size_t used = 0;

  AlignedMemory take(size_t bytes) {
    const std::scoped_lock lock(mutex);
    std::shared_ptr<char> holder = memory.lock();
    if (!holder || used + bytes > kBytes) {
      holder = block(kBytes, kPage);
      memory = holder, used = 0;
    }
    char* piece = holder.get() + used;
    used += bytes;
    return {piece, AlignedDelete{std::move(holder)}};
  }
};

}  // namespace

AlignedMemory aligned_memory(size_t bytes) {
  const size_t taken = (bytes + kBehind + kAlignment - 1) / kAlignment * kAlignment;
  if (kShares && bytes >= Slab::kLeastPiece && bytes <= Slab::kMostPiece) {
    static auto* slab = new Slab;
    return slab->take(taken);
  }
  std::shared_ptr<char> holder = block(taken, kAlignment);
  char* data = holder.get();
  return {data, AlignedDelete{std::move(holder)}};
}

}  // namespace rlx::kernels

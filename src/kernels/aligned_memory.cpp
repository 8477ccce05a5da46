// See the header.
#include "kernels/aligned_memory.h"

#include <mutex>
#include <new>
#include <utility>

#include "base/large_pages.h"
#include "base/rounded_up.h"

namespace rlx::kernels {
namespace {

constexpr size_t kAlignment = 64, kBehind = 64;

/// Deletes a block, and knows what of it is in use.
struct BlockDelete {
  std::align_val_t alignment;
  size_t used = 0;  // of a slab: under its mutex
  void operator()(char* p) const { ::operator delete[](p, alignment); }
};
std::shared_ptr<char> block(size_t bytes, size_t alignment) {
  const auto aligned = std::align_val_t(alignment);
  auto* data = static_cast<char*>(::operator new[](bytes, aligned));
  std::shared_ptr<char> holder(data, BlockDelete{aligned, bytes});
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
    std::get_deleter<BlockDelete>(holder)->used = rounded_up(used, kPage);
    return {piece, AlignedDelete{std::move(holder)}};
  }
};
Slab& filling() {
  static auto* slab = new Slab;
  return *slab;
}

}  // namespace

AlignedMemory aligned_memory(size_t bytes) {
  const size_t taken = rounded_up(bytes + kBehind, kAlignment);
  if (kShares && bytes >= Slab::kLeastPiece && bytes <= Slab::kMostPiece) return filling().take(taken);
  std::shared_ptr<char> holder = block(taken, kAlignment);
  char* data = holder.get();
  return {data, AlignedDelete{std::move(holder)}};
}

AlignedMemory adopted_memory(std::span<const std::byte> bytes, std::shared_ptr<const void> owner) {
  // A pointer to const would take another type of memory.
  auto* data = const_cast<char*>(reinterpret_cast<const char*>(bytes.data()));
  return {data, AlignedDelete{std::shared_ptr<char>(std::const_pointer_cast<void>(std::move(owner)), data)}};
}

std::pair<const void*, size_t> block_of(const AlignedMemory& piece, size_t piece_bytes) {
  const std::shared_ptr<char>& holder = piece.get_deleter().holder;
  const BlockDelete* block = holder ? std::get_deleter<BlockDelete>(holder) : nullptr;
  if (!block) return {piece.get(), piece_bytes};
  const std::scoped_lock lock(filling().mutex);
  return {holder.get(), block->used};
}

}  // namespace rlx::kernels

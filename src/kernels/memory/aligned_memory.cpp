// See the header.
#include "kernels/memory/aligned_memory.h"

#include <mutex>
#include <new>
#include <utility>

#include "base/large_pages.h"
#include "base/rounded_up.h"

namespace rlx::kernels {
namespace {

constexpr size_t kAlignment = 64, kReadableBehind = 64;

/// Deletes a block, and records how many of its bytes are in use.
struct BlockDelete {
  std::align_val_t alignment;
  size_t used = 0;  // for slabs guarded by Slab::mutex
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
constexpr bool kUsesSlabs = false;  // so that AddressSanitizer sees accesses beyond the end of a piece
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
constexpr bool kUsesSlabs = false;
#else
constexpr bool kUsesSlabs = true;
#endif
#else
constexpr bool kUsesSlabs = true;
#endif

/// The slab from which pieces are currently allocated.
struct Slab {
  static constexpr size_t kBytes = size_t{16} << 20, kPage = size_t{2} << 20;
  static constexpr size_t kMinPiece = size_t{64} << 10, kMaxPiece = size_t{4} << 20;

  std::mutex mutex;
  std::weak_ptr<char> memory;
  size_t used = 0;

  AlignedMemory allocate(size_t bytes) {
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
Slab& current_slab() {
  static auto* slab = new Slab;
  return *slab;
}

}  // namespace

AlignedMemory aligned_memory(size_t bytes) {
  const size_t padded_bytes = rounded_up(bytes + kReadableBehind, kAlignment);
  if (kUsesSlabs && bytes >= Slab::kMinPiece && bytes <= Slab::kMaxPiece) return current_slab().allocate(padded_bytes);
  std::shared_ptr<char> holder = block(padded_bytes, kAlignment);
  char* data = holder.get();
  return {data, AlignedDelete{std::move(holder)}};
}

AlignedMemory adopted_memory(std::span<const std::byte> bytes, std::shared_ptr<const void> owner) {
  // The const is cast away because AlignedMemory has no const form; adopted_memory() forbids writing.
  auto* data = const_cast<char*>(reinterpret_cast<const char*>(bytes.data()));
  return {data, AlignedDelete{std::shared_ptr<char>(std::const_pointer_cast<void>(std::move(owner)), data)}};
}

std::pair<const void*, size_t> block_of(const AlignedMemory& piece, size_t piece_bytes) {
  const std::shared_ptr<char>& holder = piece.get_deleter().holder;
  const BlockDelete* block = holder ? std::get_deleter<BlockDelete>(holder) : nullptr;
  if (!block) return {piece.get(), piece_bytes};
  const std::scoped_lock lock(current_slab().mutex);
  return {holder.get(), block->used};
}

}  // namespace rlx::kernels

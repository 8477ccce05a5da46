// Memory of large arrays that were freed, kept for the next ones of the same size. Memory that comes from the system is
// cleared page by page when it is first touched, which takes as long as most kernels need for it; and a program that
// runs a graph again and again frees and asks for the same sizes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdlib>
#include <mutex>

#include "base/large_pages.h"

namespace rlx {

#if defined(__SANITIZE_ADDRESS__)
inline constexpr bool kKeepsMemory = false;  // so that a use of freed memory is seen
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
inline constexpr bool kKeepsMemory = false;
#else
inline constexpr bool kKeepsMemory = true;
#endif
#else
inline constexpr bool kKeepsMemory = true;
#endif

/// Blocks that nobody uses, the longest unused first.
class SpareMemory {
 public:
  static SpareMemory& shared() {
    static auto* all = new SpareMemory;  // outlives whatever static tensors free at the end
    return *all;
  }
  static bool keeps(size_t bytes) { return kKeepsMemory && bytes >= kLeast && bytes <= kMost; }

  static constexpr size_t kLeast = size_t{128} << 10;  ///< smaller ones the allocator itself keeps
  static constexpr size_t kMost = size_t{32} << 20;    ///< of all together
  static constexpr size_t kBlocks = 16;

  void* take(size_t bytes) {
    const std::scoped_lock lock(mutex_);
    for (size_t i = count_; i-- > 0;)
      if (blocks_[i].bytes == bytes) return remove(i);
    return nullptr;
  }
  void give(void* data, size_t bytes) {
    std::array<void*, kBlocks> freed{};  // without the lock: the system may take its time
    size_t count = 0;
    {
      const std::scoped_lock lock(mutex_);
      while (count_ > 0 && (count_ == kBlocks || kept_ + bytes > kMost)) freed[count++] = remove(0);
      blocks_[count_++] = {data, bytes};
      kept_ += bytes;
    }
    for (size_t i = 0; i < count; ++i) std::free(freed[i]);
  }

 private:
  struct Block {
    void* data;
    size_t bytes;
  };
  void* remove(size_t i) {
    const Block found = blocks_[i];
    for (--count_; i < count_; ++i) blocks_[i] = blocks_[i + 1];
    kept_ -= found.bytes;
    return found.data;
  }

  std::mutex mutex_;
  std::array<Block, kBlocks> blocks_{};
  size_t count_ = 0, kept_ = 0;
};

/// At least `bytes` bytes at a multiple of 64; null if there is no memory. May be called from several threads.
inline void* take_memory(size_t bytes) noexcept {
  if (SpareMemory::keeps(bytes))
    if (void* spare = SpareMemory::shared().take(bytes)) return spare;
  constexpr size_t kAlignment = 64;
  const size_t rounded = (bytes + (bytes == 0) + kAlignment - 1) / kAlignment * kAlignment;
  void* data = nullptr;
  if (rounded < bytes || posix_memalign(&data, kAlignment, rounded) != 0) return nullptr;
  prefer_large_pages(data, rounded);
  return data;
}

/// Frees it, or keeps it for later: `bytes` as it was taken.
inline void give_memory(void* data, size_t bytes) noexcept {
  if (data && SpareMemory::keeps(bytes)) SpareMemory::shared().give(data, bytes);
  else std::free(data);
}

}  // namespace rlx

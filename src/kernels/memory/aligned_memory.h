// Memory for packed weights. A run reads the weights of a model one after the other, so pieces of 64 KiB to 4 MiB share
// slabs of 16 MiB in large pages: this saves most address translations, and the processor's hardware prefetcher goes on
// from one piece to the next.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <utility>

namespace rlx::kernels {

/// Owns a share of the block or slab that the memory lies in; a slab is freed with its last piece.
struct AlignedDelete {
  std::shared_ptr<char> holder = nullptr;
  void operator()(char*) { holder.reset(); }
};
/// From aligned_memory: starts at a multiple of 64 bytes, and 64 bytes behind its end may be read.
using AlignedMemory = std::unique_ptr<char[], AlignedDelete>;

/// Uninitialized memory. Throws std::bad_alloc. May be called from several threads.
AlignedMemory aligned_memory(size_t bytes);

/// Wraps read-only memory that `owner` keeps alive (mapped weights, say). It must not be written to.
AlignedMemory adopted_memory(std::span<const std::byte> bytes, std::shared_ptr<const void> owner);

/// For memory reports: the start of the block or slab that a piece of `piece_bytes` lies in, and how many bytes of it
/// are in use. Of a slab these are the pages handed out so far, because untouched pages take no memory. For adopted
/// memory it is the piece itself.
std::pair<const void*, size_t> block_of(const AlignedMemory& piece, size_t piece_bytes);

}  // namespace rlx::kernels

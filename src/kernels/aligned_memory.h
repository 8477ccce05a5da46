// Memory for packed weights. Those of one model are read one after the other in every run: pieces share slabs in large
// pages, which saves most of the address translations and lets the processor's prefetching go on from piece to piece.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <utility>

namespace rlx::kernels {

/// Keeps what the memory lies in; a slab goes with its last piece.
struct AlignedDelete {
  std::shared_ptr<char> holder = nullptr;
  void operator()(char*) { holder.reset(); }
};
/// Starts at a multiple of 64 bytes, and a vector may be read behind its end.
using AlignedMemory = std::unique_ptr<char[], AlignedDelete>;

/// Throws std::bad_alloc. May be called from several threads.
AlignedMemory aligned_memory(size_t bytes);

/// Memory of someone else, which `owner` keeps. Nobody writes through it.
AlignedMemory adopted_memory(std::span<const std::byte> bytes, std::shared_ptr<const void> owner);

/// The block that a piece of `piece_bytes` lies in, and the bytes of it that were handed out, in whole pages of a slab:
/// what is behind them takes no memory. Of a piece from elsewhere, the piece.
std::pair<const void*, size_t> block_of(const AlignedMemory& piece, size_t piece_bytes);

}  // namespace rlx::kernels

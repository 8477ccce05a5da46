// Writes the bytes of tensors that may be pages of a mapped file: piece by piece, so that few of them are in memory.
#pragma once

#include <algorithm>
#include <span>

#include "io/atomic_file.h"
#include "rlx/io.h"

namespace rlx {

/// Writes `bytes`, those of `tensor` as they are or as they are turned for the file, and releases the tensor's pages.
inline void write_and_release(AtomicFile& file, const Tensor& tensor, std::span<const std::byte> bytes) {
  constexpr size_t kPiece = size_t{8} << 20;
  const bool is_own = bytes.data() == tensor.data();
  for (size_t at = 0; at < bytes.size(); at += kPiece) {
    const auto piece = bytes.subspan(at, std::min(kPiece, bytes.size() - at));
    file.write(piece);
    if (is_own) release_pages(Tensor::borrow(u8, {static_cast<int64_t>(piece.size())}, piece));
  }
  if (!is_own) release_pages(tensor);
}

}  // namespace rlx

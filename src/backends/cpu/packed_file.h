// Weights as they were packed, kept for the next process: a file that is mapped, so that starting costs neither packing
// nor a copy. Its header says of what it was made: a program, weights by the files they lie in, and how this processor
// packs. Layout, little-endian:
//
//   0   "RLXPACK1"
//   8   bytes of the header, u64
//   16  the header, JSON: {"of": text, "pieces": [{"name", "offset", "bytes", "sum"}, ...]}; params may have names that
//       are no UTF-8, so each byte of a text is a character of Latin-1
//   pieces, each from a multiple of 4096 on; behind the last, 4096 zeros, as vectors are read behind its end
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "io/file_stamp.h"

namespace rlx::cpu {

class PackedFile {
 public:
  using Pieces = std::map<std::string, std::span<const std::byte>, std::less<>>;

  /// The file, if it was made of `of`. Every piece is read and compared with its sum, unless that was done before,
  /// since the system started, of the file as it is: `path`.checked says so. Fails if anything is not as `write` leaves
  /// it, or if it was made of something else.
  static std::shared_ptr<const PackedFile> open(const std::string& path, std::string_view of, int threads);
  /// Replaces the file at once.
  static void write(const std::string& path, std::string_view of, const Pieces& pieces);

  /// Empty if there is no such piece.
  std::span<const std::byte> find(std::string_view name) const;
  const Pieces& pieces() const { return pieces_; }

 private:
  PackedFile() = default;
  std::shared_ptr<const FileBytes> file_;
  Pieces pieces_;
};

/// What a file of packed weights is made of, in words: the params by the places where they are mapped, small ones that
/// are not by their content. Empty if it cannot be said without reading megabytes, or surely. It holds for as long as
/// the files have their stamps, if they were flushed before they were packed (io/file_stamp.h).
struct WeightsIdentity {
  std::string text;
  std::map<std::string, FileStamp> files;  ///< by path
};
WeightsIdentity weights_identity(const std::map<std::string, Tensor>& params);

}  // namespace rlx::cpu

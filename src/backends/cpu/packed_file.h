// A file of packed weights, which later processes map, so that they start without packing and without a copy. Its
// header says what it was made of: the program, the files of the weights, and the layout in which this processor packs.
// The format, little-endian:
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

  /// Opens the file at `path`. Fails if it was not made of `of`, or is not as `write` leaves a file. Each piece is read
  /// and compared with its checksum, unless the file `path`.checked says that this was done since the system started
  /// and the file has not changed.
  static std::shared_ptr<const PackedFile> open(const std::string& path, std::string_view of, int threads);
  /// Replaces the file atomically.
  static void write(const std::string& path, std::string_view of, const Pieces& pieces);

  /// Empty if there is no such piece.
  std::span<const std::byte> find(std::string_view name) const;
  const Pieces& pieces() const { return pieces_; }

 private:
  PackedFile() = default;
  std::shared_ptr<const FileBytes> file_;
  Pieces pieces_;
};

/// Identifies the params that a file of packed weights was made of: mapped ones by file and offset, small ones that are
/// not mapped by their content. Empty if that is uncertain, or would mean reading megabytes. It is valid as long as the
/// files have the same stamps, provided that they were flushed before their params were packed (io/file_stamp.h).
struct WeightsIdentity {
  std::string text;
  std::map<std::string, FileStamp> files;  ///< by path
};
WeightsIdentity weights_identity(const std::map<std::string, Tensor>& params);

}  // namespace rlx::cpu

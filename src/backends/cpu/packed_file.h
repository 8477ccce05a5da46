// A file of packed weights. Later processes map it into memory, so that they start without packing the weights again
// and without copying them. Its header says what it was made from: the version of rlx, the graph that computes on
// weights alone, the files of the weights, and the layout in which this processor packs. The format, little-endian:
//
//   0   "RLXPACK1"
//   8   bytes of the header, u64
//   16  the header, JSON: {"of": text, "pieces": [{"name", "offset", "bytes", "sum"}, ...]}; params may have names that
//       are no UTF-8, so each byte of a text is a character of Latin-1
//   pieces, each at a multiple of 4096; then 4096 zeros, because vectors are read beyond the end of the last piece
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

  /// Opens the file at `path`. Throws rlx::Error (parse) if its header has another text than `of`, or if it is damaged.
  /// Each piece is read and compared with its checksum, unless the file `path`.checked says that this was done since
  /// the last boot and that the file has not changed since.
  static std::shared_ptr<const PackedFile> open(const std::string& path, std::string_view of, int threads);
  /// Replaces the file atomically.
  static void write(const std::string& path, std::string_view of, const Pieces& pieces);

  /// The bytes of a piece; empty if there is no piece of that name.
  std::span<const std::byte> find(std::string_view name) const;
  const Pieces& pieces() const { return pieces_; }

 private:
  PackedFile() = default;
  std::shared_ptr<const FileBytes> file_;
  Pieces pieces_;
};

/// Identifies the params that a file of packed weights was made from: those that were mapped or copied from files, by
/// file and offset; others by their content, if that is small. The text is empty if the params cannot be identified so:
/// a file was changed so recently that its times do not tell, megabytes would have to be read, or no param is from a
/// file. The identity holds as long as the files have the same stamps, provided that they were flushed before their
/// params were packed (io/file_stamp.h).
struct WeightsIdentity {
  std::string text;
  std::map<std::string, FileStamp> files;  ///< by path
};
WeightsIdentity weights_identity(const std::map<std::string, Tensor>& params);

}  // namespace rlx::cpu

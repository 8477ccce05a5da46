// Which file a tensor's bytes were mapped from, so that what was made of them can be found again without reading them.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "rlx/io.h"

namespace rlx {

/// What a file was when it was mapped. write(2) changes `changed_ns`, which no program can set. A store through a
/// shared mapping changes it only where it faults: with the first store to a page after the page was flushed
/// (`flushed_stamp`).
struct FileStamp {
  uint64_t device = 0, inode = 0, size = 0;
  int64_t modified_ns = 0, changed_ns = 0;  ///< since 1970
  auto operator<=>(const FileStamp&) const = default;
};

struct FileOrigin {
  FileStamp file;
  size_t offset = 0;  ///< of the tensor's first byte in the file
  /// The file had lain unchanged for a while when it was mapped: whatever changed it since has another time. One that
  /// was written just before could be written again within the same tick of the clock that the system stamps by.
  bool is_settled = false;
  std::string path;  ///< by which it was mapped
};
/// Nothing for bytes that neither lie in a mapped file nor were copied by FileBytes.
std::optional<FileOrigin> file_origin(std::span<const std::byte>);

/// Flushes the file: from then on the first store to any of its pages through any mapping changes the stamp, which is
/// returned. So of bytes that were read between two calls with equal stamps, and for as long as the stamp stays, it is
/// known what they are. Nothing where that does not hold: for file systems in memory, on networks and in user space,
/// and systems other than Linux.
std::optional<FileStamp> flushed_stamp(const std::string& path);

/// Whether the file holds what was copied of it, as far as copies of it are in this process. A mapping needs no such
/// question. Of a file whose bytes were copied before it was flushed, nothing else says that nobody stored to it
/// between.
bool equals_copies(const std::string& path, const FileStamp& stamp);

/// What tells this start of the system from the one before; empty where it does not say. A crash may leave a file
/// without what was last written to it, and with the times that it had.
std::string system_start();

/// Asks the system for all pages at once, which takes a tenth of what they take one by one.
void load_pages(const FileBytes&) noexcept;

}  // namespace rlx

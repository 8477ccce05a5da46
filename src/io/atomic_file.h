// A file that appears under its name only when it is complete: written beside it, flushed to the disk,
// renamed. Whoever reads the name meanwhile, or after a crash, finds the old file or the new one, never a
// part.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace rlx {

class AtomicFile {
 public:
  /// What a symbolic link of that name stands for: the file that is written, or, in a folder where the names are ours,
  /// nothing: it is replaced, and the file is the user's alone (0600).
  enum class Links { follow, replace };
  /// Creates the temporary file; fails if the folder does not let it.
  explicit AtomicFile(const std::string& path, Links links = Links::follow);
  /// Removes what was not committed.
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(std::span<const std::byte> bytes);
  void write(std::string_view text) { write(std::as_bytes(std::span(text.data(), text.size()))); }
  /// `no` for what is found out and made again if it is not whole after a crash: a cache.
  enum class Flush { yes, no };
  /// Gives the file its name. Nothing may be written after that.
  void commit(Flush to_disk = Flush::yes);

  /// For a library that writes by path: it may also put another file there. Fails for a device or a pipe.
  const std::string& temporary_path() const;

 private:
  std::string path_;       // as the user gave it
  std::string target_;     // what is replaced: `path_`, its symbolic links followed if they are to be
  std::string temporary_;  // empty if `path_` is a device or a pipe, which has no content to replace
  int fd_ = -1;
};

}  // namespace rlx

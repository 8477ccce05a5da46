// Weights and arrays in files: safetensors, NumPy's .npy and .npz, and the bytes of files through which they are
// read. Files are hostile input: every size and offset is checked before it is used, and a damaged file is an
// rlx::Error that names the file, the tensor, the place and what to do. A file is written beside its name and
// appears complete.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "rlx/tensor.h"

namespace rlx {

using NamedTensors = std::map<std::string, Tensor, std::less<>>;

/// A file as bytes in memory, read-only. They are a copy unless a mapping is asked for: another process may cut or
/// rewrite a file at any time, and whoever reads a page of a mapping that is gone is ended by the system (POSIX, mmap:
/// SIGBUS). Replacing or removing the file is safe in every case.
class FileBytes {
 public:
  /// A copy of all of a regular file. Fails if it is changed meanwhile.
  static std::shared_ptr<const FileBytes> read(const std::string& path);
  /// The same, but for what `load` is asked for; the rest is zeros and takes no memory. The file stays open.
  static std::shared_ptr<const FileBytes> open(const std::string& path);
  /// Maps it: the system loads a page when it is first read, and may drop it again. For files that only those write
  /// whom one trusts: cutting it ends this process, and rewriting it changes the bytes.
  static std::shared_ptr<const FileBytes> map(const std::string& path);
  ~FileBytes();
  FileBytes(const FileBytes&) = delete;
  FileBytes& operator=(const FileBytes&) = delete;

  const std::string& path() const { return path_; }
  std::span<const std::byte> bytes() const { return bytes_; }
  /// Copies that part of the file, once; nothing to do but for `open`. Fails if the file was changed since it was
  /// opened. May be called from several threads.
  void load(size_t offset, size_t byte_count) const;
  /// Lets the system take back the pages of `range` of a mapped file, to be loaded again when they are read again: for
  /// weights that have been packed into another layout. The bytes stay the same.
  void release(std::span<const std::byte> range) const;
  bool is_copy() const { return source_ != nullptr; }
  /// Whether the file still holds what was copied of it; reads it again.
  bool is_as_loaded() const;

 private:
  struct Source;  // the open file, and what was copied of it
  FileBytes(std::string path, std::span<const std::byte> bytes, std::unique_ptr<Source> source);
  static std::shared_ptr<const FileBytes> open_as(const std::string& path, bool is_mapping);
  std::string path_;
  std::span<const std::byte> bytes_;
  std::unique_ptr<Source> source_;  // null for a mapping
};

/// `FileBytes::release` for a tensor that borrows from a mapped file. False, and nothing happens, for any
/// other.
bool release_pages(const Tensor&);

/// How the tensors of a file come to memory: each copied when it is asked for, or all mapped (`FileBytes::map`).
enum class FileAccess : uint8_t { copied, mapped };

/// Tensors of a safetensors file, found by name. Copies share the file.
class SafetensorsFile {
 public:
  struct Entry {
    std::string name;
    DType dtype;
    Shape shape;
    size_t offset;  ///< of the first byte, from the beginning of the file
    size_t byte_count;
  };
  using Metadata = std::map<std::string, std::string, std::less<>>;

  /// Opens the file and reads its header; a tensor's data are read when it is asked for.
  static SafetensorsFile open(const std::string& path, FileAccess access = FileAccess::copied);
  /// The same from memory, which must stay for as long as `owner` or this call's user keeps it. `name` stands
  /// for the path in messages.
  static SafetensorsFile read(std::span<const std::byte> bytes, std::shared_ptr<const void> owner = nullptr,
                              std::string name = "<memory>");

  const std::string& path() const;
  /// In the order in which their data stand in the file.
  const std::vector<Entry>& entries() const;
  /// In the order of `entries`.
  std::vector<std::string> names() const;
  /// The strings under "__metadata__".
  const Metadata& metadata() const;

  /// Null if there is no tensor of that name.
  const Entry* find(std::string_view name) const;
  /// The tensor, borrowing from what was read of the file, which stays for as long as the tensor lives. Fails if there
  /// is none of that name, and suggests the nearest ones; and if the file was changed since it was opened.
  Tensor tensor(std::string_view name) const;
  /// The same; fails unless dtype and shape are as given.
  Tensor tensor(std::string_view name, DType dtype, const Shape& shape) const;
  /// All of them.
  NamedTensors tensors() const;

 private:
  struct Contents;
  explicit SafetensorsFile(std::shared_ptr<const Contents> contents) : contents_(std::move(contents)) {}
  std::shared_ptr<const Contents> contents_;
};

/// Writes the file that the reference implementation writes: the same tensors give the same bytes.
void write_safetensors(const std::string& path, const NamedTensors& tensors,
                       const SafetensorsFile::Metadata& metadata = {});

/// The array of a .npy file of any version, byte order and memory order; borrows from the bytes that were read if it
/// is little-endian and in C order.
Tensor read_npy(const std::string& path);
/// Its dtype and shape alone: the elements are not read.
Type read_npy_type(const std::string& path);
/// The same as `read_npy` from memory, which must stay for as long as `owner` or this call's user keeps it.
Tensor parse_npy(std::span<const std::byte> bytes, std::shared_ptr<const void> owner = nullptr,
                 const std::string& name = "<memory>");
/// Writes the file that NumPy writes: the same array gives the same bytes. The dtypes are NumPy's own.
void write_npy(const std::string& path, const Tensor& tensor);

/// An array, or all arrays together, that unpack to more bytes than a limit are refused, unless the file itself has as
/// many. Where no limit is given it is 1 GiB, or 32 times the bytes of the file if that is more: a small file cannot
/// fill the memory.
inline constexpr uint64_t kNpzByteLimit = uint64_t{1} << 30, kNpzInflationLimit = 32;

/// The arrays of a .npz archive, found by name. Copies share the archive; it may be used from several
/// threads.
class NpzFile {
 public:
  static NpzFile open(const std::string& path, std::optional<uint64_t> byte_limit = {});
  /// The same from memory, which must stay for as long as `owner` or this call's user keeps it.
  static NpzFile read(std::span<const std::byte> bytes, std::shared_ptr<const void> owner = nullptr,
                      std::string name = "<memory>", std::optional<uint64_t> byte_limit = {});

  /// Names without ".npy", in the order of the archive. Members that are no arrays are not listed.
  const std::vector<std::string>& names() const;
  bool contains(std::string_view name) const;
  /// The dtype and shape of an array; only its first bytes are unpacked.
  Type type(std::string_view name) const;
  /// Reads and unpacks one array.
  Tensor array(std::string_view name) const;
  /// All of them.
  NamedTensors arrays() const;

 private:
  struct Archive;
  explicit NpzFile(std::shared_ptr<const Archive> archive) : archive_(std::move(archive)) {}
  std::shared_ptr<const Archive> archive_;
};

enum class NpzCompression : uint8_t { stored, deflated };
void write_npz(const std::string& path, const NamedTensors& arrays,
               NpzCompression compression = NpzCompression::stored);

}  // namespace rlx

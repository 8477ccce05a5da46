// Weights and arrays in files: safetensors, NumPy's .npy and .npz, and the mapped file through which they are
// read. Files are hostile input: every size and offset is checked before it is used, and a damaged file is an
// rlx::Error that names the file, the tensor, the place and what to do. A file is written beside its name and
// appears complete.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "rlx/tensor.h"

namespace rlx {

using NamedTensors = std::map<std::string, Tensor, std::less<>>;

/// A file as bytes in memory, read-only; the system loads a page when it is first read. The file must not
/// shrink while it is mapped: reading a page that is gone ends the process (POSIX, mmap: SIGBUS). Replacing
/// it is safe.
class MappedFile {
 public:
  /// Maps a regular file; reads nothing.
  static std::shared_ptr<const MappedFile> open(const std::string& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  const std::string& path() const { return path_; }
  std::span<const std::byte> bytes() const { return bytes_; }
  /// Lets the system take back the pages of `range`, to be loaded again when they are read again: for weights
  /// that have been packed into another layout. The bytes stay the same.
  void release(std::span<const std::byte> range) const;

 private:
  MappedFile(std::string path, std::span<const std::byte> bytes);
  std::string path_;
  std::span<const std::byte> bytes_;
};

/// `MappedFile::release` for a tensor that borrows from a mapped file. False, and nothing happens, for any
/// other.
bool release_pages(const Tensor&);

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

  /// Maps the file and reads its header; the tensors' data are not read.
  static SafetensorsFile open(const std::string& path);
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
  /// The tensor, borrowing from the file, which stays mapped for as long as the tensor lives. Fails if there
  /// is none of that name, and suggests the nearest ones.
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

/// The array of a .npy file of any version, byte order and memory order; borrows from the mapped file if it
/// is little-endian and in C order.
Tensor read_npy(const std::string& path);
/// The same from memory, which must stay for as long as `owner` or this call's user keeps it.
Tensor parse_npy(std::span<const std::byte> bytes, std::shared_ptr<const void> owner = nullptr,
                 const std::string& name = "<memory>");
/// Writes the file that NumPy writes: the same array gives the same bytes. The dtypes are NumPy's own.
void write_npy(const std::string& path, const Tensor& tensor);

/// An array, or all arrays together, that unpack to more bytes than this and than the file itself has are
/// refused.
inline constexpr uint64_t kNpzByteLimit = uint64_t{4} << 30;

/// The arrays of a .npz archive, found by name. Copies share the archive; it may be used from several
/// threads.
class NpzFile {
 public:
  static NpzFile open(const std::string& path, uint64_t byte_limit = kNpzByteLimit);
  /// The same from memory, which must stay for as long as `owner` or this call's user keeps it.
  static NpzFile read(std::span<const std::byte> bytes, std::shared_ptr<const void> owner = nullptr,
                      std::string name = "<memory>", uint64_t byte_limit = kNpzByteLimit);

  /// Names without ".npy", in the order of the archive. Members that are no arrays are not listed.
  const std::vector<std::string>& names() const;
  bool contains(std::string_view name) const;
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

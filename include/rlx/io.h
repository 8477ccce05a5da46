// Weights and arrays in files: safetensors, NumPy's .npy and .npz, and the bytes of files through which they are read.
// Files are hostile input: every size and offset is checked before it is used, and a damaged file is an rlx::Error that
// names the file, the tensor, the position and what to do. A file is written under another name and renamed when it is
// complete.
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

/// The bytes of a file in memory, read-only. They are a copy, except with map(): another process may cut or rewrite a
/// file at any time, and a process that reads a page of a mapping that is gone is ended by the system (POSIX, mmap:
/// SIGBUS). Replacing or removing the file is safe in every case.
class FileBytes {
 public:
  /// A copy of a whole regular file. Fails if the file is changed while it is read.
  static std::shared_ptr<const FileBytes> read(const std::string& path);
  /// The file, of which load() copies parts when they are needed. All other bytes are zeros and take no memory. The
  /// file stays open.
  static std::shared_ptr<const FileBytes> open(const std::string& path);
  /// Maps the file: the system loads a page when it is first read, and may drop it again. Use it only for files whose
  /// writers you trust: cutting such a file ends this process, and rewriting it changes the bytes.
  static std::shared_ptr<const FileBytes> map(const std::string& path);
  ~FileBytes();
  FileBytes(const FileBytes&) = delete;
  FileBytes& operator=(const FileBytes&) = delete;

  const std::string& path() const { return path_; }
  std::span<const std::byte> bytes() const { return bytes_; }
  /// Copies this part of a file that was opened by open(), unless it is copied already; otherwise does nothing. Fails
  /// if the file was changed since it was opened. May be called from several threads.
  void load(size_t offset, size_t byte_count) const;
  /// Lets the system take back the pages of `range` of a mapped file, for example of weights that have been packed into
  /// another layout. They are loaded again when they are read again, with the same bytes.
  void release(std::span<const std::byte> range) const;
  bool is_copy() const { return source_ != nullptr; }
  /// Reads the file again. Whether it still holds the bytes that were copied from it.
  bool is_as_loaded() const;

 private:
  struct Source;  // the open file, and what was copied of it
  FileBytes(std::string path, std::span<const std::byte> bytes, std::unique_ptr<Source> source);
  static std::shared_ptr<const FileBytes> open_as(const std::string& path, bool is_mapping);
  std::string path_;
  std::span<const std::byte> bytes_;
  std::unique_ptr<Source> source_;  // null for a mapping
};

/// Calls `FileBytes::release` for the elements of a tensor that borrows from a mapped file. For any other tensor it
/// does nothing and returns false.
bool release_pages(const Tensor&);

/// When the tensors of a file are copied to memory: each when it is asked for by name (`copied`), or when its elements
/// are first read (`when_read`, Tensor::borrow_unread; bools and tensors that must be converted are as in `copied`);
/// or all are mapped (`FileBytes::map`). With `when_read`, the first access to the elements fails if the file was
/// changed since it was opened. Weights that an earlier process packed are then not read at all.
enum class FileAccess : uint8_t { copied, mapped, when_read };

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

  /// Opens the file and reads its header. `access` says when the data of its tensors are read.
  static SafetensorsFile open(const std::string& path, FileAccess access = FileAccess::copied);
  /// The same for a file in memory. `owner` keeps the memory alive; without it, the caller must keep it as long as the
  /// tensors are used. `name` stands for the path in messages.
  static SafetensorsFile read(std::span<const std::byte> bytes, std::shared_ptr<const void> owner = nullptr,
                              std::string name = "<memory>");

  const std::string& path() const;
  /// The entries, in the order in which their data stand in the file.
  const std::vector<Entry>& entries() const;
  /// The names, in the order of `entries`.
  std::vector<std::string> names() const;
  /// The strings under "__metadata__".
  const Metadata& metadata() const;

  /// The entry of that name, or null.
  const Entry* find(std::string_view name) const;
  /// The tensor of that name. It borrows from what was read of the file, which stays as long as the tensor lives. Fails
  /// if there is none of that name, suggesting the nearest ones, or if the file was changed since it was opened.
  Tensor tensor(std::string_view name) const;
  /// The same. Fails unless the tensor has this dtype and shape.
  Tensor tensor(std::string_view name, DType dtype, const Shape& shape) const;
  /// All tensors.
  NamedTensors tensors() const;

 private:
  struct Contents;
  explicit SafetensorsFile(std::shared_ptr<const Contents> contents) : contents_(std::move(contents)) {}
  std::shared_ptr<const Contents> contents_;
};

/// Writes the same bytes for these tensors as the reference implementation of safetensors does.
void write_safetensors(const std::string& path, const NamedTensors& tensors,
                       const SafetensorsFile::Metadata& metadata = {});

/// Reads a .npy file of any version, byte order and memory order. The array borrows from the bytes that were read if it
/// is little-endian and in C order.
Tensor read_npy(const std::string& path);
/// The dtype and shape of the array; the elements are not read.
Type read_npy_type(const std::string& path);
/// Like `read_npy`, for a file in memory. `owner` keeps the memory alive; without it, the caller must.
Tensor parse_npy(std::span<const std::byte> bytes, std::shared_ptr<const void> owner = nullptr,
                 const std::string& name = "<memory>");
/// Writes the same bytes for this array as NumPy does. The dtype must be one of NumPy's own.
void write_npy(const std::string& path, const Tensor& tensor);

/// An array that unpacks to more bytes than a limit is refused, and so are all arrays together, unless the file itself
/// has as many bytes. If no limit is given it is 1 GiB, or 32 times the bytes of the file if that is more: so a small
/// file cannot fill the memory.
inline constexpr uint64_t kNpzByteLimit = uint64_t{1} << 30, kNpzInflationLimit = 32;

/// The arrays of a .npz archive, found by name. Copies share the archive; it may be used from several
/// threads.
class NpzFile {
 public:
  static NpzFile open(const std::string& path, std::optional<uint64_t> byte_limit = {});
  /// The same for a file in memory. `owner` keeps the memory alive; without it, the caller must.
  static NpzFile read(std::span<const std::byte> bytes, std::shared_ptr<const void> owner = nullptr,
                      std::string name = "<memory>", std::optional<uint64_t> byte_limit = {});

  /// Names without ".npy", in the order of the archive. Members that are no arrays are not listed.
  const std::vector<std::string>& names() const;
  bool contains(std::string_view name) const;
  /// The dtype and shape of an array; only its first bytes are unpacked.
  Type type(std::string_view name) const;
  /// Reads and unpacks one array.
  Tensor array(std::string_view name) const;
  /// All arrays.
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

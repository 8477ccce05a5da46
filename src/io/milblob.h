// MILBlob storage, version 2: the file weight.bin of a Core ML package. A header of 64 bytes; then blobs, each a record
// of 64 bytes and its data, both at multiples of 64.
//
// Source: coremltools, mlmodel/src/MILBlob/Blob/StorageFormat.hpp.
#pragma once

#include <unordered_map>

#include "rlx/io.h"

namespace rlx {

class AtomicFile;

/// The blobs of a file, found by the offsets of their records. Copies share the file.
class MilBlobFile {
 public:
  struct Entry {
    DType dtype;
    uint64_t record;      ///< where the record stands: what a model refers to
    uint64_t data;        ///< where the data stand
    uint64_t byte_count;  ///< of the data
    int64_t count;        ///< elements
  };

  /// Opens the file and reads its header; blobs are read when they are asked for.
  static MilBlobFile open(const std::string& path);
  /// The same from memory, which must stay for as long as `owner` or this call's user keeps it.
  static MilBlobFile read(std::span<const std::byte> bytes, std::shared_ptr<const void> owner = nullptr,
                          std::string name = "<memory>");

  const std::string& path() const { return path_; }
  size_t byte_count() const { return bytes_.size(); }
  /// How many blobs the header tells of.
  uint32_t count() const { return count_; }
  /// The blob whose record stands at `offset`. Fails if that is no record, or its data do not lie behind it and in the
  /// file.
  Entry at(uint64_t offset) const;
  /// Every blob, in the order of the file. Fails unless they are as many as the header says and follow each other.
  std::vector<Entry> entries() const;
  /// The blob as a tensor that borrows from what was read of the file. Fails unless it has that dtype and as many
  /// elements as `shape`.
  Tensor tensor(uint64_t offset, DType dtype, const Shape& shape) const;

 private:
  std::string path_;
  std::span<const std::byte> bytes_;
  std::shared_ptr<const void> owner_;
  std::shared_ptr<const FileBytes> file_;  // of which is loaded what is asked for
  uint32_t count_ = 0;
};

/// Whether a blob may have that dtype: floats of 8, 16 and 32 bits, integers up to 32; no bool, 64-bit types or blocks.
bool is_blob_dtype(DType);

/// Where the blobs of a file that is to be written will stand. Equal ones (in dtype and bytes) stand there once.
class MilBlobLayout {
 public:
  /// The offset of the tensor's record. Keeps the tensor, and does not copy it.
  uint64_t add(const Tensor& tensor);
  size_t count() const { return blobs_.size(); }
  bool empty() const { return blobs_.empty(); }
  /// Of the whole file.
  uint64_t byte_count() const;
  /// Of what the file will hold.
  size_t hash() const;
  void write(AtomicFile& file) const;
  /// The tensor whose record will stand at `record`; null if none will.
  const Tensor* find(uint64_t record) const;

 private:
  struct Blob {
    Tensor tensor;
    uint64_t record;
    size_t hash;
  };
  std::vector<Blob> blobs_;
  std::unordered_multimap<size_t, size_t> by_hash_;
};

}  // namespace rlx

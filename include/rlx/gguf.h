// GGUF files: weights in the block formats of dtype.h, and metadata (what a model is, its tokenizer) under keys. Files
// are hostile input, as in rlx/io.h, and are read and written with the same care.
//
// Format: ggml, docs/gguf.md; its three versions, both byte orders, files in several parts.
#pragma once

#include <bit>
#include <variant>

#include "rlx/io.h"

namespace rlx {

/// Values of one type; arrays may hold arrays. The places in the list are the format's numbers of the types.
struct GgufArray {
  using Items = std::variant<std::vector<uint8_t>, std::vector<int8_t>, std::vector<uint16_t>, std::vector<int16_t>,
                             std::vector<uint32_t>, std::vector<int32_t>, std::vector<float>, std::vector<bool>,
                             std::vector<std::string>, std::vector<GgufArray>, std::vector<uint64_t>,
                             std::vector<int64_t>, std::vector<double>>;
  Items items;
  size_t size() const;
  bool operator==(const GgufArray&) const;
};
/// A value of the metadata. The places in the list are the format's numbers of the types.
using GgufValue = std::variant<uint8_t, int8_t, uint16_t, int16_t, uint32_t, int32_t, float, bool, std::string,
                               GgufArray, uint64_t, int64_t, double>;
/// By key, in the order of the file.
using GgufMetadata = std::vector<std::pair<std::string, GgufValue>>;

/// Null if there is no such key.
const GgufValue* find_value(const GgufMetadata&, std::string_view key);
/// "u8", "i8", "u16", "i16", "u32", "i32", "f32", "bool", "string", "array", "u64", "i64", "f64".
std::string_view gguf_type_name(const GgufValue&);

/// A value, and all metadata, as JSON: numbers, strings and arrays; bytes that are no UTF-8 become U+FFFD, and numbers
/// that JSON does not have "nan", "inf" and "-inf". All metadata are an object: {key: [type, value], ...}, where the
/// type is `gguf_type_name`, followed by that of the items for each level of an array: "array array u32".
std::string gguf_json(const GgufValue&);
std::string gguf_json(const GgufMetadata&);
/// Metadata from such an object, in its order. Fails for what is no such thing, a key that is there twice, an array of
/// more than 8 levels, or a number that its type does not hold.
GgufMetadata parse_gguf_json(std::string_view json);

/// Tensors of a GGUF file, found by name. Copies share the file.
class GgufFile {
 public:
  struct Entry {
    std::string name;
    std::string kind;  ///< as ggml calls it: "F32", "Q4_K"
    DType dtype;
    Shape shape;        ///< outermost dim first, as everywhere in RLX; the file has them the other way round
    size_t part;        ///< of `paths`
    size_t offset;      ///< of the first byte, from the beginning of that file
    size_t byte_count;  ///< in the file
  };

  /// Opens the file and reads what stands before the data; a tensor's data are read when it is asked for. A file that
  /// is one part of several (model-00001-of-00003.gguf) opens all of them, which must stand beside it.
  static GgufFile open(const std::string& path, FileAccess access = FileAccess::copied);
  /// One file from memory, which must stay valid while `owner` lives or, without one, while this GgufFile and
  /// tensors from it live; of several parts it has the tensors of one. `name` stands for the path in messages.
  static GgufFile read(std::span<const std::byte> bytes, std::shared_ptr<const void> owner = nullptr,
                       std::string name = "<memory>");

  /// Of the file, or of each of its parts.
  const std::vector<std::string>& paths() const;
  uint32_t version() const;
  std::endian byte_order() const;
  /// Each tensor's data begin at a multiple of so many bytes from the start of the data section. Of several parts it is
  /// that of the first, as version() and byte_order() are.
  uint64_t alignment() const;
  /// In the order of the file.
  const std::vector<Entry>& entries() const;
  std::vector<std::string> names() const;
  /// Of several parts those of the first.
  const GgufMetadata& metadata() const;
  /// Null if there is no such key.
  const GgufValue* value(std::string_view key) const { return find_value(metadata(), key); }

  /// Null if there is no tensor of that name.
  const Entry* find(std::string_view name) const;
  /// The tensor, packed as it is in the file. It borrows the bytes of the file and keeps them alive; it is a copy where
  /// the file has the other byte order, stores groups of blocks (NVFP4), or does not align the elements. Fails if there
  /// is no tensor of that name, and suggests the nearest ones, or if the file was changed since it was opened.
  Tensor tensor(std::string_view name) const;
  /// The same; fails unless dtype and shape are as given.
  Tensor tensor(std::string_view name, DType dtype, const Shape& shape) const;
  /// All of them.
  NamedTensors tensors() const;

 private:
  struct Contents;
  static std::shared_ptr<const Contents> finished(std::shared_ptr<Contents> contents);
  explicit GgufFile(std::shared_ptr<const Contents> contents) : contents_(std::move(contents)) {}
  std::shared_ptr<const Contents> contents_;
};

struct GgufWriteOptions {
  uint32_t version = 3;  ///< 1 to 3
  /// Big-endian files are of version 3.
  std::endian byte_order = std::endian::little;
  /// Begins a new part, X-00001-of-00002.gguf, before a tensor with which the last one would have more bytes of
  /// tensors; 0: all in one file.
  uint64_t most_part_bytes = 0;
};
/// Writes the tensors in this order: the same ones give the file that ggml's Python package writes. Metadata may set
/// "general.alignment", a u32, for other than 32 bytes: a power of two up to 65536. The dtypes are the floats f16,
/// bf16, f32 and f64, the integers i8 to i64, and the block formats but q2_0. Fails for a rank above 4, a name of more
/// than 63 bytes, or one that is there twice: other readers take no such file.
void write_gguf(const std::string& path, const std::vector<std::pair<std::string, Tensor>>& tensors,
                const GgufMetadata& metadata = {}, const GgufWriteOptions& options = {});

}  // namespace rlx

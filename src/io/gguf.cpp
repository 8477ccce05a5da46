// GGUF files, read: magic and version, metadata, what tensors there are, then their data. What the file says is checked
// here before memory is taken for it; tensors are then views of the bytes.
#include "rlx/gguf.h"

#include <algorithm>
#include <cstring>

#include "io/gguf_format.h"
#include "io/names_in_messages.h"

namespace rlx {

static_assert(std::endian::native == std::endian::little, "files of this byte order are read without a copy");

struct GgufFile::Contents {
  struct Part {
    std::span<const std::byte> bytes;
    std::shared_ptr<const void> owner;
    std::shared_ptr<const FileBytes> file;  // of which a tensor is loaded when it is asked for
    bool is_swapped = false;
  };
  std::vector<std::string> paths;
  std::vector<Part> parts;
  uint32_t version = gguf::kVersion;
  uint64_t alignment = gguf::kDefaultAlignment;
  std::vector<Entry> entries;
  std::vector<size_t> by_name;  // indices of entries, sorted
  GgufMetadata metadata;
};

namespace gguf {
namespace {

using Entry = GgufFile::Entry;

std::string in_file(const Entry& entry) {
  return text_of("tensor ", quoted_name(entry.name), " (", entry.kind, " ",
                 Type{entry.dtype, Dims(entry.shape.begin(), entry.shape.end())}, ", bytes ", entry.offset, " to ",
                 entry.offset + entry.byte_count, " of the file)");
}

// Files that people take for GGUF: a download that did not go as meant, or the formats before it.
std::string what_it_is(std::string_view text) {
  if (text.starts_with("version https://git-lfs"))
    return "it is a Git LFS pointer, not the file itself; run `git lfs pull`, or download it again";
  for (std::string_view old : {"tjgg", "fmgg", "lmgg", "algg"})
    if (text.starts_with(old)) return "it is a model of ggml from before GGUF; convert it anew with llama.cpp";
  if (text.starts_with("PK\3\4"))
    return "it looks like a zip archive, maybe a PyTorch checkpoint or .npz; convert it first";
  if (text.starts_with("<")) return "it looks like a web page; download the file itself";
  return "the file is damaged, or is no GGUF file; download or copy it again";
}

/// Reads what stands before the data, from the first byte on.
class Reader {
 public:
  Reader(std::span<const std::byte> bytes, const FileBytes* file) : bytes_(bytes), file_(file) {}

  size_t at() const { return at_; }
  size_t rest() const { return bytes_.size() - at_; }
  uint32_t version() const { return version_; }
  bool is_swapped() const { return is_swapped_; }

  /// Magic and version, by which the byte order is known.
  void start() {
    need(std::min<size_t>(bytes_.size(), 64));
    const std::string_view text(reinterpret_cast<const char*>(bytes_.data()), std::min<size_t>(bytes_.size(), 64));
    if (!text.starts_with(kMagic)) fail(ErrorCode::parse, "it does not begin with 'GGUF'; ", what_it_is(text));
    at_ = kMagic.size();
    version_ = number<uint32_t>("the version");
    if (version_ != 0 && version_ % (1 << 16) == 0) {
      is_swapped_ = true;
      at_ = kMagic.size();
      version_ = number<uint32_t>("the version");
    }
    if (version_ < 1 || version_ > kVersion)
      fail(ErrorCode::unsupported, "it is of version ", version_, " of the format; 1 to ", kVersion, " are read");
  }

  template <class T>
  T number(const char* what) {
    need(sizeof(T), what);
    T value;
    std::memcpy(&value, bytes_.data() + at_, sizeof value);
    if (is_swapped_) std::reverse(reinterpret_cast<std::byte*>(&value), reinterpret_cast<std::byte*>(&value + 1));
    at_ += sizeof value;
    return value;
  }
  /// Sizes and counts have 32 bits in version 1.
  uint64_t size(const char* what) { return version_ == 1 ? number<uint32_t>(what) : number<uint64_t>(what); }
  /// A count of things of which each takes at least `least` bytes of what is left.
  size_t count(const char* what, size_t least) {
    const size_t begin = at_;
    const uint64_t n = size(what);
    if (n > rest() / least)
      fail(ErrorCode::parse, "byte ", begin, " tells of ", n, " ", what, ", for which the ", rest(),
           " bytes that follow have no room; ", kDamaged);
    return static_cast<size_t>(n);
  }
  std::string string(const char* what) {
    const size_t length = count(what, 1);
    need(length, what);
    std::string text(reinterpret_cast<const char*>(bytes_.data()) + at_, length);
    at_ += length;
    return text;
  }
  size_t size_bytes() const { return version_ == 1 ? 4 : 8; }

  /// A value of the type of that number.
  GgufValue value(uint32_t type) {
    GgufValue made;
    pick(type, made, [&](auto& slot) { slot = one<std::decay_t<decltype(slot)>>(0); });
    return made;
  }

 private:
  static constexpr const char* kDamaged = "the file is cut or damaged; download or copy it again";

  void need(size_t n, const char* what = "the beginning") {
    if (n > rest())
      fail(ErrorCode::parse, "the file ends at byte ", bytes_.size(), ", within ", what, " at byte ", at_, "; ",
           kDamaged);
    if (!file_ || at_ + n <= loaded_) return;
    // In large pieces: how long the header is, only its end tells.
    constexpr size_t kPiece = size_t{1} << 20;
    const size_t end = std::min(bytes_.size(), std::max(at_ + n, loaded_ + kPiece));
    file_->load(loaded_, end - loaded_);
    loaded_ = end;
  }

  /// Makes `variant` hold its alternative of that number, and hands it to `f`.
  template <class Variant, class F, size_t kIndex = 0>
  void pick(uint32_t type, Variant& variant, F f) {
    if constexpr (kIndex == std::variant_size_v<Variant>) {
      fail(ErrorCode::parse, "byte ", at_ - 4, " is the type ", type, " of a value; there are 0 to ", kIndex - 1, "; ",
           kDamaged);
    } else if (type == kIndex) {
      f(variant.template emplace<kIndex>());
    } else {
      pick<Variant, F, kIndex + 1>(type, variant, f);
    }
  }

  template <class T>
  T one(int depth) {
    if constexpr (std::is_same_v<T, std::string>) {
      return string("bytes of a string");
    } else if constexpr (std::is_same_v<T, bool>) {
      const auto byte = number<uint8_t>("a bool");
      if (byte > 1) fail(ErrorCode::parse, "byte ", at_ - 1, " is ", int{byte}, ", where a bool is 0 or 1");
      return byte == 1;
    } else if constexpr (std::is_same_v<T, GgufArray>) {
      return array(depth + 1);
    } else {
      return number<T>("a value");
    }
  }

  GgufArray array(int depth) {
    if (depth > kDeepest) fail(ErrorCode::parse, "byte ", at_, " begins an array deeper than ", kDeepest, " levels");
    GgufArray made;
    const auto type = number<uint32_t>("the type of an array");
    pick(type, made.items, [&](auto& items) {
      using T = typename std::decay_t<decltype(items)>::value_type;
      size_t least = sizeof(T);
      if constexpr (std::is_same_v<T, std::string>) least = size_bytes();
      if constexpr (std::is_same_v<T, GgufArray>) least = 4 + size_bytes();
      if constexpr (std::is_same_v<T, bool>) least = 1;
      const size_t n = count("items of an array", least);
      items.reserve(n);
      for (size_t i = 0; i < n; ++i) items.push_back(one<T>(depth));
    });
    return made;
  }

  std::span<const std::byte> bytes_;
  const FileBytes* file_;
  size_t at_ = 0, loaded_ = 0;
  uint32_t version_ = kVersion;
  bool is_swapped_ = false;
};

std::optional<uint64_t> unsigned_value(const GgufMetadata& metadata, std::string_view key) {
  const GgufValue* value = find_value(metadata, key);
  if (!value) return std::nullopt;
  return std::visit(
      [&](const auto& v) -> uint64_t {
        using T = std::decay_t<decltype(v)>;
        if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
          if (std::is_unsigned_v<T> || v >= 0) return static_cast<uint64_t>(v);
        }
        fail(ErrorCode::parse, quoted_name(key), " is ", shown_value(*value),
             ", and has to be an integer that is not negative");
      },
      *value);
}

GgufMetadata read_metadata(Reader& in, size_t n) {
  GgufMetadata metadata;
  for (size_t i = 0; i < n; ++i) {
    std::string key = in.string("bytes of a key");
    with_context([&] { return "reading the value of " + quoted_name(key); },
                 [&] {
                   const auto type = in.number<uint32_t>("the type of a value");
                   metadata.emplace_back(key, in.value(type));
                 });
  }
  std::vector<std::string_view> keys;
  for (const auto& [key, value] : metadata) keys.push_back(key);
  if (const auto twice = there_twice(std::move(keys)))
    fail(ErrorCode::parse, "it has the key ", quoted_name(*twice), " twice");
  return metadata;
}

/// The next tensor; its offset is that from the beginning of all data.
Entry read_entry(Reader& in, size_t part) {
  Entry entry;
  entry.part = part;
  entry.name = in.string("bytes of the name of a tensor");
  auto refuse = [&](ErrorCode code, const auto&... parts) {
    fail(code, "tensor ", quoted_name(entry.name), " ", parts...);
  };
  const auto rank = in.number<uint32_t>("the rank of a tensor");
  if (rank > kMostDims) refuse(ErrorCode::parse, "has ", rank, " dims; the format allows ", kMostDims);
  for (uint32_t i = 0; i < rank; ++i) {
    const uint64_t extent = in.size("an extent of a tensor");
    if (extent > uint64_t{INT64_MAX})
      refuse(ErrorCode::parse, "has an extent of ", extent, "; no memory can hold that");
    entry.shape.insert(entry.shape.begin(), static_cast<int64_t>(extent));
  }
  const auto number = in.number<uint32_t>("the kind of a tensor");
  const TensorKind* kind = find_kind(number);
  if (!kind) refuse(ErrorCode::unsupported, "is of the unknown kind ", number, "; there are ", kind_names());
  if (!kind->refusal.empty()) refuse(ErrorCode::unsupported, "is of kind ", kind->name, ", ", kind->refusal);
  entry.kind = kind->name, entry.dtype = kind->dtype;
  try {
    entry.byte_count = byte_count(entry.dtype, entry.shape);
  } catch (const Error& error) {
    refuse(ErrorCode::parse, "has an impossible shape: ", error.what());
  }
  if (!entry.shape.empty() && entry.shape.back() % block_elements(*kind) != 0)
    refuse(ErrorCode::parse, "has rows of ", entry.shape.back(), " elements, where ", kind->name, " has groups of ",
           block_elements(*kind));
  entry.offset = in.number<uint64_t>("the offset of a tensor");
  return entry;
}

/// Places the entries in the file, whose data begin at `data_begin`, and holds them to it: whole, aligned, none over
/// another.
void place(std::vector<Entry>& entries, size_t data_begin, size_t file_size, uint64_t alignment) {
  std::vector<Entry*> order;
  for (Entry& entry : entries) {
    const uint64_t offset = entry.offset;
    if (offset % alignment != 0)
      fail(ErrorCode::parse, "tensor ", quoted_name(entry.name), " has the offset ", offset,
           ", which is no multiple of the file's alignment, ", alignment);
    if (data_begin > file_size || offset > file_size - data_begin || entry.byte_count > file_size - data_begin - offset)
      fail(ErrorCode::parse, "the file is cut: it has ", file_size, " bytes, of which data begin at byte ", data_begin,
           ", and tensor ", quoted_name(entry.name), " has ", entry.byte_count, " of them from offset ", offset,
           " on; download or copy it again");
    entry.offset = data_begin + static_cast<size_t>(offset);
    if (entry.byte_count > 0) order.push_back(&entry);
  }
  std::sort(order.begin(), order.end(), [](const Entry* a, const Entry* b) { return a->offset < b->offset; });
  for (size_t i = 1; i < order.size(); ++i)
    if (order[i]->offset - order[i - 1]->offset < order[i - 1]->byte_count)
      fail(ErrorCode::parse, "the data of ", in_file(*order[i - 1]), " and of ", in_file(*order[i]),
           " overlap; the file is damaged");
}

/// One file: what it says and where its tensors stand, `part` their part.
struct Read {
  uint32_t version;
  bool is_swapped;
  uint64_t alignment = kDefaultAlignment;
  GgufMetadata metadata;
  std::vector<Entry> entries;
  uint64_t part, parts;  // as it says itself
};
Read read_part(const std::string& path, std::span<const std::byte> bytes, const FileBytes* file, size_t part) {
  Read made;
  with_context([&] { return "reading the GGUF file '" + path + "'"; },
               [&] {
                 Reader in(bytes, file);
                 in.start();
                 made.version = in.version(), made.is_swapped = in.is_swapped();
                 const size_t size = in.size_bytes();
                 // The least that a tensor takes: length of the name, rank, kind, offset. Checked again below, when the
                 // metadata have been read.
                 const size_t least_tensor = size + 4 + 4 + 8, least_value = size + 4 + 1;
                 const size_t tensors = in.count("tensors", least_tensor);
                 const size_t values = in.count("values of metadata", least_value);
                 made.metadata = read_metadata(in, values);
                 if (auto alignment = unsigned_value(made.metadata, kAlignment)) made.alignment = *alignment;
                 if (!is_alignment(made.alignment, kMostReadAlignment))
                   fail(ErrorCode::parse, "'general.alignment' is ", made.alignment,
                        ", and has to be a power of two up to 2^30");
                 for (size_t i = 0; i < tensors; ++i) made.entries.push_back(read_entry(in, part));
                 const size_t end = in.at(), most = static_cast<size_t>(made.alignment) - 1;
                 place(made.entries, (end + most) / (most + 1) * (most + 1), bytes.size(), made.alignment);
                 made.part = unsigned_value(made.metadata, kPart).value_or(0);
                 made.parts = std::max<uint64_t>(unsigned_value(made.metadata, kParts).value_or(1), 1);
                 if (made.part >= made.parts || made.parts > 99'999)
                   fail(ErrorCode::parse, "it is part ", made.part, " of ", made.parts, " (split.no, split.count)");
               });
  return made;
}

}  // namespace
}  // namespace gguf

size_t GgufArray::size() const {
  return std::visit([](const auto& all) { return all.size(); }, items);
}
bool GgufArray::operator==(const GgufArray& other) const { return items == other.items; }

const GgufValue* find_value(const GgufMetadata& metadata, std::string_view key) {
  for (const auto& [name, value] : metadata)
    if (name == key) return &value;
  return nullptr;
}

GgufFile GgufFile::open(const std::string& path, FileAccess access) {
  auto contents = std::make_shared<Contents>();
  auto read_file = [&](const std::string& name, size_t part) {
    auto file = access == FileAccess::mapped ? FileBytes::map(name) : FileBytes::open(name);
    gguf::Read made = gguf::read_part(name, file->bytes(), file.get(), part);
    contents->paths.push_back(name);
    contents->parts.push_back({file->bytes(), file, file, made.is_swapped});
    return made;
  };
  auto take = [&](gguf::Read&& made) {
    if (contents->parts.size() == 1) {
      contents->version = made.version, contents->alignment = made.alignment;
      contents->metadata = std::move(made.metadata);
    }
    std::move(made.entries.begin(), made.entries.end(), std::back_inserter(contents->entries));
  };
  gguf::Read first = read_file(path, 0);
  const uint64_t parts = first.parts;
  if (parts == 1) {
    take(std::move(first));
  } else {
    const auto whole = gguf::whole_path(path, first.part, parts);
    if (!whole)
      fail(ErrorCode::not_found, "'", path, "' is part ", first.part + 1, " of ", parts,
           ", and is not called as such a part is, ", gguf::part_path("X.gguf", first.part, parts),
           ", so that the others are not known; give it its name back");
    const size_t given = first.part;
    contents->paths.clear(), contents->parts.clear();
    for (size_t i = 0; i < parts; ++i) {
      const std::string name = gguf::part_path(*whole, i, parts);
      gguf::Read made =
          with_context([&] { return text_of("reading part ", i + 1, " of ", parts, " of '", *whole, "'"); },
                       [&] { return read_file(name, i); });
      if (made.part != i || made.parts != parts)
        fail(ErrorCode::parse, "'", name, "' says that it is part ", made.part + 1, " of ", made.parts, ", and '", path,
             "' that it is part ", given + 1, " of ", parts, "; they do not belong together");
      take(std::move(made));
    }
    const auto all = gguf::unsigned_value(contents->metadata, gguf::kAllTensors);
    if (all && *all != contents->entries.size())
      fail(ErrorCode::parse, "the parts of '", *whole, "' have ", contents->entries.size(),
           " tensors, and the first one says that they have ", *all, "; they do not belong together");
  }
  return GgufFile(finished(std::move(contents)));
}

GgufFile GgufFile::read(std::span<const std::byte> bytes, std::shared_ptr<const void> owner, std::string name) {
  auto contents = std::make_shared<Contents>();
  gguf::Read made = gguf::read_part(name, bytes, nullptr, 0);
  contents->paths.push_back(std::move(name));
  contents->parts.push_back({bytes, std::move(owner), nullptr, made.is_swapped});
  contents->version = made.version, contents->alignment = made.alignment;
  contents->metadata = std::move(made.metadata), contents->entries = std::move(made.entries);
  return GgufFile(finished(std::move(contents)));
}

std::shared_ptr<const GgufFile::Contents> GgufFile::finished(std::shared_ptr<Contents> contents) {
  const std::vector<Entry>& entries = contents->entries;
  std::vector<size_t>& by_name = contents->by_name;
  for (size_t i = 0; i < entries.size(); ++i) by_name.push_back(i);
  std::sort(by_name.begin(), by_name.end(), [&](size_t a, size_t b) { return entries[a].name < entries[b].name; });
  auto twice = std::adjacent_find(by_name.begin(), by_name.end(),
                                  [&](size_t a, size_t b) { return entries[a].name == entries[b].name; });
  if (twice != by_name.end())
    fail(ErrorCode::parse, "'", contents->paths[entries[*twice].part], "' has tensor ",
         quoted_name(entries[*twice].name), " twice; the file is damaged");
  return contents;
}

const std::vector<std::string>& GgufFile::paths() const { return contents_->paths; }
uint32_t GgufFile::version() const { return contents_->version; }
uint64_t GgufFile::alignment() const { return contents_->alignment; }
std::endian GgufFile::byte_order() const {
  return contents_->parts.front().is_swapped ? std::endian::big : std::endian::little;
}
const std::vector<GgufFile::Entry>& GgufFile::entries() const { return contents_->entries; }
const GgufMetadata& GgufFile::metadata() const { return contents_->metadata; }

std::vector<std::string> GgufFile::names() const {
  std::vector<std::string> names;
  for (const Entry& entry : entries()) names.push_back(entry.name);
  return names;
}

const GgufFile::Entry* GgufFile::find(std::string_view name) const {
  const std::vector<size_t>& by_name = contents_->by_name;
  auto at = std::lower_bound(by_name.begin(), by_name.end(), name,
                             [&](size_t i, std::string_view wanted) { return entries()[i].name < wanted; });
  return at != by_name.end() && entries()[*at].name == name ? &entries()[*at] : nullptr;
}

Tensor GgufFile::tensor(std::string_view name) const {
  const Entry* entry = find(name);
  if (!entry) {
    std::vector<std::string_view> names;
    for (const Entry& e : entries()) names.push_back(e.name);
    fail(ErrorCode::not_found, "'", paths().front(), "' has no tensor ", quoted_name(name), " among its ", names.size(),
         nearest_names(name, names));
  }
  const Contents::Part& part = contents_->parts[entry->part];
  if (part.file)
    with_context([&] { return "reading " + gguf::in_file(*entry) + " of '" + paths()[entry->part] + "'"; },
                 [&] { part.file->load(entry->offset, entry->byte_count); });
  std::span<const std::byte> data = part.bytes.subspan(entry->offset, entry->byte_count);
  // The elements' C++ type wants its alignment, which a file with a smaller one need not give.
  const size_t alignment = is_block(entry->dtype) ? 1 : byte_size(entry->dtype);
  const bool is_grouped = entry->dtype == nvfp4;
  if (!part.is_swapped && !is_grouped && reinterpret_cast<uintptr_t>(data.data()) % alignment == 0)
    return Tensor::borrow(entry->dtype, entry->shape, data, part.owner);
  Tensor copy = Tensor::uninitialized(entry->dtype, entry->shape);
  if (data.empty()) return copy;
  std::byte* to = copy.mutable_data();
  if (is_grouped) gguf::nvfp4_from_file(data.data(), data.size(), to);
  else std::memcpy(to, data.data(), data.size());
  if (part.is_swapped) gguf::swap_bytes(entry->dtype, {to, data.size()});
  release_pages(Tensor::borrow(u8, {static_cast<int64_t>(data.size())}, data));
  return copy;
}

Tensor GgufFile::tensor(std::string_view name, DType dtype, const Shape& shape) const {
  Tensor t = tensor(name);
  if (t.dtype() != dtype || t.shape() != shape)
    fail(ErrorCode::shape_mismatch, "tensor ", quoted_name(name), " of '", paths().front(), "' is ", t.type(), ", but ",
         Type{dtype, Dims(shape.begin(), shape.end())}, " is needed; is this the file of another model or version?");
  return t;
}

NamedTensors GgufFile::tensors() const {
  NamedTensors all;
  for (const Entry& entry : entries()) all.emplace(entry.name, tensor(entry.name));
  return all;
}

}  // namespace rlx

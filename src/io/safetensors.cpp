// Safetensors files: 8 bytes with the length of the header, the header, then the tensors' data without a gap.
// What the header says is checked against the file here; tensors are then views of the mapped bytes.
#include <algorithm>
#include <bit>

#include "io/names_in_messages.h"
#include "io/safetensors_header.h"

namespace rlx {

static_assert(std::endian::native == std::endian::little, "the format is little-endian, and read without a copy");

struct SafetensorsFile::Contents {
  std::string path;
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> owner;
  std::shared_ptr<const FileBytes> file;  // of which a tensor is loaded when it is asked for
  std::vector<Entry> entries;
  std::vector<size_t> by_name;  // indices of entries, sorted
  Metadata metadata;
};

namespace {

constexpr size_t kPrefix = 8;  // the header's length
using Entry = SafetensorsFile::Entry;

std::string in_file(const Entry& entry) {
  return text_of("tensor ", quoted_name(entry.name), " (",
                 Type{entry.dtype, Dims(entry.shape.begin(), entry.shape.end())}, ", bytes ", entry.offset, " to ",
                 entry.offset + entry.byte_count, " of the file)");
}

// Files that people take for safetensors: a download that did not go as meant.
std::string what_it_is(std::span<const std::byte> bytes) {
  std::string_view text(reinterpret_cast<const char*>(bytes.data()), std::min<size_t>(bytes.size(), 64));
  if (text.starts_with("version https://git-lfs"))
    return "it is a Git LFS pointer, not the file itself; run `git lfs pull`, or download it again";
  if (text.starts_with("PK\3\4"))
    return "it looks like a zip archive, maybe a PyTorch checkpoint or .npz; convert it first";
  if (text.starts_with("GGUF")) return "it looks like a GGUF file";
  if (text.starts_with("\x93NUMPY")) return "it looks like a .npy file";
  if (text.starts_with("<")) return "it looks like a web page; download the file itself";
  return "the file is cut or damaged, or is no safetensors file; download or copy it again";
}

/// The length of the header, as the file says; 0 if it is too short to say it.
uint64_t header_bytes(std::span<const std::byte> bytes) {
  uint64_t length = 0;
  if (bytes.size() >= kPrefix)
    for (size_t i = 0; i < kPrefix; ++i) length |= std::to_integer<uint64_t>(bytes[i]) << (8 * i);
  return length;
}

std::string_view header_of(std::span<const std::byte> bytes) {
  if (bytes.size() < kPrefix)
    fail(ErrorCode::parse, "the file has ", bytes.size(), " bytes; a safetensors file begins with ", kPrefix,
         " that tell the length of its header; the file is cut, or is no safetensors file");
  const uint64_t length = header_bytes(bytes);
  if (length > bytes.size() - kPrefix || length > kSafetensorsHeaderLimit)
    fail(ErrorCode::parse, "bytes 0 to 8 tell of a header of ", length, " bytes, but the file has ",
         bytes.size() - kPrefix, " bytes after them, and a header at most ", kSafetensorsHeaderLimit, "; ",
         what_it_is(bytes));
  return {reinterpret_cast<const char*>(bytes.data()) + kPrefix, static_cast<size_t>(length)};
}

// Bytes that dtype and shape ask for.
uint64_t wanted_bytes(const SafetensorsHeader::Tensor& tensor) {
  try {
    auto bits = static_cast<uint64_t>(element_count(tensor.shape)) * static_cast<uint64_t>(info(tensor.dtype).bits);
    if (bits % 8 != 0)
      fail(ErrorCode::parse, element_count(tensor.shape), " elements of ", info(tensor.dtype).bits,
           " bits do not fill whole bytes");
    return bits / 8;
  } catch (const Error& error) {
    fail(ErrorCode::parse, "damaged header: tensor ", quoted_name(tensor.name),
         " has an impossible shape: ", error.what());
  }
}

// Entries in the order of their data, which must follow each other from `data_begin` to the end of the file:
// so no two overlap and no byte stands there unnamed (the format forbids both, as they could hide something).
std::vector<Entry> placed(SafetensorsHeader&& header, size_t data_begin, size_t file_size) {
  std::vector<SafetensorsHeader::Tensor>& tensors = header.tensors;
  std::stable_sort(tensors.begin(), tensors.end(),
                   [](const auto& a, const auto& b) { return std::pair(a.begin, a.end) < std::pair(b.begin, b.end); });
  std::vector<Entry> entries;
  entries.reserve(tensors.size());
  uint64_t next = 0;  // never near overflow: no tensor has more than 2^60 bytes, and a gap ends the loop
  for (SafetensorsHeader::Tensor& tensor : tensors) {
    auto refuse = [&](const auto&... parts) {
      fail(ErrorCode::parse, "damaged header: tensor ", quoted_name(tensor.name), " has data_offsets [", tensor.begin,
           ", ", tensor.end, "], ", parts...);
    };
    uint64_t bytes = wanted_bytes(tensor);
    Type type{tensor.dtype, Dims(tensor.shape.begin(), tensor.shape.end())};
    if (tensor.end < tensor.begin) refuse("which end before they begin");
    if (tensor.end - tensor.begin != bytes)
      refuse(tensor.end - tensor.begin, " bytes; its type ", type, " takes ", bytes);
    if (tensor.begin < next)
      refuse("but ", quoted_name(entries.back().name), " before it ends at ", next, "; tensors must not overlap");
    if (tensor.begin > next) refuse("but the data before it end at ", next, "; there must be no gap");
    next = tensor.end;
    entries.push_back({std::move(tensor.name), tensor.dtype, std::move(tensor.shape),
                       data_begin + static_cast<size_t>(tensor.begin), static_cast<size_t>(bytes)});
    if (next > file_size - data_begin)
      fail(ErrorCode::parse, "the file is cut: it has ", file_size, " bytes, but ", in_file(entries.back()),
           " is not whole; download or copy it again");
  }
  if (next != file_size - data_begin)
    fail(ErrorCode::parse, "the file has ", file_size, " bytes, but its tensors end at byte ", data_begin + next,
         "; the bytes behind belong to no tensor: the file or its header is damaged");
  return entries;
}

}  // namespace

SafetensorsFile SafetensorsFile::open(const std::string& path, FileAccess access) {
  auto file = access == FileAccess::mapped ? FileBytes::map(path) : FileBytes::open(path);
  const size_t size = file->bytes().size();
  file->load(0, std::min(size, kPrefix));
  if (size > kPrefix)
    file->load(0, kPrefix + std::min<uint64_t>(size - kPrefix, std::min<uint64_t>(header_bytes(file->bytes()),
                                                                                  kSafetensorsHeaderLimit)));
  auto opened = std::make_shared<Contents>(*read(file->bytes(), file, path).contents_);
  opened->file = std::move(file);
  return SafetensorsFile(std::move(opened));
}

SafetensorsFile SafetensorsFile::read(std::span<const std::byte> bytes, std::shared_ptr<const void> owner,
                                      std::string name) {
  auto contents = std::make_shared<Contents>();
  contents->path = std::move(name);
  contents->bytes = bytes;
  contents->owner = std::move(owner);
  with_context(
      [&] { return "reading the safetensors file '" + contents->path + "'"; },
      [&] {
        std::string_view text = header_of(bytes);
        SafetensorsHeader header = parse_safetensors_header(text);
        contents->metadata = std::move(header.metadata);
        contents->entries = placed(std::move(header), kPrefix + text.size(), bytes.size());
        const std::vector<Entry>& entries = contents->entries;
        std::vector<size_t>& by_name = contents->by_name;
        for (size_t i = 0; i < entries.size(); ++i) by_name.push_back(i);
        std::sort(by_name.begin(), by_name.end(),
                  [&](size_t a, size_t b) { return entries[a].name < entries[b].name; });
        auto twice = std::adjacent_find(by_name.begin(), by_name.end(),
                                        [&](size_t a, size_t b) { return entries[a].name == entries[b].name; });
        if (twice != by_name.end())
          fail(ErrorCode::parse, "damaged header: it has tensor ", quoted_name(entries[*twice].name), " twice");
      });
  return SafetensorsFile(std::move(contents));
}

const std::string& SafetensorsFile::path() const { return contents_->path; }
const std::vector<Entry>& SafetensorsFile::entries() const { return contents_->entries; }
const SafetensorsFile::Metadata& SafetensorsFile::metadata() const { return contents_->metadata; }

std::vector<std::string> SafetensorsFile::names() const {
  std::vector<std::string> names;
  for (const Entry& entry : entries()) names.push_back(entry.name);
  return names;
}

const Entry* SafetensorsFile::find(std::string_view name) const {
  const std::vector<size_t>& by_name = contents_->by_name;
  auto at = std::lower_bound(by_name.begin(), by_name.end(), name,
                             [&](size_t i, std::string_view wanted) { return entries()[i].name < wanted; });
  return at != by_name.end() && entries()[*at].name == name ? &entries()[*at] : nullptr;
}

Tensor SafetensorsFile::tensor(std::string_view name) const {
  const Entry* entry = find(name);
  if (!entry) {
    std::vector<std::string_view> names;
    for (const Entry& e : entries()) names.push_back(e.name);
    fail(ErrorCode::not_found, "'", path(), "' has no tensor ", quoted_name(name), " among its ", names.size(),
         nearest_names(name, names));
  }
  if (contents_->file)
    with_context([&] { return "reading " + in_file(*entry) + " of '" + path() + "'"; },
                 [&] { contents_->file->load(entry->offset, entry->byte_count); });
  std::span<const std::byte> data = contents_->bytes.subspan(entry->offset, entry->byte_count);
  if (entry->dtype == boolean) {
    // In C++ a bool of 2 is no bool: whoever reads the elements as such may do anything.
    auto bad = std::find_if(data.begin(), data.end(), [](std::byte b) { return b > std::byte{1}; });
    if (bad != data.end())
      fail(ErrorCode::parse, "byte ", bad - contents_->bytes.begin(), " of '", path(), "' is ",
           std::to_integer<int>(*bad), " in ", in_file(*entry),
           "; a bool is 0 or 1; the file is damaged, or the tensor is u8");
  }
  // The elements' C++ type wants its alignment. Only files whose header is not padded, or whose tensors are
  // not ordered as the reference implementation does, need the copy.
  size_t alignment = is_byte_sized(entry->dtype) ? std::min<size_t>(byte_size(entry->dtype), alignof(double)) : 1;
  if (entry->dtype == c64) alignment = alignof(float);
  if (reinterpret_cast<uintptr_t>(data.data()) % alignment != 0) {
    Tensor copy = Tensor::uninitialized(entry->dtype, entry->shape);
    if (!data.empty()) std::memcpy(copy.mutable_data(), data.data(), data.size());
    release_pages(Tensor::borrow(u8, {static_cast<int64_t>(data.size())}, data));
    return copy;
  }
  return Tensor::borrow(entry->dtype, entry->shape, data, contents_->owner);
}

Tensor SafetensorsFile::tensor(std::string_view name, DType dtype, const Shape& shape) const {
  Tensor t = tensor(name);
  if (t.dtype() != dtype || t.shape() != shape)
    fail(ErrorCode::shape_mismatch, "tensor ", quoted_name(name), " of '", path(), "' is ", t.type(), ", but ",
         Type{dtype, Dims(shape.begin(), shape.end())}, " is needed; is this the file of another model or version?");
  return t;
}

NamedTensors SafetensorsFile::tensors() const {
  NamedTensors all;
  for (const Entry& entry : entries()) all.emplace(entry.name, tensor(entry.name));
  return all;
}

}  // namespace rlx

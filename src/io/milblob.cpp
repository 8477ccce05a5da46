// MILBlob files, read and laid out; see the header. Every number in a file is checked before it is used.
#include "io/milblob.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "base/rounded_up.h"
#include "io/atomic_file.h"

namespace rlx {
namespace {

static_assert(std::endian::native == std::endian::little, "the format is little-endian, and read without a copy");

constexpr uint64_t kAlignment = 64, kHeaderBytes = 64, kRecordBytes = 64;
constexpr uint32_t kVersion = 2, kSentinel = 0xDEADBEEF;

// By code, beginning with 1.
constexpr DType kCodes[] = {f16, f32, u8, i8, bf16, i16, u16, i4, u1, u2, u4, u3, u6, i32, u32, f8e4m3fn, f8e5m2};

struct Header {
  uint32_t count, version;
  uint64_t reserved[7];
};
static_assert(sizeof(Header) == kHeaderBytes);

struct Record {
  uint32_t sentinel, dtype;
  uint64_t byte_count, data;
  uint64_t padding_bits;  // unused high bits of the last byte
  uint64_t reserved[4];
};
static_assert(sizeof(Record) == kRecordBytes);

uint32_t code_of(DType dtype) {
  for (uint32_t i = 0; i < std::size(kCodes); ++i)
    if (kCodes[i] == dtype) return i + 1;
  return 0;
}

// As the format packs them: sub-byte elements one after another, without regard to rows or our groups of whole bytes.
uint64_t packed_bytes(DType dtype, int64_t count) {
  return (static_cast<uint64_t>(count) * static_cast<uint64_t>(info(dtype).bits) + 7) / 8;
}

size_t hash_bytes(std::span<const std::byte> bytes) {
  size_t h = bytes.size(), i = 0;
  for (; i + 8 <= bytes.size(); i += 8) {
    uint64_t word;
    std::memcpy(&word, bytes.data() + i, 8);
    h = (std::rotl(h, 29) ^ word) * 0x9e3779b97f4a7c15ull;
  }
  for (; i < bytes.size(); ++i) h = (std::rotl(h, 29) ^ std::to_integer<uint64_t>(bytes[i])) * 0x9e3779b97f4a7c15ull;
  return h ^ (h >> 32);
}

}  // namespace

bool is_blob_dtype(DType dtype) { return code_of(dtype) != 0; }

MilBlobFile MilBlobFile::open(const std::string& path) {
  auto file = FileBytes::open(path);
  file->load(0, std::min<size_t>(kHeaderBytes, file->bytes().size()));
  MilBlobFile opened = read(file->bytes(), file, path);
  opened.file_ = std::move(file);
  return opened;
}

MilBlobFile MilBlobFile::read(std::span<const std::byte> bytes, std::shared_ptr<const void> owner, std::string name) {
  MilBlobFile file;
  file.path_ = std::move(name);
  file.bytes_ = bytes;
  file.owner_ = std::move(owner);
  if (bytes.size() < kHeaderBytes)
    fail(ErrorCode::parse, "'", file.path_, "' has ", bytes.size(), " bytes; a file of weights begins with ",
         kHeaderBytes, "; it is cut, or is no file of weights");
  Header header;
  std::memcpy(&header, bytes.data(), sizeof header);
  if (header.version != kVersion)
    fail(ErrorCode::parse, "'", file.path_, "' is of storage version ", header.version, "; ML Programs use version ",
         kVersion, "; it is damaged, or belongs to a neural network of the older kind");
  file.count_ = header.count;
  return file;
}

MilBlobFile::Entry MilBlobFile::at(uint64_t offset) const {
  auto refuse = [&](const auto&... parts) {
    fail(ErrorCode::parse, "the blob at byte ", offset, " of '", path_, "' (", bytes_.size(), " bytes) ", parts...,
         "; the file is cut or damaged, or does not belong to this model");
  };
  if (offset < kHeaderBytes || offset % kAlignment != 0)
    refuse("is none: blobs stand at multiples of 64, behind the header");
  if (offset > bytes_.size() || bytes_.size() - offset < kRecordBytes) refuse("lies behind the end");
  if (file_) file_->load(offset, kRecordBytes);
  Record record;
  std::memcpy(&record, bytes_.data() + offset, sizeof record);
  if (record.sentinel != kSentinel) refuse("does not begin with the mark of a record");
  if (record.dtype == 0 || record.dtype > std::size(kCodes))
    refuse("has element type ", record.dtype, "; there are 1 to ", std::size(kCodes));
  if (record.data < offset + kRecordBytes || record.data % kAlignment != 0)
    refuse("has its data at byte ", record.data, ", which is not behind its record at a multiple of 64");
  if (record.data > bytes_.size() || record.byte_count > bytes_.size() - record.data)
    refuse("has ", record.byte_count, " bytes of data at byte ", record.data, ", which end behind the file");
  DType dtype = kCodes[record.dtype - 1];
  auto bits = static_cast<uint64_t>(info(dtype).bits);
  uint64_t padding = 0;
  if (bits < 8) {
    // Padding is less than a byte, and what files from before sub-byte types have there is no padding of those.
    padding = record.padding_bits;
    if (padding >= 8 || padding > record.byte_count * 8) refuse("has ", padding, " unused bits in its last byte");
  }
  uint64_t used = record.byte_count * 8 - padding;
  if (used % bits != 0) refuse("has ", record.byte_count, " bytes of data, no whole number of elements of ", dtype);
  return {dtype, offset, record.data, record.byte_count, static_cast<int64_t>(used / bits)};
}

std::vector<MilBlobFile::Entry> MilBlobFile::entries() const {
  std::vector<Entry> all;
  uint64_t next = kHeaderBytes;
  for (uint32_t i = 0; i < count_; ++i) {  // each takes at least 64 bytes of the file, so a wrong count ends soon
    if (next >= bytes_.size())
      fail(ErrorCode::parse, "the header of '", path_, "' tells of ", count_, " blobs, and there are ", i,
           "; the file is cut or damaged");
    Entry entry = at(next);
    next = rounded_up(entry.data + entry.byte_count, kAlignment);
    all.push_back(entry);
  }
  if (next < bytes_.size())
    fail(ErrorCode::parse, "the header of '", path_, "' tells of ", count_, " blobs, which end at byte ", next,
         "; the file has ", bytes_.size(), " bytes and is damaged");
  return all;
}

Tensor MilBlobFile::tensor(uint64_t offset, DType dtype, const Shape& shape) const {
  Entry entry = at(offset);
  Type wanted{dtype, Dims(shape.begin(), shape.end())};
  if (entry.dtype != dtype || entry.count != rlx::element_count(shape))
    fail(ErrorCode::parse, "the blob at byte ", offset, " of '", path_, "' has ", entry.count, " elements of ",
         entry.dtype, ", but ", wanted, " is read from it; the file is damaged, or does not belong to this model");
  if (file_) file_->load(entry.data, entry.byte_count);
  std::span<const std::byte> data = bytes_.subspan(entry.data, entry.byte_count);
  size_t alignment = is_byte_sized(dtype) ? byte_size(dtype) : 1;
  bool fits = rlx::byte_count(dtype, shape) == data.size();
  if (fits && reinterpret_cast<uintptr_t>(data.data()) % alignment == 0)
    return Tensor::borrow(dtype, shape, data, owner_);
  Tensor copy(dtype, shape);  // of 3 and 6 bits ours are whole groups of bytes
  if (!data.empty()) std::memcpy(copy.mutable_data(), data.data(), data.size());
  return copy;
}

uint64_t MilBlobLayout::byte_count() const {
  if (blobs_.empty()) return kHeaderBytes;
  const Blob& last = blobs_.back();
  return last.record + kRecordBytes +
         packed_bytes(last.tensor.dtype(), static_cast<int64_t>(last.tensor.element_count()));
}

uint64_t MilBlobLayout::add(const Tensor& tensor) {
  if (!is_blob_dtype(tensor.dtype()))
    fail(ErrorCode::unsupported, "a file of weights has no elements of ", tensor.dtype(), ", as in ", tensor.type());
  size_t hash = mix(hash_bytes(tensor.bytes()), static_cast<size_t>(tensor.dtype()));
  for (auto [at, end] = by_hash_.equal_range(hash); at != end; ++at) {
    const Blob& other = blobs_[at->second];
    if (other.tensor.dtype() == tensor.dtype() && other.tensor.element_count() == tensor.element_count() &&
        std::equal(tensor.bytes().begin(), tensor.bytes().end(), other.tensor.bytes().begin()))
      return other.record;
  }
  if (blobs_.size() == std::numeric_limits<uint32_t>::max())
    fail(ErrorCode::unsupported, "a file of weights cannot have more than ", blobs_.size(), " blobs");
  uint64_t record = blobs_.empty() ? kHeaderBytes : rounded_up(byte_count(), kAlignment);
  by_hash_.emplace(hash, blobs_.size());
  blobs_.push_back({tensor, record, hash});
  return record;
}

size_t MilBlobLayout::hash() const {
  size_t h = blobs_.size();
  for (const Blob& blob : blobs_) h = mix(h, blob.hash);
  return h;
}

const Tensor* MilBlobLayout::find(uint64_t record) const {
  auto at = std::lower_bound(blobs_.begin(), blobs_.end(), record,
                             [](const Blob& blob, uint64_t wanted) { return blob.record < wanted; });
  return at != blobs_.end() && at->record == record ? &at->tensor : nullptr;
}

void MilBlobLayout::write(AtomicFile& file) const {
  Header header{static_cast<uint32_t>(blobs_.size()), kVersion, {}};
  file.write(std::as_bytes(std::span(&header, 1)));
  constexpr std::byte kZeros[kAlignment] = {};
  uint64_t position = kHeaderBytes;
  for (const Blob& blob : blobs_) {
    const Tensor& t = blob.tensor;
    auto count = static_cast<int64_t>(t.element_count());
    uint64_t bytes = packed_bytes(t.dtype(), count), bits = static_cast<uint64_t>(info(t.dtype()).bits);
    file.write(std::span(kZeros, blob.record - position));
    Record record{kSentinel,
                  code_of(t.dtype()),
                  bytes,
                  blob.record + kRecordBytes,
                  bytes * 8 - bits * static_cast<uint64_t>(count),
                  {}};
    file.write(std::as_bytes(std::span(&record, 1)));
    file.write(t.bytes().first(bytes));
    position = record.data + bytes;
  }
}

}  // namespace rlx

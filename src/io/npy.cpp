// .npy files: one array of NumPy's. What stands little-endian and in C order is borrowed, the rest is put in
// order.
#include <algorithm>
#include <bit>

#include "io/atomic_file.h"
#include "io/names_in_messages.h"
#include "io/npy_header.h"
#include "rlx/io.h"

namespace rlx {

static_assert(std::endian::native == std::endian::little, "little-endian data are read without a copy");

namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
// A header for our dtypes has some 130 bytes and at most 64 extents of 20 digits; NumPy itself refuses
// 10,000.
constexpr size_t kMostHeaderBytes = kMostNpyStart - 12;

// `t` has the bytes of an array whose first index varies fastest; the result has them in our order.
Tensor from_fortran_order(const Tensor& t) {
  std::vector<int64_t> strides;
  auto step = static_cast<int64_t>(byte_size(t.dtype()));
  for (int64_t extent : t.shape()) {
    strides.push_back(step);
    step *= extent;
  }
  return Tensor::from_strided(t.dtype(), t.shape(), t.data(), strides);
}

void swap_bytes(Tensor& t) {
  size_t size = byte_size(real_part(t.dtype()));  // of a complex number each part is swapped by itself
  std::byte* data = t.mutable_data();
  for (size_t i = 0; i < t.byte_count(); i += size) std::reverse(data + i, data + i + size);
}

}  // namespace

NpyStart parse_npy_start(std::span<const std::byte> bytes, uint64_t file_bytes) {
  std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (text.size() < 10 || !text.starts_with(kMagic))
    fail(ErrorCode::parse, "the file has ", file_bytes, " bytes and ",
         text.starts_with(kMagic) ? "ends within the header" : "does not begin with \\x93NUMPY, as .npy files do",
         text.starts_with("PK\3\4") ? "; it looks like a .npz archive" : "");
  auto byte = [&](size_t i) { return std::to_integer<size_t>(bytes[i]); };
  size_t major = byte(6), minor = byte(7);
  if (major < 1 || major > 3 || minor != 0)
    fail(ErrorCode::unsupported, "the file has version ", major, ".", minor,
         " of the .npy format; 1.0, 2.0 and 3.0 are known");
  size_t begin = major == 1 ? 10 : 12;
  size_t length = byte(8) | byte(9) << 8;
  if (major > 1 && text.size() >= begin) length |= byte(10) << 16 | byte(11) << 24;
  if (text.size() < begin || length > text.size() - begin)
    fail(ErrorCode::parse, "byte 8 tells of a header of ", length, " bytes, but the file has ", file_bytes,
         " bytes in all; it is cut or damaged");
  if (length > kMostHeaderBytes)
    fail(ErrorCode::parse, "byte 8 tells of a header of ", length, " bytes; no tensor needs more than ",
         kMostHeaderBytes);
  NpyStart start{parse_npy_header(text.substr(begin, length), begin), begin + length, 0};
  try {
    start.data_bytes = byte_count(start.header.dtype, start.header.shape);
  } catch (const Error& error) {
    fail(ErrorCode::parse, "damaged header: the shape is impossible: ", error.what());
  }
  const uint64_t there = file_bytes - start.data_begin;
  if (there != start.data_bytes)
    fail(ErrorCode::parse, "the header tells of ", start.type(), ", ", start.data_bytes, " bytes from byte ",
         start.data_begin, " on, but the file has ", there, " there; ",
         there < start.data_bytes ? "it is cut: copy it again" : "it is damaged, or holds more than one array");
  return start;
}

namespace {

Tensor parse(std::span<const std::byte> bytes, std::shared_ptr<const void> owner) {
  const NpyStart start = parse_npy_start(bytes, bytes.size());
  const NpyHeader& header = start.header;
  const size_t wanted = start.data_bytes;
  const std::span<const std::byte> data = bytes.subspan(start.data_begin);
  if (header.dtype == boolean) {
    // In C++ a bool of 2 is no bool: whoever reads the elements as such may do anything.
    auto bad = std::find_if(data.begin(), data.end(), [](std::byte b) { return b > std::byte{1}; });
    if (bad != data.end())
      fail(ErrorCode::parse, "byte ", bad - bytes.begin(), " is ", std::to_integer<int>(*bad),
           " in an array of bool, which holds 0 and 1; the file is damaged, or the array is uint8");
  }

  size_t alignment = std::min<size_t>(byte_size(real_part(header.dtype)), alignof(double));
  Tensor t;
  if (reinterpret_cast<uintptr_t>(data.data()) % alignment == 0) {
    t = Tensor::borrow(header.dtype, header.shape, data, std::move(owner));
  } else {  // a header padded to 16 bytes, as version 1.0 asks, in memory that is not; or one that is not
            // padded
    t = Tensor::uninitialized(header.dtype, header.shape);
    if (wanted) std::memcpy(t.mutable_data(), data.data(), wanted);
  }
  if (header.fortran_order && t.rank() > 1) t = from_fortran_order(t);
  if (header.big_endian && byte_size(t.dtype()) > 1) swap_bytes(t);
  return t;
}

}  // namespace

Tensor parse_npy(std::span<const std::byte> bytes, std::shared_ptr<const void> owner, const std::string& name) {
  return with_context([&] { return "reading the .npy file '" + name + "'"; },
                      [&] { return parse(bytes, std::move(owner)); });
}

Tensor read_npy(const std::string& path) {
  auto file = FileBytes::read(path);
  return parse_npy(file->bytes(), file, path);
}

Type read_npy_type(const std::string& path) {
  auto file = FileBytes::open(path);
  file->load(0, std::min(file->bytes().size(), kMostNpyStart));
  return with_context([&] { return "reading the .npy file '" + path + "'"; },
                      [&] { return parse_npy_start(file->bytes(), file->bytes().size()).type(); });
}

void write_npy(const std::string& path, const Tensor& tensor) {
  with_context([&] { return "writing the .npy file '" + path + "'"; },
               [&] {
                 std::string header = npy_header_text(tensor.dtype(), tensor.shape());
                 AtomicFile file(path);
                 file.write(header);
                 file.write(tensor.bytes());
                 file.commit();
               });
}

}  // namespace rlx

// IDX files, the format of MNIST; see rlx/data.h.
#include <algorithm>

#include "rlx/data.h"

namespace rlx {
namespace {

constexpr size_t kMostRank = 16;

DType dtype_of_code(unsigned code) {
  switch (code) {
    case 0x08: return u8;
    case 0x09: return i8;
    case 0x0b: return i16;
    case 0x0c: return i32;
    case 0x0d: return f32;
    case 0x0e: return f64;
    default: break;
  }
  fail(ErrorCode::parse, "byte 2 is ", code,
       ", which is no type of IDX: 8 (u8), 9 (i8), 11 (i16), 12 (i32), 13 (f32), "
       "14 (f64)");
}

Tensor parse(std::span<const std::byte> bytes) {
  auto byte = [&](size_t i) { return std::to_integer<unsigned>(bytes[i]); };
  if (bytes.size() < 4)
    fail(ErrorCode::parse, "the file has ", bytes.size(), " bytes; an IDX file begins with 4: copy it again");
  if (byte(0) == 0x1f && byte(1) == 0x8b)
    fail(ErrorCode::parse, "the file is compressed by gzip; unpack it first: gunzip FILE");
  if (byte(0) != 0 || byte(1) != 0)
    fail(ErrorCode::parse, "the first two bytes are ", byte(0), " and ", byte(1), "; in an IDX file they are 0");
  DType dtype = dtype_of_code(byte(2));
  size_t rank = byte(3), begin = 4 + 4 * rank;
  if (rank > kMostRank)
    fail(ErrorCode::unsupported, "byte 3 tells of ", rank, " dims; at most ", kMostRank, " are read");
  if (bytes.size() < begin)
    fail(ErrorCode::parse, "the header of ", rank, " dims takes ", begin, " bytes, but the file has ", bytes.size(),
         "; it is cut: copy it again");
  Shape shape;
  for (size_t d = 0; d < rank; ++d) {
    size_t at = 4 + 4 * d;
    shape.push_back(int64_t{byte(at)} << 24 | byte(at + 1) << 16 | byte(at + 2) << 8 | byte(at + 3));
  }
  size_t wanted = 0;
  try {
    wanted = byte_count(dtype, shape);
  } catch (const Error& error) {
    fail(ErrorCode::parse, "damaged header: the shape is impossible: ", error.what());
  }
  if (bytes.size() - begin != wanted)
    fail(ErrorCode::parse, "the header tells of ", Type{dtype, Dims(shape.begin(), shape.end())}, ", ", wanted,
         " bytes from byte ", begin, " on, but the file has ", bytes.size() - begin, " there; ",
         bytes.size() - begin < wanted ? "it is cut: copy it again" : "it is damaged, or holds more than one array");
  Tensor t = Tensor::uninitialized(dtype, shape);
  std::byte* to = t.mutable_data();
  if (wanted) std::copy(bytes.begin() + static_cast<std::ptrdiff_t>(begin), bytes.end(), to);
  if (size_t size = byte_size(dtype); size > 1)  // we are little-endian: io/npy.cpp asserts it
    for (size_t i = 0; i < wanted; i += size) std::reverse(to + i, to + i + size);
  return t;
}

}  // namespace

Tensor parse_idx(std::span<const std::byte> bytes, const std::string& name) {
  return with_context([&] { return "reading the IDX file '" + name + "'"; }, [&] { return parse(bytes); });
}

Tensor read_idx(const std::string& path) {
  auto file = FileBytes::read(path);
  return parse_idx(file->bytes(), path);
}

}  // namespace rlx

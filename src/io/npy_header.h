// The header of a .npy file: a Python dictionary as text, read by a parser that knows no more Python than
// NumPy writes. (The reference is NumPy's documentation, "numpy.lib.format".)
#pragma once

#include <string>
#include <string_view>

#include "rlx/tensor.h"

namespace rlx {

struct NpyHeader {
  DType dtype = f32;
  bool big_endian = false;
  bool fortran_order = false;  ///< the first index varies fastest
  Shape shape;
};

/// What stands before the elements of a file.
struct NpyStart {
  NpyHeader header;
  size_t data_begin = 0, data_bytes = 0;
  Type type() const { return {header.dtype, Dims(header.shape.begin(), header.shape.end())}; }
};
/// The bytes within which the header of any array that is a tensor ends.
inline constexpr size_t kMostNpyStart = (size_t{1} << 16) + 12;
/// `bytes` are the first `kMostNpyStart` bytes of a file of `file_bytes`, or all if it has fewer; more do no harm.
NpyStart parse_npy_start(std::span<const std::byte> bytes, uint64_t file_bytes);

/// `text` is the dictionary; `offset` is where it stands in the file, for messages.
NpyHeader parse_npy_header(std::string_view text, size_t offset);
/// The whole header with magic string, version and padding, byte for byte as NumPy 2 writes it for an array
/// in C order. Fails for a dtype that NumPy does not have.
std::string npy_header_text(DType, const Shape&);

}  // namespace rlx

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

/// `text` is the dictionary; `offset` is where it stands in the file, for messages.
NpyHeader parse_npy_header(std::string_view text, size_t offset);
/// The whole header with magic string, version and padding, byte for byte as NumPy 2 writes it for an array
/// in C order. Fails for a dtype that NumPy does not have.
std::string npy_header_text(DType, const Shape&);

}  // namespace rlx

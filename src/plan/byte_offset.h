// From elements to bytes, also of packed rows.
#pragma once

#include <cstdint>

#include "rlx/dtype.h"

namespace rlx {

/// Bytes from the first element of a row, or of a block, to one so many elements on that is the first of one too. Of
/// blocks strides and offsets count elements as well: whole rows of them move, so that they are multiples of a block.
inline int64_t byte_offset(DType dtype, int64_t elements) {
  return elements / info(dtype).block_elements * info(dtype).block_bytes;
}

}  // namespace rlx

// See the header.
#include "support/compare.h"

#include <cstring>

namespace rlx {

Tensor golden_tensor(const Type& type, Tensor stored) {
  if (stored.dtype() != u8 || type.dtype == u8) return stored;
  // A copy: the bytes may lie anywhere, and elements of several bytes must be aligned.
  Tensor t = Tensor::uninitialized(type.dtype, shape_of(type.dims));
  if (t.byte_count() != stored.byte_count())
    fail(ErrorCode::invalid_argument, stored.byte_count(), " bytes are stored for ", type, ", which takes ",
         t.byte_count());
  if (t.byte_count()) std::memcpy(t.mutable_data(), stored.data(), t.byte_count());
  return t;
}

}  // namespace rlx

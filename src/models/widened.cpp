// See the header.
#include "models/widened.h"

#include <cstring>
#include <vector>

#include "rlx/element.h"

namespace rlx {

Tensor models::widened(const Tensor& t) {
  // By a table of all of them.
  std::vector<float> values(size_t{1} << 16);
  for (size_t bits = 0; bits < values.size(); ++bits) values[bits] = static_cast<float>(decode_float(t.dtype(), bits));
  Tensor wide = Tensor::uninitialized(f32, t.shape());
  auto to = wide.mutable_values<float>();
  for (size_t i = 0; i < to.size(); ++i) {
    uint16_t bits = 0;
    std::memcpy(&bits, t.data() + 2 * i, 2);
    to[i] = values[bits];
  }
  return wide;
}

}  // namespace rlx

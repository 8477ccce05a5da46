// Random numbers on the host; see rlx/data.h.
#include <cmath>

#include "ops/random/random_bits.h"
#include "rlx/data.h"

namespace rlx {

uint32_t RandomStream::next() {
  if (left_ == 0) {
    block_ = philox_4x32_10<uint32_t>(counter_, key_);
    ++counter_[0];
    left_ = 4;
  }
  return block_[4 - left_--];
}

uint64_t RandomStream::below(uint64_t n) {
  uint64_t low = next(), bits = uint64_t{next()} << 32 | low;
  __extension__ using Wide = unsigned __int128;
  return static_cast<uint64_t>(Wide{bits} * n >> 64);
}

double RandomStream::normal() {
  // 1 - u is never 0, so the logarithm is finite.
  double radius = std::sqrt(-2 * std::log(1 - uniform()));
  return radius * std::cos(2 * M_PI * uniform());
}

std::vector<int64_t> shuffled(int64_t size, RandomStream random) {
  if (size < 0) fail(ErrorCode::invalid_argument, "cannot shuffle ", size, " numbers");
  std::vector<int64_t> order(static_cast<size_t>(size));
  for (int64_t i = 0; i < size; ++i) order[static_cast<size_t>(i)] = i;
  for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random.below(i)]);
  return order;
}

}  // namespace rlx

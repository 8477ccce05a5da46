// See the header. Vectors have 128 bits, which every target has: wider ones would gain nothing, as memory bandwidth is
// the limit.
#include "kernels/index/scatter_add.h"

#include "kernels/vector/highway_targets.h"

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace rlx::kernels {
namespace HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

/// An element consists of kNumbers numbers (2 if it is complex).
template <class T, int64_t kNumbers = 1>
void add_numbers(void* into, const void* from, int64_t count) noexcept {
  const hn::Full128<T> d;
  constexpr int64_t lanes = 16 / sizeof(T);
  auto* to = static_cast<T*>(into);
  const auto* x = static_cast<const T*>(from);
  const int64_t n = count * kNumbers;
  int64_t i = 0;
  for (; i + 2 * lanes <= n; i += 2 * lanes) {
    const auto a = hn::Add(hn::LoadU(d, to + i), hn::LoadU(d, x + i));
    const auto b = hn::Add(hn::LoadU(d, to + i + lanes), hn::LoadU(d, x + i + lanes));
    hn::StoreU(a, d, to + i);
    hn::StoreU(b, d, to + i + lanes);
  }
  for (; i < n; ++i) to[i] = static_cast<T>(to[i] + x[i]);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace rlx::kernels
HWY_AFTER_NAMESPACE();

namespace rlx::kernels {
namespace {

void or_run(void* into, const void* from, int64_t count) noexcept {
  auto* to = static_cast<uint8_t*>(into);
  for (int64_t i = 0; i < count; ++i) to[i] = to[i] | static_cast<const uint8_t*>(from)[i];
}

}  // namespace

AddRun add_run(DType dtype) {
  using namespace HWY_NAMESPACE;
  switch (dtype) {
    case DType::boolean: return or_run;
    case DType::i8:
    case DType::u8: return add_numbers<uint8_t>;
    case DType::i16:
    case DType::u16: return add_numbers<uint16_t>;
    case DType::i32:
    case DType::u32: return add_numbers<uint32_t>;
    case DType::i64:
    case DType::u64: return add_numbers<uint64_t>;
    case DType::f32: return add_numbers<float>;
    case DType::f64: return add_numbers<double>;
    case DType::c64: return add_numbers<float, 2>;
    case DType::c128: return add_numbers<double, 2>;
    default: return nullptr;
  }
}

}  // namespace rlx::kernels

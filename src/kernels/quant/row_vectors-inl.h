// Vectors of numbers of a row, as rows are quantized (quantized_rows.cpp) and epilogues read them
// (dynamic_epilogue.cpp). Compiled once for each instruction set.
#if defined(RLX_KERNELS_QUANT_ROW_VECTORS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef RLX_KERNELS_QUANT_ROW_VECTORS_INL_H_
#undef RLX_KERNELS_QUANT_ROW_VECTORS_INL_H_
#else
#define RLX_KERNELS_QUANT_ROW_VECTORS_INL_H_
#endif

#include <cstdint>
#include <cstring>

#include "hwy/highway.h"
#include "kernels/vector/narrow_float-inl.h"

HWY_BEFORE_NAMESPACE();
namespace rlx::kernels {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using DRow = hn::CappedTag<float, 16>;
using DBits = hn::Rebind<int32_t, DRow>;

/// The first `count` elements, and zeros.
template <class X>
HWY_INLINE hn::Vec<DRow> load_some(const X* from, int64_t count) {
  HWY_ALIGN X values[16] = {};
  std::memcpy(values, from, static_cast<size_t>(count) * sizeof(X));
  return load_f32(DRow(), values);
}

}  // namespace HWY_NAMESPACE
}  // namespace rlx::kernels
HWY_AFTER_NAMESPACE();

#endif  // RLX_KERNELS_QUANT_ROW_VECTORS_INL_H_

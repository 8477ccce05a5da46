// See the header. A row of outputs reads two rows of x and separates their even and odd elements. The last vector of a
// row may overlap the one before it: it computes the same results again.
#include "kernels/reduce/pool_2x2.h"

#include <algorithm>
#include <type_traits>

#include "kernels/vector/highway_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/reduce/pool_2x2.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace rlx::kernels {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

/// Calls f(tag, index of the first output) for all n outputs of a row: vectors where the row is long enough, else
/// single lanes.
template <class F>
HWY_INLINE void over_row(int64_t n, F f) {
  const auto by = [&](auto d) HWY_ATTR {
    const auto lanes = static_cast<int64_t>(hn::Lanes(d));
    if (n < lanes) return false;
    for (int64_t i = 0; i + lanes <= n; i += lanes) f(d, i);
    if (n % lanes != 0) f(d, n - lanes);
    return true;
  };
  if (by(hn::CappedTag<float, 8>()) || by(hn::CappedTag<float, 4>())) return;
  for (int64_t i = 0; i < n; ++i) f(hn::CappedTag<float, 1>(), i);
}

/// A NaN in `best` stays; otherwise the later element wins unless `best` is better.
template <bool kLargest>
void reduce_row(const float* top, const float* bottom, float* y, int64_t n) {
  over_row(n, [&](auto d, int64_t i) HWY_ATTR {
    using V = hn::Vec<decltype(d)>;
    const auto better = [](V best, V next) HWY_ATTR {
      const auto stays = kLargest ? hn::Gt(best, next) : hn::Lt(best, next);
      return hn::IfThenElse(hn::Or(hn::IsNaN(best), stays), best, next);
    };
    V a, b, c, e;
    hn::LoadInterleaved2(d, top + 2 * i, a, b);
    hn::LoadInterleaved2(d, bottom + 2 * i, c, e);
    hn::StoreU(better(better(better(a, b), c), e), d, y + i);
  });
}

/// For bytes: combines the two rows, then the even and the odd elements of the result, which share 16-bit lanes.
template <class T, bool kLargest>
void reduce_byte_row(const T* top, const T* bottom, T* y, int64_t n) {
  const auto by = [&](auto d) HWY_ATTR {  // d: lanes of int16_t
    const hn::Repartition<T, decltype(d)> bytes;
    const hn::Rebind<T, decltype(d)> out;
    const auto lanes = static_cast<int64_t>(hn::Lanes(d));
    if (n < lanes) return false;
    const auto at = [&](int64_t i) HWY_ATTR {
      const auto a = hn::LoadU(bytes, top + 2 * i), b = hn::LoadU(bytes, bottom + 2 * i);
      const auto pairs = hn::BitCast(d, kLargest ? hn::Max(a, b) : hn::Min(a, b));
      auto even = hn::And(pairs, hn::Set(d, 0xff)), odd = pairs;
      if constexpr (std::is_signed_v<T>) {
        even = hn::ShiftRight<8>(hn::ShiftLeft<8>(pairs)), odd = hn::ShiftRight<8>(pairs);
      } else {
        odd = hn::BitCast(d, hn::ShiftRight<8>(hn::BitCast(hn::RebindToUnsigned<decltype(d)>(), pairs)));
      }
      hn::StoreU(hn::DemoteTo(out, kLargest ? hn::Max(even, odd) : hn::Min(even, odd)), out, y + i);
    };
    for (int64_t i = 0; i + lanes <= n; i += lanes) at(i);
    if (n % lanes != 0) at(n - lanes);
    return true;
  };
  if (by(hn::CappedTag<int16_t, 16>()) || by(hn::CappedTag<int16_t, 8>()) || by(hn::CappedTag<int16_t, 4>())) return;
  for (int64_t i = 0; i < n; ++i) {
    const T a = kLargest ? std::max(top[2 * i], top[2 * i + 1]) : std::min(top[2 * i], top[2 * i + 1]);
    const T b = kLargest ? std::max(bottom[2 * i], bottom[2 * i + 1]) : std::min(bottom[2 * i], bottom[2 * i + 1]);
    y[i] = kLargest ? std::max(a, b) : std::min(a, b);
  }
}

template <Kept kKept>
void select_row(const float* top, const float* bottom, const float* source, float* y_top, float* y_bottom, int64_t n) {
  over_row(n, [&](auto d, int64_t i) HWY_ATTR {
    using V = hn::Vec<decltype(d)>;
    const auto stays = [](V best, V next) HWY_ATTR {
      switch (kKept) {
        case Kept::first_max: return hn::Ge(best, next);
        case Kept::last_max: return hn::Gt(best, next);
        case Kept::first_min: return hn::Le(best, next);
        default: return hn::Lt(best, next);
      }
    };
    V a, b, c, e;
    hn::LoadInterleaved2(d, top + 2 * i, a, b);
    hn::LoadInterleaved2(d, bottom + 2 * i, c, e);
    const V ct = hn::LoadU(d, source + i);
    // If an earlier element stays selected, the later one gets 0; otherwise all earlier ones get 0.
    const auto first = stays(a, b);
    const V one = hn::IfThenElse(first, a, b);
    const auto upper = stays(one, c);
    const V two = hn::IfThenElse(upper, one, c);
    const auto three = stays(two, e);
    const V in_three = hn::IfThenElseZero(three, ct), in_upper = hn::IfThenElseZero(upper, in_three);
    hn::StoreInterleaved2(hn::IfThenElseZero(first, in_upper), hn::IfThenZeroElse(first, in_upper), d, y_top + 2 * i);
    hn::StoreInterleaved2(hn::IfThenZeroElse(upper, in_three), hn::IfThenZeroElse(three, ct), d, y_bottom + 2 * i);
  });
}

void reduce_max_row(const float* top, const float* bottom, float* y, int64_t n) { reduce_row<true>(top, bottom, y, n); }
void reduce_min_row(const float* top, const float* bottom, float* y, int64_t n) {
  reduce_row<false>(top, bottom, y, n);
}

void reduce_max_i8_row(const int8_t* top, const int8_t* bottom, int8_t* y, int64_t n) {
  reduce_byte_row<int8_t, true>(top, bottom, y, n);
}
void reduce_min_i8_row(const int8_t* top, const int8_t* bottom, int8_t* y, int64_t n) {
  reduce_byte_row<int8_t, false>(top, bottom, y, n);
}
void reduce_max_u8_row(const uint8_t* top, const uint8_t* bottom, uint8_t* y, int64_t n) {
  reduce_byte_row<uint8_t, true>(top, bottom, y, n);
}
void reduce_min_u8_row(const uint8_t* top, const uint8_t* bottom, uint8_t* y, int64_t n) {
  reduce_byte_row<uint8_t, false>(top, bottom, y, n);
}

void select_kept_row(Kept kept, const float* top, const float* bottom, const float* source, float* y_top,
                     float* y_bottom, int64_t n) {
  switch (kept) {
    case Kept::first_max: return select_row<Kept::first_max>(top, bottom, source, y_top, y_bottom, n);
    case Kept::last_max: return select_row<Kept::last_max>(top, bottom, source, y_top, y_bottom, n);
    case Kept::first_min: return select_row<Kept::first_min>(top, bottom, source, y_top, y_bottom, n);
    case Kept::last_min: return select_row<Kept::last_min>(top, bottom, source, y_top, y_bottom, n);
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace rlx::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rlx::kernels {
namespace {

HWY_EXPORT(reduce_max_row);
HWY_EXPORT(reduce_min_row);
HWY_EXPORT(reduce_max_i8_row);
HWY_EXPORT(reduce_min_i8_row);
HWY_EXPORT(reduce_max_u8_row);
HWY_EXPORT(reduce_min_u8_row);
HWY_EXPORT(select_kept_row);

/// Windows of 2 x 2 with stride 2 in the last two dims, of size 1 in all others.
template <class Args>
bool has_2x2_windows(const Args& a, const int64_t* dilation) {
  if (a.rank < 2) return false;
  for (int d = 0; d < a.rank; ++d) {
    const int64_t size = d >= a.rank - 2 ? 2 : 1;
    if (a.window[d] != size || a.stride[d] != size || a.low[d] != 0 || dilation[d] != 1 ||
        a.out_dims[d] * size > a.x_dims[d] || a.out_dims[d] == 0)
      return false;
  }
  return true;
}

}  // namespace

bool is_pool_2x2(const ReduceWindowArgs& a) {
  const bool spread = std::any_of(a.base_dilation, a.base_dilation + a.rank, [](int64_t by) { return by != 1; });
  const bool has_kernel = a.dtype == f32 || a.dtype == i8 || a.dtype == u8;
  return has_kernel && (a.op == ReduceOp::max || a.op == ReduceOp::min) && !spread &&
         has_2x2_windows(a, a.window_dilation) && a.x_strides[a.rank - 1] == 1;
}
bool is_pool_2x2(const SelectAndScatterArgs& a) {
  // Planes of x and of source are counted alike: negative padding would leave fewer planes of source.
  for (int d = 0; d < a.rank - 2; ++d)
    if (a.out_dims[d] != a.x_dims[d]) return false;
  return a.dtype == f32 && has_2x2_windows(a, a.dilation);
}

namespace {

template <class T, class Row>
void reduce_rows(const ReduceWindowArgs& a, int64_t begin, int64_t end, Row row_of) {
  const int last = a.rank - 1;
  const int64_t width = a.out_dims[last];
  const auto* x = static_cast<const T*>(a.x);
  auto* y = static_cast<T*>(a.y);
  for (int64_t at = begin; at < end;) {
    const int64_t column = at % width, stop = std::min(end, at - column + width);
    int64_t row = at / width, from = 2 * (row % a.out_dims[last - 1]) * a.x_strides[last - 1] + 2 * column;
    row /= a.out_dims[last - 1];
    for (int d = last - 2; d >= 0; --d) {
      from += row % a.out_dims[d] * a.x_strides[d];
      row /= a.out_dims[d];
    }
    row_of(x + from, x + from + a.x_strides[last - 1], y + at, stop - at);
    at = stop;
  }
}

}  // namespace

void reduce_pool_2x2(const ReduceWindowArgs& a, int64_t begin, int64_t end) noexcept {
  const bool largest = a.op == ReduceOp::max;
  if (a.dtype == f32)
    return reduce_rows<float>(a, begin, end,
                              largest ? HWY_DYNAMIC_DISPATCH(reduce_max_row) : HWY_DYNAMIC_DISPATCH(reduce_min_row));
  if (a.dtype == i8)
    return reduce_rows<int8_t>(
        a, begin, end, largest ? HWY_DYNAMIC_DISPATCH(reduce_max_i8_row) : HWY_DYNAMIC_DISPATCH(reduce_min_i8_row));
  reduce_rows<uint8_t>(a, begin, end,
                       largest ? HWY_DYNAMIC_DISPATCH(reduce_max_u8_row) : HWY_DYNAMIC_DISPATCH(reduce_min_u8_row));
}

void select_pool_2x2(const SelectAndScatterArgs& a, int64_t begin, int64_t end) noexcept {
  const auto row_of = HWY_DYNAMIC_DISPATCH(select_kept_row);
  const int last = a.rank - 1;
  const int64_t height = a.out_dims[last - 1], width = a.out_dims[last], stride = a.x_dims[last];
  const int64_t plane = a.x_dims[last - 1] * stride;
  int64_t planes = end - begin, first = begin;
  for (int d = 0; d < last - 1; ++d) planes *= a.x_dims[d], first *= a.x_dims[d];
  const bool has_uncovered = 2 * height != a.x_dims[last - 1] || 2 * width != stride;
  for (int64_t p = first; p < first + planes; ++p) {
    const float* x = static_cast<const float*>(a.x) + p * plane;
    const float* source = static_cast<const float*>(a.source) + p * height * width;
    float* y = static_cast<float*>(a.y) + p * plane;
    if (has_uncovered) std::fill(y, y + plane, 0.0F);
    for (int64_t r = 0; r < height; ++r, source += width) {
      const int64_t top = 2 * r * stride;
      row_of(a.kept, x + top, x + top + stride, source, y + top, y + top + stride, width);
    }
  }
}

}  // namespace rlx::kernels
#endif  // HWY_ONCE

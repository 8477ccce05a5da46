// See the header. Sums, products, maxima and minima of f32 (and of f16 and bf16, in f32) are vectorized; everything
// else is one scalar loop over a combiner.
#include "kernels/reduce/reduce.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <complex>
#include <limits>
#include <type_traits>

#include "kernels/integer_type.h"
#include "kernels/partial_sums.h"
#include "kernels/vector/highway_targets.h"
#include "kernels/vector/narrow_float.h"
#include "rlx/element.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/reduce/reduce.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "kernels/vector/narrow_float-inl.h"

HWY_BEFORE_NAMESPACE();
namespace rlx::kernels {
namespace HWY_NAMESPACE {
namespace {

struct Sum {
  static constexpr float neutral = 0;
  static HWY_INLINE F32Vec combine(F32Vec x, F32Vec y) { return hn::Add(x, y); }
  static double scalar(double x, double y) { return x + y; }
};
struct Product {
  static constexpr float neutral = 1;
  static HWY_INLINE F32Vec combine(F32Vec x, F32Vec y) { return hn::Mul(x, y); }
  static float scalar(float x, float y) { return x * y; }
};
struct Maximum {
  static constexpr float neutral = -std::numeric_limits<float>::infinity();
  // x86's max and min return a NaN only if it is the second operand.
  static HWY_INLINE F32Vec combine(F32Vec x, F32Vec y) { return hn::IfThenElse(hn::IsNaN(x), x, hn::Max(x, y)); }
  static float scalar(float x, float y) { return x != x || x > y ? x : y; }
};
struct Minimum {
  static constexpr float neutral = std::numeric_limits<float>::infinity();
  static HWY_INLINE F32Vec combine(F32Vec x, F32Vec y) { return hn::IfThenElse(hn::IsNaN(x), x, hn::Min(x, y)); }
  static float scalar(float x, float y) { return x != x || x < y ? x : y; }
};

/// The lanes' sum (product, ...), by halves: sixteen lanes need four dependent additions instead of fifteen. Sums are
/// added in double, as those of blocks are.
template <class Op>
HWY_INLINE auto across_lanes(F32Tag d, F32Vec v) {
  using Wide = std::conditional_t<std::is_same_v<Op, Sum>, double, float>;
  HWY_ALIGN float lanes[hn::MaxLanes(F32Tag())];
  hn::Store(v, d, lanes);
  Wide halves[hn::MaxLanes(F32Tag())];
  size_t half = hn::Lanes(d) / 2;
  RLX_UNROLL for (size_t i = 0; i < half; ++i) halves[i] =
      Op::scalar(static_cast<Wide>(lanes[i]), static_cast<Wide>(lanes[i + half]));
  RLX_UNROLL for (half /= 2; half > 0; half /= 2) RLX_UNROLL for (size_t i = 0; i < half; ++i) halves[i] =
      Op::scalar(halves[i], halves[i + half]);
  return halves[0];
}

/// Reduces kRows contiguous rows, `stride` elements apart, kVectors neighbouring vectors of each at a time. A sum is
/// computed in blocks whose results are added in double, so that its error does not grow with the length.
template <class Op, int kRows, int kVectors, class T>
void reduce_rows(const T* x, int64_t stride, int64_t n, float* results) {
  const F32Tag d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d)), step = kVectors * lanes;
  // Each lane of an accumulator sums at most kPartialSumTerms terms of a block.
  const int64_t block = std::is_same_v<Op, Sum> ? kPartialSumTerms * step : std::numeric_limits<int64_t>::max();
  double totals[kRows] = {};
  for (int64_t i = 0;;) {
    const int64_t stop = n - i > block ? i + block : n;
    F32Vec a[kRows][kVectors];
    RLX_UNROLL for (int k = 0; k < kRows; ++k) RLX_UNROLL for (int v = 0; v < kVectors; ++v) a[k][v] =
        hn::Set(d, Op::neutral);
    for (; i + step <= stop; i += step)
      RLX_UNROLL for (int k = 0; k < kRows; ++k) RLX_UNROLL for (int v = 0; v < kVectors; ++v) a[k][v] =
          Op::combine(a[k][v], load_f32(d, x + k * stride + i + v * lanes));
    RLX_UNROLL for (int v = 0; v < kVectors - 1; ++v) {
      if (i + lanes > stop) break;
      RLX_UNROLL for (int k = 0; k < kRows; ++k) a[k][v] = Op::combine(a[k][v], load_f32(d, x + k * stride + i));
      i += lanes;
    }
    if (i < stop) {
      const auto rest = static_cast<size_t>(stop - i);
      RLX_UNROLL for (int k = 0; k < kRows; ++k) a[k][kVectors - 1] =
          Op::combine(a[k][kVectors - 1], load_f32_some(d, x + k * stride + i, rest, Op::neutral));
      i = stop;
    }
    RLX_UNROLL for (int k = 0; k < kRows; ++k) {
      RLX_UNROLL for (int apart = kVectors / 2; apart > 0; apart /= 2) RLX_UNROLL for (int v = 0; v < apart; ++v)
          a[k][v] = Op::combine(a[k][v], a[k][v + apart]);
      const auto of_block = across_lanes<Op>(d, a[k][0]);
      if constexpr (std::is_same_v<Op, Sum>) totals[k] += of_block;
      else results[k] = of_block;
    }
    if (i >= n) break;
  }
  if constexpr (std::is_same_v<Op, Sum>)
    for (int k = 0; k < kRows; ++k) results[k] = static_cast<float>(totals[k]);
}

/// Combines eight rows (or fewer) of `count` columns into `totals`.
template <class Op, class T>
HWY_INLINE void combine_rows(const T* x, int64_t stride, int64_t rows, float* totals, int64_t count) {
  const F32Tag d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t j = 0; j < count; j += lanes) {
    const auto width = static_cast<size_t>(std::min(lanes, count - j));
    const auto at = [&](int64_t i) HWY_ATTR {
      const T* from = x + i * stride + j;
      return width == hn::Lanes(d) ? load_f32(d, from) : load_f32_some(d, from, width);
    };
    F32Vec v = at(0);
    if (rows == 8) {
      const F32Vec a = Op::combine(v, at(1)), b = Op::combine(at(2), at(3));
      const F32Vec e = Op::combine(at(4), at(5)), f = Op::combine(at(6), at(7));
      v = Op::combine(Op::combine(a, b), Op::combine(e, f));
    } else {
      for (int64_t i = 1; i < rows; ++i) v = Op::combine(v, at(i));
    }
    hn::Store(Op::combine(hn::Load(d, totals + j), v), d, totals + j);
  }
}

/// Reduces `count` neighbouring columns. Rows are read in memory order, up to 1024 columns and eight rows at a time;
/// sums go through blocks of rows, so that the error does not grow with their number.
template <class Op, class T>
void reduce_columns(const ReduceArgs& a, const T* x, int64_t first, int64_t count) {
  const F32Tag d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  constexpr int64_t kColumns = 1024, kRows = 2048;
  HWY_ALIGN float totals[kColumns];
  HWY_ALIGN float block[kColumns];
  for (int64_t j = 0; j < count; j += kColumns) {
    const int64_t columns = std::min(kColumns, count - j);
    std::fill(totals, totals + kColumns, Op::neutral);
    for (int64_t i = 0; i < a.reduce; i += kRows) {
      const int64_t stop = std::min(a.reduce, i + kRows);
      const bool blocked = std::is_same_v<Op, Sum> && a.reduce > kRows;
      if (blocked) std::fill(block, block + kColumns, 0.0f);
      for (int64_t r = i; r < stop; r += 8)
        combine_rows<Op>(x + r * a.reduce_stride + j, a.reduce_stride, std::min<int64_t>(8, stop - r),
                         blocked ? block : totals, columns);
      if (blocked) combine_rows<Op>(block, 0, 1, totals, columns);
    }
    for (int64_t k = 0; k < columns; k += lanes) {
      F32Vec v = hn::Load(d, totals + k);
      if constexpr (std::is_same_v<Op, Sum>) v = hn::Mul(v, hn::Set(d, static_cast<float>(a.scale)));
      const auto width = static_cast<size_t>(std::min(lanes, columns - k));
      T* const y = static_cast<T*>(a.y) + first + j + k;
      if (width == hn::Lanes(d)) store_f32(v, d, y);
      else store_f32_some(v, d, y, width);
    }
  }
}

template <int kValue>
using Int = std::integral_constant<int, kValue>;

constexpr int64_t kShortRow = 512;  // elements

template <class Op, class T>
void reduce_typed(const ReduceArgs& a, int64_t begin, int64_t end) {
  const T* x = static_cast<const T*>(a.x);
  if (a.inner == 1 && (a.reduce_stride == 1 || a.reduce <= 1)) {
    const auto put = [&](int64_t i, float result) {
      if constexpr (std::is_same_v<Op, Sum>) result *= static_cast<float>(a.scale);
      static_cast<T*>(a.y)[i] = from_f32<T>(result);
    };
    int64_t i = begin;
    const auto reduce_some = [&](auto rows, auto vectors) {
      for (float results[rows]; i + rows <= end; i += rows) {
        reduce_rows<Op, rows, vectors>(x + i * a.outer_stride, a.outer_stride, a.reduce, results);
        for (int64_t k = 0; k < rows; ++k) put(i + k, results[k]);
      }
    };
    // Short rows wait for the sums across lanes, long ones for memory: four streams keep more loads in flight than one
    // does, and eight took 1.15 times as long on a Zen 5. Eight accumulators hide the latency of the additions.
    if (a.reduce <= kShortRow) reduce_some(Int<8>(), Int<1>());
    else reduce_some(Int<4>(), Int<2>());
    reduce_some(Int<1>(), Int<8>());
    return;
  }
  for (int64_t i = begin; i < end;) {
    const int64_t outer = i / a.inner, inner = i % a.inner;
    const int64_t count = std::min(end - i, a.inner - inner);
    reduce_columns<Op>(a, x + outer * a.outer_stride + inner, i, count);
    i += count;
  }
}

template <class T>
void reduce_op(const ReduceArgs& a, int64_t begin, int64_t end) {
  switch (a.op) {
    case ReduceOp::sum: return reduce_typed<Sum, T>(a, begin, end);
    case ReduceOp::prod: return reduce_typed<Product, T>(a, begin, end);
    case ReduceOp::max: return reduce_typed<Maximum, T>(a, begin, end);
    case ReduceOp::min: return reduce_typed<Minimum, T>(a, begin, end);
    case ReduceOp::all:
    case ReduceOp::any: return;
  }
}

void reduce_f32(const ReduceArgs& a, int64_t begin, int64_t end) {
  if (a.dtype == f16) reduce_op<F16>(a, begin, end);
  else if (a.dtype == bf16) reduce_op<BF16>(a, begin, end);
  else reduce_op<float>(a, begin, end);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace rlx::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rlx::kernels {
namespace {
HWY_EXPORT(reduce_f32);

/// The elements have type T, and are accumulated and stored in it.
template <class T>
struct Direct {
  using Accumulator = T;
  static T load(const ReduceArgs& a, int64_t i) { return static_cast<const T*>(a.x)[i]; }
  static void store(const ReduceArgs& a, int64_t i, T v) {
    if constexpr (std::is_floating_point_v<T>) v *= a.op == ReduceOp::sum ? static_cast<T>(a.scale) : T(1);
    static_cast<T*>(a.y)[i] = v;
  }
};
/// The elements are bytes of a float format and are accumulated as A.
template <class A>
struct F8 {
  using Accumulator = A;
  static A load(const ReduceArgs& a, int64_t i) {
    return static_cast<A>(decode_float(a.dtype, static_cast<const uint8_t*>(a.x)[i]));
  }
  static void store(const ReduceArgs& a, int64_t i, A of_all) {
    auto v = static_cast<float>(of_all);
    if (a.op == ReduceOp::sum) v *= static_cast<float>(a.scale);
    static_cast<uint8_t*>(a.y)[i] = static_cast<uint8_t>(encode_float(a.dtype, static_cast<double>(v)));
  }
};
/// The elements are c64 and are accumulated in c128: a running sum of f32 loses digits with its length.
struct WidenedC64 {
  using Accumulator = Complex;
  static Complex load(const ReduceArgs& a, int64_t i) {
    return Complex(static_cast<const std::complex<float>*>(a.x)[i]);
  }
  static void store(const ReduceArgs& a, int64_t i, Complex v) {
    static_cast<std::complex<float>*>(a.y)[i] = std::complex<float>(v);
  }
};

template <class T, class F>
void accumulate(const ReduceArgs& a, int64_t begin, int64_t end, typename T::Accumulator neutral, F combine) {
  // Columns are reduced in groups, so that each row is read in memory order.
  constexpr int64_t kGroup = 64;
  for (int64_t i = begin; i < end;) {
    const int64_t outer = i / a.inner, inner = i % a.inner;
    const int64_t count = std::min({kGroup, end - i, a.inner - inner});
    std::array<typename T::Accumulator, kGroup> totals;
    totals.fill(neutral);
    for (int64_t r = 0; r < a.reduce; ++r) {
      const int64_t at = outer * a.outer_stride + r * a.reduce_stride + inner;
      for (int64_t j = 0; j < count; ++j) {
        auto& total = totals[static_cast<size_t>(j)];
        total = static_cast<typename T::Accumulator>(combine(total, T::load(a, at + j)));
      }
    }
    for (int64_t j = 0; j < count; ++j) T::store(a, i + j, totals[static_cast<size_t>(j)]);
    i += count;
  }
}

template <class T>
void reduce_real(const ReduceArgs& a, int64_t begin, int64_t end) {
  using A = typename T::Accumulator;
  using Limits = std::numeric_limits<A>;
  constexpr A lowest = Limits::has_infinity ? -Limits::infinity() : Limits::lowest();
  constexpr A highest = Limits::has_infinity ? Limits::infinity() : Limits::max();
  switch (a.op) {
    case ReduceOp::sum: return accumulate<T>(a, begin, end, 0, [](A x, A y) { return x + y; });
    case ReduceOp::prod: return accumulate<T>(a, begin, end, 1, [](A x, A y) { return x * y; });
    case ReduceOp::max: return accumulate<T>(a, begin, end, lowest, [](A x, A y) { return x != x || x > y ? x : y; });
    case ReduceOp::min: return accumulate<T>(a, begin, end, highest, [](A x, A y) { return x != x || x < y ? x : y; });
    case ReduceOp::all:
    case ReduceOp::any: return;
  }
}
/// Sums and products use the unsigned type, which wraps; max and min compare as T.
template <class T>
void reduce_integer(const ReduceArgs& a, int64_t begin, int64_t end) {
  using U = std::make_unsigned_t<T>;
  switch (a.op) {
    // The computation takes 64 bits: promoted to int, a product of two uint16_t would overflow.
    case ReduceOp::sum:
      return accumulate<Direct<U>>(a, begin, end, 0, [](U x, U y) { return uint64_t{x} + uint64_t{y}; });
    case ReduceOp::prod:
      return accumulate<Direct<U>>(a, begin, end, 1, [](U x, U y) { return uint64_t{x} * uint64_t{y}; });
    case ReduceOp::all: return accumulate<Direct<U>>(a, begin, end, U(-1), [](U x, U y) { return x & y; });
    case ReduceOp::any: return accumulate<Direct<U>>(a, begin, end, 0, [](U x, U y) { return x | y; });
    case ReduceOp::max:
    case ReduceOp::min: return reduce_real<Direct<T>>(a, begin, end);
  }
}
void reduce_boolean(const ReduceArgs& a, int64_t begin, int64_t end) {
  using B = Direct<uint8_t>;
  switch (a.op) {
    case ReduceOp::sum:
    case ReduceOp::max:
    case ReduceOp::any: return accumulate<B>(a, begin, end, 0, [](uint8_t x, uint8_t y) { return x | y; });
    case ReduceOp::prod:
    case ReduceOp::min:
    case ReduceOp::all: return accumulate<B>(a, begin, end, 1, [](uint8_t x, uint8_t y) { return x & y; });
  }
}
/// Reduces elements that C describes; `Summed` describes how sums read and accumulate them.
template <class C, class Summed = Direct<C>>
void reduce_complex(const ReduceArgs& a, int64_t begin, int64_t end) {
  using A = typename Summed::Accumulator;
  if (a.op == ReduceOp::sum) {
    accumulate<Summed>(a, begin, end, A(0), [](A x, A y) { return x + y; });
  } else if (a.op == ReduceOp::prod) {
    accumulate<Direct<C>>(a, begin, end, C(1), [](C x, C y) {
      return C(x.real() * y.real() - x.imag() * y.imag(), x.real() * y.imag() + x.imag() * y.real());
    });
  }
}

}  // namespace

void reduce(const ReduceArgs& args, int64_t begin, int64_t end) noexcept {
  if (is_integer(args.dtype))
    return with_integer_type(args.dtype, [&]<class T>() { reduce_integer<T>(args, begin, end); });
  switch (args.dtype) {
    case DType::f32:
    case DType::f16:
    case DType::bf16: return HWY_DYNAMIC_DISPATCH(reduce_f32)(args, begin, end);
    case DType::f64: return reduce_real<Direct<double>>(args, begin, end);
    case DType::boolean: return reduce_boolean(args, begin, end);
    case DType::c64: return reduce_complex<std::complex<float>, WidenedC64>(args, begin, end);
    case DType::c128: return reduce_complex<Complex>(args, begin, end);
    default:
      return args.op == ReduceOp::sum ? reduce_real<F8<double>>(args, begin, end)
                                      : reduce_real<F8<float>>(args, begin, end);
  }
}

}  // namespace rlx::kernels
#endif  // HWY_ONCE

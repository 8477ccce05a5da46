// See the header. Each result depends on the one before it, so several vectors run side by side to hide the latency:
// four rows, or sixteen columns. Only four rows, because rows are often a multiple of a page apart and then share one
// set of the L1 cache.
#include "kernels/reduce/cumulate.h"

#include <algorithm>
#include <complex>
#include <cstring>
#include <limits>
#include <type_traits>

#include "kernels/integer_type.h"
#include "kernels/vector/narrow_float.h"

namespace rlx::kernels {
namespace {

template <class T, class A>
A widen(T v) {
  if constexpr (std::is_same_v<T, F16> || std::is_same_v<T, BF16>) return static_cast<A>(to_f32(v));
  else return static_cast<A>(v);
}
template <class T, class A>
T narrow(A v) {
  if constexpr (std::is_same_v<T, F16> || std::is_same_v<T, BF16>) return from_f32<T>(static_cast<float>(v));
  else return static_cast<T>(v);
}

struct Sum {
  template <class T, class A>
  static A initial() {
    return A(0);
  }
  template <class A>
  static A combine(A x, A y) {
    return x + y;
  }
};
struct Product {
  template <class T, class A>
  static A initial() {
    return A(1);
  }
  template <class A>
  static A combine(A x, A y) {
    return x * y;
  }
  static std::complex<double> combine(std::complex<double> x, std::complex<double> y) {
    return {x.real() * y.real() - x.imag() * y.imag(), x.real() * y.imag() + x.imag() * y.real()};
  }
};
struct Maximum {
  template <class T, class A>
  static A initial() {
    if constexpr (std::is_floating_point_v<A>) return -std::numeric_limits<A>::infinity();
    else return A(std::numeric_limits<T>::lowest());
  }
  template <class A>
  static A combine(A x, A y) {
    return x != x || y <= x ? x : y;
  }
};
struct Or : Sum {
  template <class A>
  static A combine(A x, A y) {
    return static_cast<A>(x | y);
  }
};

/// Cumulates kCount vectors whose first elements are `across` apart and whose elements are `along` apart. All kCount
/// elements are read before any is written: a store to another vector may look to the processor as if it aliased the
/// next load.
template <class T, class A, class Op, int kCount, bool kExclusive>
void cumulate_side_by_side(const T* x, T* y, int64_t extent, int64_t across, int64_t along) {
  A running[kCount];
  T out[kCount];
  std::fill_n(running, kCount, Op::template initial<T, A>());
  for (int64_t i = 0; i < extent; ++i, x += along, y += along) {
    for (int k = 0; k < kCount; ++k) {
      const A next = Op::combine(running[k], widen<T, A>(x[k * across]));
      out[k] = narrow<T, A>(kExclusive ? running[k] : next);
      running[k] = next;
    }
    for (int k = 0; k < kCount; ++k) y[k * across] = out[k];
  }
}
template <class T, class A, class Op, int kCount>
void cumulate_vectors(const CumulateArgs& a, const T* x, T* y, int64_t across) {
  const int64_t along = a.reverse ? -a.inner : a.inner, first = a.reverse ? (a.extent - 1) * a.inner : 0;
  if (a.exclusive) cumulate_side_by_side<T, A, Op, kCount, true>(x + first, y + first, a.extent, across, along);
  else cumulate_side_by_side<T, A, Op, kCount, false>(x + first, y + first, a.extent, across, along);
}

template <class T, class A, class Op>
void typed(const CumulateArgs& a, int64_t begin, int64_t end) {
  constexpr int kRows = 4, kColumns = 16;
  if (a.extent == 0) return;
  const auto* x = static_cast<const T*>(a.x);
  auto* y = static_cast<T*>(a.y);
  for (int64_t vector = begin; vector < end;) {
    const int64_t outer = vector / a.inner, column = vector % a.inner;
    const int64_t at = outer * a.extent * a.inner + column;
    if (a.inner == 1 && end - vector >= kRows) {
      cumulate_vectors<T, A, Op, kRows>(a, x + at, y + at, a.extent);
      vector += kRows;
    } else if (a.inner - column >= kColumns && end - vector >= kColumns) {
      cumulate_vectors<T, A, Op, kColumns>(a, x + at, y + at, 1);
      vector += kColumns;
    } else {
      cumulate_vectors<T, A, Op, 1>(a, x + at, y + at, 0);
      ++vector;
    }
  }
}

template <class T>
void real(const CumulateArgs& a, int64_t begin, int64_t end) {
  switch (a.op) {
    case CumulateOp::sum: return typed<T, double, Sum>(a, begin, end);
    case CumulateOp::prod: return typed<T, double, Product>(a, begin, end);
    case CumulateOp::max: return typed<T, double, Maximum>(a, begin, end);
  }
}
template <class T>
void integer(const CumulateArgs& a, int64_t begin, int64_t end) {
  switch (a.op) {
    // Sums are computed in unsigned 64 bits, the low bits of which are the wrapped result.
    case CumulateOp::sum: return typed<T, uint64_t, Sum>(a, begin, end);
    case CumulateOp::prod: return typed<T, uint64_t, Product>(a, begin, end);
    case CumulateOp::max: return typed<T, T, Maximum>(a, begin, end);
  }
}
template <class T>
void complex(const CumulateArgs& a, int64_t begin, int64_t end) {
  if (a.op == CumulateOp::sum) typed<T, std::complex<double>, Sum>(a, begin, end);
  else typed<T, std::complex<double>, Product>(a, begin, end);
}

}  // namespace

void cumulate(const CumulateArgs& args, int64_t begin, int64_t end) noexcept {
  if (args.dtype == DType::f32 && args.op == CumulateOp::sum && args.inner == 1 && !args.exclusive && !args.reverse)
    return cumulate_row_sums(static_cast<const float*>(args.x) + begin * args.extent,
                             static_cast<float*>(args.y) + begin * args.extent, end - begin, args.extent);
  if (is_integer(args.dtype)) return with_integer_type(args.dtype, [&]<class T>() { integer<T>(args, begin, end); });
  switch (args.dtype) {
    case DType::f32: return real<float>(args, begin, end);
    case DType::f16: return real<F16>(args, begin, end);
    case DType::bf16: return real<BF16>(args, begin, end);
    case DType::f64: return real<double>(args, begin, end);
    case DType::boolean: return typed<uint8_t, uint8_t, Or>(args, begin, end);  // only max
    case DType::c64: return complex<std::complex<float>>(args, begin, end);
    case DType::c128: return complex<std::complex<double>>(args, begin, end);
    default: return;
  }
}

}  // namespace rlx::kernels

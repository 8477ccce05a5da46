// See the header. A task transforms `columns` vectors at once, with real and imaginary components in separate arrays,
// element (k, c) at k * columns + c: either one vector, or sixteen, whose columns then fill SIMD vectors.
//
// A stage of radix r is the following, where s is the product of the radices before times the columns, m the number of
// butterflies, and i = q + s p with 0 <= q < s, 0 <= p < m:
//   y[q + s (r p + k)] = w^(p k) sum_j x[i + s m j] e^(-2 pi i j k / r),  w = e^(-2 pi i / (r m))
// Reads run along i. If s fills SIMD vectors, writes and twiddles run along q; otherwise the twiddles are repeated
// along i, and a SIMD vector is written in pieces.
//
// The file is longer than others because it is compiled once per instruction set: a second such file would instantiate
// the stages again.
#include "kernels/signal/fft.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "kernels/vector/highway_targets.h"
#include "ops/signal/root_of_unity.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/signal/fft.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"

#ifndef RLX_KERNELS_FFT_CPP_ONCE
#define RLX_KERNELS_FFT_CPP_ONCE
namespace rlx::kernels {
namespace {

constexpr int64_t kColumns = 16;             // lanes of the widest SIMD vectors, a multiple of all others'
constexpr int64_t kLongVector = 256;         // above this length one vector fills the SIMD vectors by itself
constexpr int64_t kMaxSideBySide = 1 << 13;  // above this length sixteen vectors would not fit the cache
constexpr int kMaxRadix = 13;
constexpr size_t kPad = 64;  // bytes between a thread's four arrays, so that they do not share cache lines

/// cos and sin of 2 pi j k / r.
template <class T>
struct RootTable {
  T c[kMaxRadix][kMaxRadix] = {}, s[kMaxRadix][kMaxRadix] = {};
  explicit RootTable(int radix) {
    for (int j = 0; j < radix; ++j)
      for (int k = 0; k < radix; ++k) {
        auto w = root_of_unity(j * k, radix);
        c[j][k] = static_cast<T>(w.real()), s[j][k] = static_cast<T>(-w.imag());
      }
  }
};
template <class T, int kRadix>
const RootTable<T>& root_table() {
  static const RootTable<T> table(kRadix);
  return table;
}

template <class T>
struct SplitComplex {
  T *re, *im;
};

template <class T>
int64_t columns_of(const FftPlan<T>& plan, const FftVectors& vectors) {
  int64_t all = vectors.outer * vectors.inner;
  bool single = all == 1 || plan.work_length() > kMaxSideBySide ||
                (vectors.inner == 1 && (plan.length() > kLongVector || all < 4));
  return single ? 1 : kColumns;
}

}  // namespace
}  // namespace rlx::kernels
#endif  // RLX_KERNELS_FFT_CPP_ONCE

HWY_BEFORE_NAMESPACE();
namespace rlx::kernels {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
template <class T>
using Tag = hn::ScalableTag<T>;
template <class T>
using Vec = hn::Vec<Tag<T>>;

template <class T>
struct Complexes {
  Vec<T> re, im;
};

/// The operations that a butterfly needs, on SIMD vectors or on single numbers.
template <class T, bool kVector>
struct Lane {
  using V = Vec<T>;
  static V set(T v) { return hn::Set(Tag<T>(), v); }
  static V load(const T* p) { return hn::LoadU(Tag<T>(), p); }
  static void store(V v, T* p) { hn::StoreU(v, Tag<T>(), p); }
  static V add(V a, V b) { return hn::Add(a, b); }
  static V sub(V a, V b) { return hn::Sub(a, b); }
  static V mul(V a, V b) { return hn::Mul(a, b); }
  static V mul_add(V a, V b, V c) { return hn::MulAdd(a, b, c); }
  static V mul_sub(V a, V b, V c) { return hn::MulSub(a, b, c); }
};
template <class T>
struct Lane<T, false> {
  using V = T;
  static V set(T v) { return v; }
  static V load(const T* p) { return *p; }
  static void store(V v, T* p) { *p = v; }
  static V add(V a, V b) { return a + b; }
  static V sub(V a, V b) { return a - b; }
  static V mul(V a, V b) { return a * b; }
  static V mul_add(V a, V b, V c) { return a * b + c; }
  static V mul_sub(V a, V b, V c) { return a * b - c; }
};

template <class L>
HWY_INLINE void multiply(typename L::V& re, typename L::V& im, typename L::V wre, typename L::V wim) {
  auto r = L::mul_sub(re, wre, L::mul(im, wim));
  im = L::mul_add(re, wim, L::mul(im, wre));
  re = r;
}

/// The in-place transform of kRadix complex numbers.
template <class L, class T, int kRadix>
HWY_INLINE void butterfly(const RootTable<T>& roots, typename L::V* re, typename L::V* im) {
  using V = typename L::V;
  if constexpr (kRadix == 2) {
    V r = re[0], i = im[0];
    re[0] = L::add(r, re[1]), im[0] = L::add(i, im[1]);
    re[1] = L::sub(r, re[1]), im[1] = L::sub(i, im[1]);
  } else if constexpr (kRadix == 4) {
    V r02 = L::add(re[0], re[2]), i02 = L::add(im[0], im[2]), d02 = L::sub(re[0], re[2]), e02 = L::sub(im[0], im[2]);
    V r13 = L::add(re[1], re[3]), i13 = L::add(im[1], im[3]), d13 = L::sub(re[1], re[3]), e13 = L::sub(im[1], im[3]);
    re[0] = L::add(r02, r13), im[0] = L::add(i02, i13);
    re[2] = L::sub(r02, r13), im[2] = L::sub(i02, i13);
    re[1] = L::add(d02, e13), im[1] = L::sub(e02, d13);  // times -i
    re[3] = L::sub(d02, e13), im[3] = L::add(e02, d13);
  } else {  // odd radix: j and kRadix - j have the same cosines and opposite sines
    constexpr int kHalf = kRadix / 2;
    V sum_re[kHalf], sum_im[kHalf], dif_re[kHalf], dif_im[kHalf], r0 = re[0], i0 = im[0];
    RLX_UNROLL for (int j = 0; j < kHalf; ++j) {
      sum_re[j] = L::add(re[j + 1], re[kRadix - 1 - j]), sum_im[j] = L::add(im[j + 1], im[kRadix - 1 - j]);
      dif_re[j] = L::sub(re[j + 1], re[kRadix - 1 - j]), dif_im[j] = L::sub(im[j + 1], im[kRadix - 1 - j]);
      re[0] = L::add(re[0], sum_re[j]), im[0] = L::add(im[0], sum_im[j]);
    }
    RLX_UNROLL for (int k = 0; k < kHalf; ++k) {
      V ar = r0, ai = i0, br = L::set(0), bi = L::set(0);
      RLX_UNROLL for (int j = 0; j < kHalf; ++j) {
        V c = L::set(roots.c[j + 1][k + 1]), s = L::set(roots.s[j + 1][k + 1]);
        ar = L::mul_add(c, sum_re[j], ar), ai = L::mul_add(c, sum_im[j], ai);
        br = L::mul_add(s, dif_re[j], br), bi = L::mul_add(s, dif_im[j], bi);
      }
      re[k + 1] = L::add(ar, bi), im[k + 1] = L::sub(ai, br);
      re[kRadix - 1 - k] = L::sub(ar, bi), im[kRadix - 1 - k] = L::add(ai, br);
    }
  }
}

/// A stage whose s fills SIMD vectors. With kVector = false it computes any stage, on single numbers.
template <class T, int kRadix, bool kVector>
void contiguous_stage(const T* twiddles, int64_t m, int64_t s, SplitComplex<const T> x, SplitComplex<T> y) {
  using L = Lane<T, kVector>;
  using V = typename L::V;
  const RootTable<T>& roots = root_table<T, kRadix>();
  const int64_t step = kVector ? static_cast<int64_t>(hn::Lanes(Tag<T>())) : 1;
  for (int64_t p = 0; p < m; ++p) {
    V wre[kRadix], wim[kRadix];
    RLX_UNROLL for (int k = 1; k < kRadix; ++k) {
      wre[k] = L::set(twiddles[(2 * k - 2) * m + p]), wim[k] = L::set(twiddles[(2 * k - 1) * m + p]);
    }
    for (int64_t q = 0; q < s; q += step) {
      if (q + step > s) q = s - step;  // the last vector overlaps: it computes the same results again
      V re[kRadix], im[kRadix];
      RLX_UNROLL for (int j = 0; j < kRadix; ++j) {
        re[j] = L::load(x.re + q + s * (p + m * j)), im[j] = L::load(x.im + q + s * (p + m * j));
      }
      butterfly<L, T, kRadix>(roots, re, im);
      RLX_UNROLL for (int k = 1; k < kRadix; ++k) multiply<L>(re[k], im[k], wre[k], wim[k]);
      RLX_UNROLL for (int k = 0; k < kRadix; ++k) {
        L::store(re[k], y.re + q + s * (kRadix * p + k)), L::store(im[k], y.im + q + s * (kRadix * p + k));
      }
    }
  }
}

/// Copies a run; the usual lengths are one register move each.
template <class T>
HWY_INLINE void copy_run(const T* from, T* to, int64_t count) {
  switch (count) {
    case 2: std::memcpy(to, from, 2 * sizeof(T)); break;
    case 4: std::memcpy(to, from, 4 * sizeof(T)); break;
    case 8: std::memcpy(to, from, 8 * sizeof(T)); break;
    default:
      for (int64_t i = 0; i < count; ++i) to[i] = from[i];
  }
}

/// A stage in which a SIMD vector along i covers several p.
template <class T, int kRadix>
void scattered_stage(const T* spread, int64_t m, int64_t s, SplitComplex<const T> x, SplitComplex<T> y) {
  using L = Lane<T, true>;
  using V = Vec<T>;
  const Tag<T> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const RootTable<T>& roots = root_table<T, kRadix>();
  const int64_t all = m * s;
  HWY_ALIGN T tile_re[kRadix][HWY_MAX_BYTES / sizeof(T)], tile_im[kRadix][HWY_MAX_BYTES / sizeof(T)];
  for (int64_t i = 0; i < all; i += lanes) {
    if (i + lanes > all) i = all - lanes;
    V re[kRadix], im[kRadix];
    RLX_UNROLL for (int j = 0; j < kRadix; ++j) {
      re[j] = L::load(x.re + i + all * j), im[j] = L::load(x.im + i + all * j);
    }
    butterfly<L, T, kRadix>(roots, re, im);
    RLX_UNROLL for (int k = 1; k < kRadix; ++k) {
      multiply<L>(re[k], im[k], L::load(spread + (2 * k - 2) * all + i), L::load(spread + (2 * k - 1) * all + i));
    }
    if constexpr (kRadix == 4) {
      if (s == 1) {
        hn::StoreInterleaved4(re[0], re[1], re[2], re[3], d, y.re + 4 * i);
        hn::StoreInterleaved4(im[0], im[1], im[2], im[3], d, y.im + 4 * i);
        continue;
      }
    }
    RLX_UNROLL for (int k = 0; k < kRadix; ++k) { hn::Store(re[k], d, tile_re[k]), hn::Store(im[k], d, tile_im[k]); }
    int64_t p = i / s, q = i % s;
    for (int64_t lane = 0; lane < lanes; ++p, q = 0) {
      int64_t run = std::min(s - q, lanes - lane);
      for (int k = 0; k < kRadix; ++k) {
        int64_t to = q + s * (kRadix * p + k);
        copy_run(tile_re[k] + lane, y.re + to, run);
        copy_run(tile_im[k] + lane, y.im + to, run);
      }
      lane += run;
    }
  }
}

template <class T, int kRadix>
void run_stage(const FftPlan<T>& plan, const typename FftPlan<T>::Stage& stage, int64_t columns,
               SplitComplex<const T> x, SplitComplex<T> y) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(Tag<T>()));
  int64_t s = stage.stride * columns, m = stage.butterflies;
  const T* twiddles = plan.twiddles.data() + stage.twiddles;
  if (s >= lanes) contiguous_stage<T, kRadix, true>(twiddles, m, s, x, y);
  else if (m * s >= lanes) scattered_stage<T, kRadix>(plan.twiddles.data() + stage.spread, m, s, x, y);
  else contiguous_stage<T, kRadix, false>(twiddles, m, s, x, y);
}

/// Runs all stages, from a to b and back; returns true if the result is in b.
template <class T>
bool run_stages(const FftPlan<T>& plan, int64_t columns, SplitComplex<T> a, SplitComplex<T> b) {
  bool in_b = false;
  for (const auto& stage : plan.stages) {
    SplitComplex<const T> from{a.re, a.im};
    switch (stage.radix) {
      case 2: run_stage<T, 2>(plan, stage, columns, from, b); break;
      case 3: run_stage<T, 3>(plan, stage, columns, from, b); break;
      case 4: run_stage<T, 4>(plan, stage, columns, from, b); break;
      case 5: run_stage<T, 5>(plan, stage, columns, from, b); break;
      case 7: run_stage<T, 7>(plan, stage, columns, from, b); break;
      case 11: run_stage<T, 11>(plan, stage, columns, from, b); break;
      default: run_stage<T, 13>(plan, stage, columns, from, b); break;
    }
    std::swap(a, b);
    in_b = !in_b;
  }
  return in_b;
}

/// Multiplies row k of x by w[k], for rows [0, n).
template <class T>
void multiply_rows(SplitComplex<T> x, const T* wre, const T* wim, int64_t n, int64_t columns) {
  using L = Lane<T, true>;
  const auto lanes = static_cast<int64_t>(hn::Lanes(Tag<T>()));
  int64_t k = 0;
  if (columns == 1) {
    for (; k + lanes <= n; k += lanes) {
      Vec<T> re = L::load(x.re + k), im = L::load(x.im + k);
      multiply<L>(re, im, L::load(wre + k), L::load(wim + k));
      L::store(re, x.re + k), L::store(im, x.im + k);
    }
    for (; k < n; ++k) multiply<Lane<T, false>>(x.re[k], x.im[k], wre[k], wim[k]);
    return;
  }
  for (; k < n; ++k)
    for (int64_t c = 0; c < columns; c += lanes) {
      T *at_re = x.re + k * columns + c, *at_im = x.im + k * columns + c;
      Vec<T> re = L::load(at_re), im = L::load(at_im);
      multiply<L>(re, im, L::set(wre[k]), L::set(wim[k]));
      L::store(re, at_re), L::store(im, at_im);
    }
}

/// The forward transform of a, unscaled; returns true if the result is in b.
template <class T>
bool transform(const FftPlan<T>& plan, int64_t columns, SplitComplex<T> a, SplitComplex<T> b) {
  if (!plan.convolution) return run_stages(plan, columns, a, b);
  const FftPlan<T>& other = *plan.convolution;
  int64_t n = plan.length(), m = other.length();
  multiply_rows(a, plan.chirp_real.data(), plan.chirp_imag.data(), n, columns);
  std::fill(a.re + n * columns, a.re + m * columns, T(0));
  std::fill(a.im + n * columns, a.im + m * columns, T(0));
  bool in_b = run_stages(other, columns, a, b);
  if (in_b) std::swap(a, b);
  multiply_rows(a, plan.spectrum_real.data(), plan.spectrum_imag.data(), m, columns);
  // The backward transform is the forward one with real and imaginary components exchanged.
  bool swapped = run_stages(other, columns, {a.im, a.re}, {b.im, b.re});
  if (swapped) std::swap(a, b);
  multiply_rows(a, plan.chirp_real.data(), plan.chirp_imag.data(), n, columns);
  return in_b != swapped;
}

template <class T>
void load_vector(const FftVectors& vectors, int64_t n, const T* in, SplitComplex<T> x) {
  const Tag<T> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  if (vectors.in == FftEnd::real) {
    std::memcpy(x.re, in, static_cast<size_t>(n) * sizeof(T));
    std::fill(x.im, x.im + n, T(0));
    return;
  }
  int64_t given = vectors.in == FftEnd::half ? n / 2 + 1 : n, k = 0;
  for (; k + lanes <= given; k += lanes) {
    Vec<T> re, im;
    hn::LoadInterleaved2(d, in + 2 * k, re, im);
    hn::StoreU(re, d, x.re + k), hn::StoreU(im, d, x.im + k);
  }
  for (; k < given; ++k) x.re[k] = in[2 * k], x.im[k] = in[2 * k + 1];
  if (vectors.in == FftEnd::complex) return;
  x.im[0] = 0;
  if (n % 2 == 0) x.im[n / 2] = 0;
  for (k = given; k < n; ++k) x.re[k] = x.re[n - k], x.im[k] = -x.im[n - k];
}
template <class T>
void store_vector(const FftVectors& vectors, int64_t n, SplitComplex<T> y, T* out) {
  const Tag<T> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const T scale = static_cast<T>(vectors.scale);
  const Vec<T> scales = hn::Set(d, scale);
  int64_t count_kept = vectors.out == FftEnd::half ? n / 2 + 1 : n, k = 0;
  if (vectors.out == FftEnd::real) {
    for (; k + lanes <= n; k += lanes) hn::StoreU(hn::Mul(scales, hn::LoadU(d, y.re + k)), d, out + k);
    for (; k < n; ++k) out[k] = scale * y.re[k];
    return;
  }
  for (; k + lanes <= count_kept; k += lanes)
    hn::StoreInterleaved2(hn::Mul(scales, hn::LoadU(d, y.re + k)), hn::Mul(scales, hn::LoadU(d, y.im + k)), d,
                          out + 2 * k);
  for (; k < count_kept; ++k) out[2 * k] = scale * y.re[k], out[2 * k + 1] = scale * y.im[k];
}

/// Loads vectors [first, first + count) as columns; missing columns are zero.
template <class T>
void load_columns(const FftVectors& vectors, int64_t n, int64_t first, int64_t count, int64_t columns, const T* in,
                  SplitComplex<T> x) {
  int64_t extent = vectors.in == FftEnd::half ? n / 2 + 1 : n, per = vectors.in == FftEnd::real ? 1 : 2;
  if (count < columns) {
    std::fill(x.re, x.re + n * columns, T(0));
    std::fill(x.im, x.im + n * columns, T(0));
  }
  for (int64_t c = 0; c < count; ++c) {
    int64_t vector = first + c;
    const T* from = in + per * (vector / vectors.inner * extent * vectors.inner + vector % vectors.inner);
    for (int64_t k = 0; k < extent; ++k) {
      x.re[k * columns + c] = from[per * k * vectors.inner];
      x.im[k * columns + c] = per == 1 ? T(0) : from[2 * k * vectors.inner + 1];
    }
    if (vectors.in != FftEnd::half) continue;
    x.im[c] = 0;
    if (n % 2 == 0) x.im[n / 2 * columns + c] = 0;
    for (int64_t k = extent; k < n; ++k) {
      x.re[k * columns + c] = x.re[(n - k) * columns + c];
      x.im[k * columns + c] = -x.im[(n - k) * columns + c];
    }
  }
}
template <class T>
void store_columns(const FftVectors& vectors, int64_t n, int64_t first, int64_t count, int64_t columns,
                   SplitComplex<T> y, T* out) {
  int64_t extent = vectors.out == FftEnd::half ? n / 2 + 1 : n, per = vectors.out == FftEnd::real ? 1 : 2;
  const T scale = static_cast<T>(vectors.scale);
  for (int64_t c = 0; c < count; ++c) {
    int64_t vector = first + c;
    T* to = out + per * (vector / vectors.inner * extent * vectors.inner + vector % vectors.inner);
    for (int64_t k = 0; k < extent; ++k) {
      to[per * k * vectors.inner] = scale * y.re[k * columns + c];
      if (per == 2) to[2 * k * vectors.inner + 1] = scale * y.im[k * columns + c];
    }
  }
}

template <class T>
void fft_vectors(const FftPlan<T>& plan, const FftVectors& vectors, const T* in, T* out, int64_t begin, int64_t end,
                 T* scratch) {
  int64_t n = plan.length(), columns = columns_of(plan, vectors);
  auto array_size = static_cast<size_t>(plan.work_length() * columns) + kPad / sizeof(T);
  SplitComplex<T> a{scratch, scratch + array_size}, b{scratch + 2 * array_size, scratch + 3 * array_size};
  int64_t in_size = vectors.in == FftEnd::real ? n : vectors.in == FftEnd::half ? 2 * (n / 2 + 1) : 2 * n;
  int64_t out_size = vectors.out == FftEnd::real ? n : vectors.out == FftEnd::half ? 2 * (n / 2 + 1) : 2 * n;
  const bool is_dense = columns == 1 && vectors.inner == 1;
  for (int64_t task = begin; task < end; ++task) {
    int64_t first = task * columns, count = std::min(columns, vectors.outer * vectors.inner - first);
    if (is_dense) load_vector(vectors, n, in + task * in_size, a);
    else load_columns(vectors, n, first, count, columns, in, a);
    // The backward transform is the forward one with real and imaginary components exchanged.
    SplitComplex<T> x = vectors.inverse ? SplitComplex<T>{a.im, a.re} : a,
                    y = vectors.inverse ? SplitComplex<T>{b.im, b.re} : b;
    SplitComplex<T> result = transform(plan, columns, x, y) ? b : a;
    if (is_dense) store_vector(vectors, n, result, out + task * out_size);
    else store_columns(vectors, n, first, count, columns, result, out);
  }
}
void fft_f32(const FftPlan<float>& plan, const FftVectors& vectors, const float* in, float* out, int64_t begin,
             int64_t end, float* scratch) {
  fft_vectors(plan, vectors, in, out, begin, end, scratch);
}
void fft_f64(const FftPlan<double>& plan, const FftVectors& vectors, const double* in, double* out, int64_t begin,
             int64_t end, double* scratch) {
  fft_vectors(plan, vectors, in, out, begin, end, scratch);
}
bool forward_f64(const FftPlan<double>& plan, SplitComplex<double> a, SplitComplex<double> b) {
  return transform(plan, 1, a, b);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace rlx::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rlx::kernels {

HWY_EXPORT(fft_f32);
HWY_EXPORT(fft_f64);
HWY_EXPORT(forward_f64);

namespace {

/// The smallest 2^a 3^b 5^c that is at least n.
int64_t smooth_length(int64_t n) {
  int64_t best = 1;
  while (best < n) best *= 2;
  for (int64_t fives = 1; fives < best; fives *= 5)
    for (int64_t threes = fives; threes < best; threes *= 3) {
      int64_t all = threes;
      while (all < n) all *= 2;
      best = std::min(best, all);
    }
  return best;
}

}  // namespace

template <class T>
FftPlan<T>::FftPlan(int64_t length) : length_(length) {
  std::vector<int> radices;
  int64_t rest = length;
  for (int radix : {4, 2, 3, 5, 7, 11, 13})
    for (; rest % radix == 0; rest /= radix) radices.push_back(radix);
  if (rest == 1) {
    int64_t stride = 1, remaining = length;
    for (int radix : radices) {
      remaining /= radix;
      Stage stage{radix, remaining, stride, twiddles.size(), 0};
      auto add = [&](int64_t repeated) {
        for (int k = 1; k < radix; ++k)
          for (bool imaginary : {false, true})
            for (int64_t p = 0; p < remaining; ++p) {
              auto w = root_of_unity(k * p, remaining * radix);
              twiddles.insert(twiddles.end(), static_cast<size_t>(repeated),
                              static_cast<T>(imaginary ? w.imag() : w.real()));
            }
      };
      add(1);
      stage.spread = twiddles.size();
      if (stride < kColumns) add(stride);
      stages.push_back(stage);
      stride *= radix;
    }
    return;
  }
  // The chirp's spectrum is computed in f64 also for f32.
  convolution = std::make_unique<FftPlan>(smooth_length(2 * length - 1));
  int64_t m = convolution->length();
  auto chirp = [&](int64_t j) { return root_of_unity(j * j % (2 * length), 2 * length); };
  const auto size = static_cast<size_t>(m);
  std::vector<double> re(size + kPad), im(size + kPad), other_re(size + kPad), other_im(size + kPad);
  for (int64_t j = 0; j < length; ++j) {
    auto w = chirp(j);
    chirp_real.push_back(static_cast<T>(w.real())), chirp_imag.push_back(static_cast<T>(w.imag()));
    for (int64_t at : {j, (m - j) % m}) re[size_t(at)] = w.real(), im[size_t(at)] = -w.imag();
  }
  FftPlan<double> wide(m);
  if (HWY_DYNAMIC_DISPATCH(forward_f64)(wide, {re.data(), im.data()}, {other_re.data(), other_im.data()}))
    re.swap(other_re), im.swap(other_im);
  for (size_t k = 0; k < size; ++k) {
    spectrum_real.push_back(static_cast<T>(re[k] / static_cast<double>(m)));
    spectrum_imag.push_back(static_cast<T>(im[k] / static_cast<double>(m)));
  }
}

template <class T>
int64_t fft_tasks(const FftPlan<T>& plan, const FftVectors& vectors) {
  int64_t columns = columns_of(plan, vectors);
  return (vectors.outer * vectors.inner + columns - 1) / columns;
}
template <class T>
size_t fft_scratch_bytes(const FftPlan<T>& plan, const FftVectors& vectors) {
  return 4 * (static_cast<size_t>(plan.work_length() * columns_of(plan, vectors)) * sizeof(T) + kPad);
}
template <>
void fft(const FftPlan<float>& plan, const FftVectors& vectors, const float* in, float* out, int64_t begin, int64_t end,
         float* scratch) noexcept {
  HWY_DYNAMIC_DISPATCH(fft_f32)(plan, vectors, in, out, begin, end, scratch);
}
template <>
void fft(const FftPlan<double>& plan, const FftVectors& vectors, const double* in, double* out, int64_t begin,
         int64_t end, double* scratch) noexcept {
  HWY_DYNAMIC_DISPATCH(fft_f64)(plan, vectors, in, out, begin, end, scratch);
}
template class FftPlan<float>;
template class FftPlan<double>;
template int64_t fft_tasks(const FftPlan<float>&, const FftVectors&);
template int64_t fft_tasks(const FftPlan<double>&, const FftVectors&);
template size_t fft_scratch_bytes(const FftPlan<float>&, const FftVectors&);
template size_t fft_scratch_bytes(const FftPlan<double>&, const FftVectors&);

}  // namespace rlx::kernels
#endif

// A transform works on `columns` lines at once, real and imaginary parts apart, element (k, c) at k * columns + c:
// either one line, or sixteen, whose columns then fill the vectors.
//
// A stage of radix r with s = the radices before times the columns, m = butterflies, i = q + s p, 0 <= q < s, 0 <= p <
// m:
//   y[q + s (r p + k)] = w^(p k) sum_j x[i + s m j] e^(-2 pi i j k / r),  w = e^(-2 pi i / (r m))
// Reads run along i. Where s fills vectors, writes and twiddles run along q; else the twiddles are spread along i, and
// what a vector holds is written in pieces.
#include "kernels/fft.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "kernels/highway_targets.h"
#include "ops/unit_root.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/fft.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"

#ifndef RLX_KERNELS_FFT_CPP_ONCE
#define RLX_KERNELS_FFT_CPP_ONCE
namespace rlx::kernels {
namespace {

constexpr int64_t kColumns = 16;            // lanes of the widest vectors, and a multiple of all others'
constexpr int64_t kLongLine = 256;          // from here on one line fills the vectors by itself
constexpr int64_t kMostTogether = 1 << 13;  // beyond, sixteen lines would leave the cache
constexpr int kMostRadix = 13;
constexpr size_t kPad = 64;  // so that the four arrays of a thread do not share cache lines

/// cos and sin of 2 pi j k / r.
template <class T>
struct RootTable {
  T c[kMostRadix][kMostRadix] = {}, s[kMostRadix][kMostRadix] = {};
  explicit RootTable(int radix) {
    for (int j = 0; j < radix; ++j)
      for (int k = 0; k < radix; ++k) {
        auto w = unit_root(j * k, radix);
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
struct Parts {
  T *re, *im;
};

template <class T>
int64_t columns_of(const FftPlan<T>& plan, const FftLines& lines) {
  int64_t all = lines.outer * lines.inner;
  bool alone =
      all == 1 || plan.work_length() > kMostTogether || (lines.inner == 1 && (plan.length() > kLongLine || all < 4));
  return alone ? 1 : kColumns;
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

/// One number where vectors do not fit: with the same names as vectors have.
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
HWY_INLINE void times(typename L::V& re, typename L::V& im, typename L::V wre, typename L::V wim) {
  auto r = L::mul_sub(re, wre, L::mul(im, wim));
  im = L::mul_add(re, wim, L::mul(im, wre));
  re = r;
}

/// In place: the transform of kRadix numbers.
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
  } else {  // odd: j and kRadix - j share their cosines, and their sines but for the sign
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

/// Where s fills vectors (or, without vectors, anywhere).
template <class T, int kRadix, bool kVector>
void stage_of_runs(const T* twiddles, int64_t m, int64_t s, Parts<const T> x, Parts<T> y) {
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
      if (q + step > s) q = s - step;  // once more, with the same result
      V re[kRadix], im[kRadix];
      RLX_UNROLL for (int j = 0; j < kRadix; ++j) {
        re[j] = L::load(x.re + q + s * (p + m * j)), im[j] = L::load(x.im + q + s * (p + m * j));
      }
      butterfly<L, T, kRadix>(roots, re, im);
      RLX_UNROLL for (int k = 1; k < kRadix; ++k) times<L>(re[k], im[k], wre[k], wim[k]);
      RLX_UNROLL for (int k = 0; k < kRadix; ++k) {
        L::store(re[k], y.re + q + s * (kRadix * p + k)), L::store(im[k], y.im + q + s * (kRadix * p + k));
      }
    }
  }
}

/// The usual lengths of a run are a move of one register each.
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

/// Where a vector along i covers several p.
template <class T, int kRadix>
void stage_of_pieces(const T* spread, int64_t m, int64_t s, Parts<const T> x, Parts<T> y) {
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
      times<L>(re[k], im[k], L::load(spread + (2 * k - 2) * all + i), L::load(spread + (2 * k - 1) * all + i));
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
void run_stage(const FftPlan<T>& plan, const typename FftPlan<T>::Stage& stage, int64_t columns, Parts<const T> x,
               Parts<T> y) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(Tag<T>()));
  int64_t s = stage.stride * columns, m = stage.parts;
  const T* twiddles = plan.twiddles.data() + stage.twiddles;
  if (s >= lanes) stage_of_runs<T, kRadix, true>(twiddles, m, s, x, y);
  else if (m * s >= lanes) stage_of_pieces<T, kRadix>(plan.twiddles.data() + stage.spread, m, s, x, y);
  else stage_of_runs<T, kRadix, false>(twiddles, m, s, x, y);
}

/// From a to b and back; true if the result is in b.
template <class T>
bool run_stages(const FftPlan<T>& plan, int64_t columns, Parts<T> a, Parts<T> b) {
  bool in_b = false;
  for (const auto& stage : plan.stages) {
    Parts<const T> from{a.re, a.im};
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

/// Rows [0, n) of x times w, row by row.
template <class T>
void times_rows(Parts<T> x, const T* wre, const T* wim, int64_t n, int64_t columns) {
  using L = Lane<T, true>;
  const auto lanes = static_cast<int64_t>(hn::Lanes(Tag<T>()));
  int64_t k = 0;
  if (columns == 1) {
    for (; k + lanes <= n; k += lanes) {
      Vec<T> re = L::load(x.re + k), im = L::load(x.im + k);
      times<L>(re, im, L::load(wre + k), L::load(wim + k));
      L::store(re, x.re + k), L::store(im, x.im + k);
    }
    for (; k < n; ++k) times<Lane<T, false>>(x.re[k], x.im[k], wre[k], wim[k]);
    return;
  }
  for (; k < n; ++k)
    for (int64_t c = 0; c < columns; c += lanes) {
      T *at_re = x.re + k * columns + c, *at_im = x.im + k * columns + c;
      Vec<T> re = L::load(at_re), im = L::load(at_im);
      times<L>(re, im, L::set(wre[k]), L::set(wim[k]));
      L::store(re, at_re), L::store(im, at_im);
    }
}

/// The forward transform of a, unscaled; true if it is in b.
template <class T>
bool transform(const FftPlan<T>& plan, int64_t columns, Parts<T> a, Parts<T> b) {
  if (!plan.convolution) return run_stages(plan, columns, a, b);
  const FftPlan<T>& other = *plan.convolution;
  int64_t n = plan.length(), m = other.length();
  times_rows(a, plan.chirp_real.data(), plan.chirp_imag.data(), n, columns);
  std::fill(a.re + n * columns, a.re + m * columns, T(0));
  std::fill(a.im + n * columns, a.im + m * columns, T(0));
  bool in_b = run_stages(other, columns, a, b);
  if (in_b) std::swap(a, b);
  times_rows(a, plan.spectrum_real.data(), plan.spectrum_imag.data(), m, columns);
  // Backward: with the parts exchanged.
  bool again = run_stages(other, columns, {a.im, a.re}, {b.im, b.re});
  if (again) std::swap(a, b);
  times_rows(a, plan.chirp_real.data(), plan.chirp_imag.data(), n, columns);
  return in_b != again;
}

template <class T>
void load_line(const FftLines& lines, int64_t n, const T* in, Parts<T> x) {
  const Tag<T> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  if (lines.in == FftEnd::real) {
    std::memcpy(x.re, in, static_cast<size_t>(n) * sizeof(T));
    std::fill(x.im, x.im + n, T(0));
    return;
  }
  int64_t given = lines.in == FftEnd::half ? n / 2 + 1 : n, k = 0;
  for (; k + lanes <= given; k += lanes) {
    Vec<T> re, im;
    hn::LoadInterleaved2(d, in + 2 * k, re, im);
    hn::StoreU(re, d, x.re + k), hn::StoreU(im, d, x.im + k);
  }
  for (; k < given; ++k) x.re[k] = in[2 * k], x.im[k] = in[2 * k + 1];
  if (lines.in == FftEnd::complex) return;
  x.im[0] = 0;
  if (n % 2 == 0) x.im[n / 2] = 0;
  for (k = given; k < n; ++k) x.re[k] = x.re[n - k], x.im[k] = -x.im[n - k];
}
template <class T>
void store_line(const FftLines& lines, int64_t n, Parts<T> y, T* out) {
  const Tag<T> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const T scale = static_cast<T>(lines.scale);
  const Vec<T> scales = hn::Set(d, scale);
  int64_t kept = lines.out == FftEnd::half ? n / 2 + 1 : n, k = 0;
  if (lines.out == FftEnd::real) {
    for (; k + lanes <= n; k += lanes) hn::StoreU(hn::Mul(scales, hn::LoadU(d, y.re + k)), d, out + k);
    for (; k < n; ++k) out[k] = scale * y.re[k];
    return;
  }
  for (; k + lanes <= kept; k += lanes)
    hn::StoreInterleaved2(hn::Mul(scales, hn::LoadU(d, y.re + k)), hn::Mul(scales, hn::LoadU(d, y.im + k)), d,
                          out + 2 * k);
  for (; k < kept; ++k) out[2 * k] = scale * y.re[k], out[2 * k + 1] = scale * y.im[k];
}

/// Lines [first, first + count) as columns; those that are missing are zero.
template <class T>
void load_columns(const FftLines& lines, int64_t n, int64_t first, int64_t count, int64_t columns, const T* in,
                  Parts<T> x) {
  int64_t extent = lines.in == FftEnd::half ? n / 2 + 1 : n, per = lines.in == FftEnd::real ? 1 : 2;
  if (count < columns) {
    std::fill(x.re, x.re + n * columns, T(0));
    std::fill(x.im, x.im + n * columns, T(0));
  }
  for (int64_t c = 0; c < count; ++c) {
    int64_t line = first + c;
    const T* from = in + per * (line / lines.inner * extent * lines.inner + line % lines.inner);
    for (int64_t k = 0; k < extent; ++k) {
      x.re[k * columns + c] = from[per * k * lines.inner];
      x.im[k * columns + c] = per == 1 ? T(0) : from[2 * k * lines.inner + 1];
    }
    if (lines.in != FftEnd::half) continue;
    x.im[c] = 0;
    if (n % 2 == 0) x.im[n / 2 * columns + c] = 0;
    for (int64_t k = extent; k < n; ++k) {
      x.re[k * columns + c] = x.re[(n - k) * columns + c];
      x.im[k * columns + c] = -x.im[(n - k) * columns + c];
    }
  }
}
template <class T>
void store_columns(const FftLines& lines, int64_t n, int64_t first, int64_t count, int64_t columns, Parts<T> y,
                   T* out) {
  int64_t extent = lines.out == FftEnd::half ? n / 2 + 1 : n, per = lines.out == FftEnd::real ? 1 : 2;
  const T scale = static_cast<T>(lines.scale);
  for (int64_t c = 0; c < count; ++c) {
    int64_t line = first + c;
    T* to = out + per * (line / lines.inner * extent * lines.inner + line % lines.inner);
    for (int64_t k = 0; k < extent; ++k) {
      to[per * k * lines.inner] = scale * y.re[k * columns + c];
      if (per == 2) to[2 * k * lines.inner + 1] = scale * y.im[k * columns + c];
    }
  }
}

template <class T>
void fft_lines(const FftPlan<T>& plan, const FftLines& lines, const T* in, T* out, int64_t begin, int64_t end,
               T* scratch) {
  int64_t n = plan.length(), columns = columns_of(plan, lines);
  auto part = static_cast<size_t>(plan.work_length() * columns) + kPad / sizeof(T);
  Parts<T> a{scratch, scratch + part}, b{scratch + 2 * part, scratch + 3 * part};
  int64_t in_size = lines.in == FftEnd::real ? n : lines.in == FftEnd::half ? 2 * (n / 2 + 1) : 2 * n;
  int64_t out_size = lines.out == FftEnd::real ? n : lines.out == FftEnd::half ? 2 * (n / 2 + 1) : 2 * n;
  const bool is_dense = columns == 1 && lines.inner == 1;
  for (int64_t unit = begin; unit < end; ++unit) {
    int64_t first = unit * columns, count = std::min(columns, lines.outer * lines.inner - first);
    if (is_dense) load_line(lines, n, in + unit * in_size, a);
    else load_columns(lines, n, first, count, columns, in, a);
    // Backward is forward with the parts exchanged.
    Parts<T> x = lines.inverse ? Parts<T>{a.im, a.re} : a, y = lines.inverse ? Parts<T>{b.im, b.re} : b;
    Parts<T> result = transform(plan, columns, x, y) ? b : a;
    if (is_dense) store_line(lines, n, result, out + unit * out_size);
    else store_columns(lines, n, first, count, columns, result, out);
  }
}
void fft_f32(const FftPlan<float>& plan, const FftLines& lines, const float* in, float* out, int64_t begin, int64_t end,
             float* scratch) {
  fft_lines(plan, lines, in, out, begin, end, scratch);
}
void fft_f64(const FftPlan<double>& plan, const FftLines& lines, const double* in, double* out, int64_t begin,
             int64_t end, double* scratch) {
  fft_lines(plan, lines, in, out, begin, end, scratch);
}
bool forward_f64(const FftPlan<double>& plan, Parts<double> a, Parts<double> b) { return transform(plan, 1, a, b); }

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

/// The least 2^a 3^b 5^c that is at least n.
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
    int64_t stride = 1, left = length;
    for (int radix : radices) {
      left /= radix;
      Stage stage{radix, left, stride, twiddles.size(), 0};
      auto add = [&](int64_t repeated) {
        for (int k = 1; k < radix; ++k)
          for (bool imaginary : {false, true})
            for (int64_t p = 0; p < left; ++p) {
              auto w = unit_root(k * p, left * radix);
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
  auto chirp = [&](int64_t j) { return unit_root(j * j % (2 * length), 2 * length); };
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
int64_t fft_units(const FftPlan<T>& plan, const FftLines& lines) {
  int64_t columns = columns_of(plan, lines);
  return (lines.outer * lines.inner + columns - 1) / columns;
}
template <class T>
size_t fft_scratch_bytes(const FftPlan<T>& plan, const FftLines& lines) {
  return 4 * (static_cast<size_t>(plan.work_length() * columns_of(plan, lines)) * sizeof(T) + kPad);
}
template <>
void fft(const FftPlan<float>& plan, const FftLines& lines, const float* in, float* out, int64_t begin, int64_t end,
         float* scratch) noexcept {
  HWY_DYNAMIC_DISPATCH(fft_f32)(plan, lines, in, out, begin, end, scratch);
}
template <>
void fft(const FftPlan<double>& plan, const FftLines& lines, const double* in, double* out, int64_t begin, int64_t end,
         double* scratch) noexcept {
  HWY_DYNAMIC_DISPATCH(fft_f64)(plan, lines, in, out, begin, end, scratch);
}
template class FftPlan<float>;
template class FftPlan<double>;
template int64_t fft_units(const FftPlan<float>&, const FftLines&);
template int64_t fft_units(const FftPlan<double>&, const FftLines&);
template size_t fft_scratch_bytes(const FftPlan<float>&, const FftLines&);
template size_t fft_scratch_bytes(const FftPlan<double>&, const FftLines&);

}  // namespace rlx::kernels
#endif

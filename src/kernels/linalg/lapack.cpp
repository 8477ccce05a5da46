// See the header. LAPACK's matrices are column-major, so it sees a row-major matrix as its transpose. Where the
// transposed problem is of the same kind (Cholesky, triangular systems, singular values) it is solved directly;
// otherwise the matrix is transposed before and after, which costs little beside n^3. The file is longer than others
// because it has a class for each factorization, in the order of the header, on one base class.
#include "kernels/linalg/lapack.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <mutex>

#include "base/rounded_up.h"
#include "kernels/linalg/blas_library.h"
#include "kernels/linalg/lapack_routines.h"
#include "kernels/linalg/lapack_widened.h"
#include "rlx/error.h"

namespace rlx::kernels {
namespace {

template <class T>
using RealOf = decltype(std::abs(T()));
template <class T>
constexpr bool kIsComplex = !std::is_same_v<T, RealOf<T>>;

template <class T>
T conjugated(T x) {
  if constexpr (kIsComplex<T>) return std::conj(x);
  else return x;
}
template <class T>
bool finite(T x) {
  if constexpr (kIsComplex<T>) return std::isfinite(x.real()) && std::isfinite(x.imag());
  else return std::isfinite(x);
}
template <class T>
bool all_finite(const T* x, int64_t count) {
  return std::all_of(x, x + count, [](T v) { return finite(v); });
}
template <class T>
void fill_nan(T* x, int64_t count) {
  std::fill_n(x, count, T(std::numeric_limits<RealOf<T>>::quiet_NaN()));
}

/// y[n, m] = x[m, n] transposed, both dense; in tiles that fit the cache.
template <class T>
void transpose(const T* x, int64_t m, int64_t n, T* y) {
  constexpr int64_t kTile = 16;
  for (int64_t i0 = 0; i0 < m; i0 += kTile)
    for (int64_t j0 = 0; j0 < n; j0 += kTile)
      for (int64_t i = i0; i < std::min(i0 + kTile, m); ++i)
        for (int64_t j = j0; j < std::min(j0 + kTile, n); ++j) y[j * m + i] = x[i * n + j];
}

/// The number of magnitude 1 by which a column is divided to make its leading component real and positive. The leading
/// component is the first whose magnitude is at least 0.45 of the largest.
template <class T>
T phase_of_column(const T* x, int64_t rows, int64_t stride) {
  constexpr RealOf<T> kShare = static_cast<RealOf<T>>(0.45);
  RealOf<T> largest = 0;
  for (int64_t i = 0; i < rows; ++i) largest = std::max(largest, std::abs(x[i * stride]));
  for (int64_t i = 0; i < rows; ++i)
    if (RealOf<T> size = std::abs(x[i * stride]); size > 0 && size >= kShare * largest) return x[i * stride] / size;
  return 1;
}

/// Element (i, j) of the Hermitian matrix that the triangle `reads` of x defines (both: the mean of x and its adjoint).
template <class T>
T hermitian_at(const T* x, int64_t n, int64_t i, int64_t j, MatrixTriangle reads) {
  if (i == j) {
    if constexpr (kIsComplex<T>) return x[i * n + i].real();
    else return x[i * n + i];
  }
  T mirrored = conjugated(x[j * n + i]);
  if (reads == MatrixTriangle::both) return (x[i * n + j] + mirrored) * RealOf<T>(0.5);
  return (reads == MatrixTriangle::lower) == (j < i) ? x[i * n + j] : mirrored;
}

/// LAPACK counts with 32 bits.
int count32(int64_t count, const char* what) {
  if (count > std::numeric_limits<int>::max())
    fail(ErrorCode::unsupported, what, " of ", count, " are more than LAPACK can count");
  return static_cast<int>(count);
}
template <class T>
int work_size(T answer, const char* what) {
  double size = 0;
  if constexpr (kIsComplex<T>) size = static_cast<double>(answer.real());
  else size = static_cast<double>(answer);
  return count32(std::max<int64_t>(1, static_cast<int64_t>(size)), what);
}
char trans_of(MatrixForm form) { return form == MatrixForm::as_is ? 'N' : form == MatrixForm::transposed ? 'T' : 'C'; }

/// The base class of the kernels. It divides scratch into slots when a kernel is made.
class Kernel : public MatrixKernel {
 protected:
  Kernel() {
    if (!blas_library().is_there) fail(ErrorCode::unsupported, "LAPACK: ", blas_library().name);
  }
  template <class T>
  struct Slot {
    size_t offset = 0;
    T* in(std::byte* scratch) const { return reinterpret_cast<T*>(scratch + offset); }
  };
  template <class T>
  Slot<T> reserve(int64_t count) {
    Slot<T> slot{scratch_bytes_};
    scratch_bytes_ += aligned(static_cast<size_t>(std::max<int64_t>(count, 1)) * sizeof(T));
    return slot;
  }
  /// Sets work_ns_ from the number of floating-point operations.
  template <class T>
  void set_work(double flops) {
    work_ns_ = flops * (kIsComplex<T> ? 4 : 1) * (sizeof(RealOf<T>) / 4) / 20 + 200;
  }
};

template <class T>
struct LuKernel final : Kernel {
  int64_t m, n;
  Slot<T> matrix;
  LuKernel(int64_t rows, int64_t cols) : m(rows), n(cols) {
    count32(m * n, "matrix elements");
    matrix = reserve<T>(m * n);
    set_work<T>(double(m) * double(n) * double(std::min(m, n)));
  }
  void run(const void* const* in, void* const* out, std::byte* scratch) const noexcept override {
    T* x = matrix.in(scratch);
    auto *pivots = static_cast<int32_t*>(out[1]), *permutation = static_cast<int32_t*>(out[2]);
    for (int64_t i = 0; i < m; ++i) permutation[i] = static_cast<int32_t>(i);
    if (m == 0 || n == 0) return;
    transpose(static_cast<const T*>(in[0]), m, n, x);
    lapack::getrf(int(m), int(n), x, int(m), pivots);
    for (int64_t i = 0; i < std::min(m, n); ++i) std::swap(permutation[i], permutation[--pivots[i]]);
    transpose(x, n, m, static_cast<T*>(out[0]));
  }
};

template <class T>
struct CholeskyKernel final : Kernel {
  int64_t n;
  bool lower;
  MatrixTriangle reads;
  CholeskyKernel(int64_t size, bool l, MatrixTriangle r) : n(size), lower(l), reads(r) {
    count32(n * n, "matrix elements");
    set_work<T>(double(n) * double(n) * double(n) / 3);
  }
  void run(const void* const* in, void* const* out, std::byte*) const noexcept override {
    if (n == 0) return;
    const T* x = static_cast<const T*>(in[0]);
    T* y = static_cast<T*>(out[0]);
    // LAPACK sees the conjugate of x; its factor in the other triangle is ours, transposed.
    for (int64_t i = 0; i < n; ++i)
      for (int64_t j = 0; j < n; ++j) y[i * n + j] = (lower ? j <= i : j >= i) ? hermitian_at(x, n, i, j, reads) : T(0);
    bool definite = lapack::potrf(lower ? 'U' : 'L', int(n), y, int(n)) == 0;
    for (int64_t i = 0; i < n; ++i) definite = definite && std::real(y[i * n + i]) > 0;
    for (int64_t i = 0; i < n && !definite; ++i) fill_nan(y + i * n + (lower ? 0 : i), lower ? i + 1 : n - i);
  }
};

template <class T>
struct TriangularKernel final : Kernel {
  int64_t m, n;
  bool left, lower, unit;
  MatrixForm form;
  TriangularKernel(int64_t rows, int64_t cols, bool l, bool low, MatrixForm f, bool u)
      : m(rows), n(cols), left(l), lower(low), unit(u), form(f) {
    int64_t size = left ? m : n;
    count32(std::max(m * n, size * size), "matrix elements");
    set_work<T>(double(m) * double(n) * double(size));
  }
  void run(const void* const* in, void* const* out, std::byte*) const noexcept override {
    if (m == 0 || n == 0) return;
    std::memcpy(out[0], in[1], static_cast<size_t>(m * n) * sizeof(T));
    // The transpose of op(a) x = b is xᵀ op(aᵀ) = bᵀ.
    lapack::trsm(left ? 'R' : 'L', lower ? 'U' : 'L', trans_of(form), unit ? 'U' : 'N', int(n), int(m),
                 static_cast<const T*>(in[0]), int(left ? m : n), static_cast<T*>(out[0]), int(n));
  }
};

template <class T>
struct SolveKernel final : Kernel {
  int64_t n, columns;
  MatrixForm form;
  Slot<T> matrix, sides;
  Slot<int> pivots;
  SolveKernel(int64_t size, int64_t k, MatrixForm f) : n(size), columns(k), form(f) {
    count32(std::max(n * n, n * k), "matrix elements");
    matrix = reserve<T>(n * n), sides = reserve<T>(n * k), pivots = reserve<int>(n);
    set_work<T>(double(n) * double(n) * (double(n) * 0.7 + 2 * double(k)));
  }
  void run(const void* const* in, void* const* out, std::byte* scratch) const noexcept override {
    if (n == 0 || columns == 0) return;
    T *a = matrix.in(scratch), *b = sides.in(scratch), *x = static_cast<T*>(out[0]);
    std::memcpy(a, in[0], static_cast<size_t>(n * n) * sizeof(T));  // LAPACK sees aᵀ
    transpose(static_cast<const T*>(in[1]), n, columns, b);
    // The adjoint of a is the conjugate of what LAPACK sees, which it cannot solve with: the right-hand sides and the
    // solution are conjugated instead.
    bool conjugates = kIsComplex<T> && form == MatrixForm::adjoint;
    auto conjugate_sides = [&] {
      for (int64_t i = 0; conjugates && i < n * columns; ++i) b[i] = conjugated(b[i]);
    };
    conjugate_sides();
    lapack::getrf(int(n), int(n), a, int(n), pivots.in(scratch));
    lapack::getrs(form == MatrixForm::as_is ? 'T' : 'N', int(n), int(columns), a, int(n), pivots.in(scratch), b,
                  int(n));
    conjugate_sides();
    transpose(b, columns, n, x);
  }
};

template <class T>
struct GeqrfKernel final : Kernel {
  int64_t m, n;
  int lwork = 1;
  Slot<T> matrix, work;
  GeqrfKernel(int64_t rows, int64_t cols) : m(rows), n(cols) {
    count32(m * n, "matrix elements");
    if (m > 0 && n > 0) {
      T answer{}, none{};
      lapack::geqrf(int(m), int(n), &none, int(m), &none, &answer, -1);
      lwork = work_size(answer, "work elements");
    }
    matrix = reserve<T>(m * n), work = reserve<T>(lwork);
    set_work<T>(2 * double(m) * double(n) * double(std::min(m, n)));
  }
  void run(const void* const* in, void* const* out, std::byte* scratch) const noexcept override {
    if (m == 0 || n == 0) return;
    T* x = matrix.in(scratch);
    transpose(static_cast<const T*>(in[0]), m, n, x);
    lapack::geqrf(int(m), int(n), x, int(m), static_cast<T*>(out[1]), work.in(scratch), lwork);
    transpose(x, n, m, static_cast<T*>(out[0]));
  }
};

template <class T>
struct ReflectionsKernel final : Kernel {
  int64_t m, n, k;
  int lwork = 1;
  Slot<T> matrix, work;
  ReflectionsKernel(int64_t rows, int64_t cols, int64_t count) : m(rows), n(cols), k(count) {
    count32(m * n, "matrix elements");
    if (n > 0) {
      T answer{}, none{};
      lapack::orgqr(int(m), int(n), int(k), &none, int(m), &none, &answer, -1);
      lwork = work_size(answer, "work elements");
    }
    matrix = reserve<T>(m * n), work = reserve<T>(lwork);
    set_work<T>(2 * double(m) * double(n) * double(k));
  }
  void run(const void* const* in, void* const* out, std::byte* scratch) const noexcept override {
    if (n == 0) return;
    T* x = matrix.in(scratch);
    transpose(static_cast<const T*>(in[0]), m, n, x);
    lapack::orgqr(int(m), int(n), int(k), x, int(m), static_cast<const T*>(in[1]), work.in(scratch), lwork);
    transpose(x, n, m, static_cast<T*>(out[0]));
  }
};

template <class T>
struct QrKernel final : Kernel {
  int64_t m, n, k, columns;  // `columns` is the number of columns of q
  int lwork = 1;
  Slot<T> matrix, taus, work;
  QrKernel(int64_t rows, int64_t cols, bool full) : m(rows), n(cols), k(std::min(m, n)), columns(full ? m : k) {
    count32(m * std::max(n, columns), "matrix elements");
    if (k > 0) {
      T answer{}, none{};
      lapack::geqrf(int(m), int(n), &none, int(m), &none, &answer, -1);
      lwork = work_size(answer, "work elements");
    }
    if (columns > 0) {
      T answer{}, none{};
      lapack::orgqr(int(m), int(columns), int(k), &none, int(m), &none, &answer, -1);
      lwork = std::max(lwork, work_size(answer, "work elements"));
    }
    matrix = reserve<T>(m * std::max(n, columns)), taus = reserve<T>(k), work = reserve<T>(lwork);
    set_work<T>(4 * double(m) * double(columns) * double(k));
  }
  void run(const void* const* in, void* const* out, std::byte* scratch) const noexcept override {
    T *x = matrix.in(scratch), *q = static_cast<T*>(out[0]), *r = static_cast<T*>(out[1]);
    if (k > 0) {
      transpose(static_cast<const T*>(in[0]), m, n, x);
      lapack::geqrf(int(m), int(n), x, int(m), taus.in(scratch), work.in(scratch), lwork);
    }
    for (int64_t i = 0; i < columns; ++i)
      for (int64_t j = 0; j < n; ++j) r[i * n + j] = j < i ? T(0) : x[j * m + i];
    if (columns == 0) return;
    lapack::orgqr(int(m), int(columns), int(k), x, int(m), taus.in(scratch), work.in(scratch), lwork);
    transpose(x, columns, m, q);
  }
};

template <class T>
struct EighKernel final : Kernel {
  using R = RealOf<T>;
  int64_t n;
  MatrixTriangle reads;
  int lwork = 1, lrwork = 1, liwork = 1;
  Slot<T> matrix, work;
  Slot<R> rwork;
  Slot<int> iwork;
  EighKernel(int64_t size, MatrixTriangle r) : n(size), reads(r) {
    count32(n * n, "matrix elements");
    if (n > 0) {
      T answer{}, none{};
      R real_answer{}, values{};
      lapack::heevd('V', int(n), &none, &values, &answer, -1, &real_answer, -1, &liwork, -1);
      lwork = work_size(answer, "work elements");
      if (kIsComplex<T>) lrwork = work_size(real_answer, "work elements");
    }
    matrix = reserve<T>(n * n), work = reserve<T>(lwork), rwork = reserve<R>(lrwork), iwork = reserve<int>(liwork);
    set_work<T>(9 * double(n) * double(n) * double(n));
  }
  void run(const void* const* in, void* const* out, std::byte* scratch) const noexcept override {
    if (n == 0) return;
    const T* x = static_cast<const T*>(in[0]);
    T *h = matrix.in(scratch), *vectors = static_cast<T*>(out[1]);
    R* values = static_cast<R*>(out[0]);
    for (int64_t j = 0; j < n; ++j)
      for (int64_t i = 0; i < n; ++i) h[j * n + i] = hermitian_at(x, n, i, j, reads);
    const bool finite = all_finite(h, n * n);
    if (!finite || lapack::heevd(vectors ? 'V' : 'N', int(n), h, values, work.in(scratch), lwork, rwork.in(scratch),
                                 lrwork, iwork.in(scratch), liwork) != 0) {
      fill_nan(values, n);
      if (vectors) fill_nan(vectors, n * n);
      return;
    }
    if (!vectors) return;
    for (int64_t j = 0; j < n; ++j) {
      T rotation = conjugated(phase_of_column(h + j * n, n, 1));
      for (int64_t i = 0; i < n; ++i) h[j * n + i] *= rotation;
    }
    transpose(h, n, n, vectors);
  }
};

template <class T>
struct SvdKernel final : Kernel {
  using R = RealOf<T>;
  int64_t m, n, k;
  int lwork = 1;
  Slot<T> matrix, work;
  Slot<R> rwork;
  Slot<int> iwork;
  SvdKernel(int64_t rows, int64_t cols) : m(rows), n(cols), k(std::min(m, n)) {
    count32(m * n, "matrix elements");
    if (k > 0) {
      T answer{}, none{};
      R real_none{};
      int int_none = 0;
      lapack::gesdd('S', int(n), int(m), &none, &real_none, &none, &none, int(k), &answer, -1, &real_none, &int_none);
      lwork = work_size(answer, "work elements");
    }
    int64_t larger = std::max(m, n);
    matrix = reserve<T>(m * n), work = reserve<T>(lwork), iwork = reserve<int>(8 * k);
    rwork = reserve<R>(kIsComplex<T> ? std::max(5 * k * k + 5 * k, 2 * larger * k + 2 * k * k + k) : 1);
    set_work<T>(4 * double(m) * double(n) * double(k) + 20 * double(k) * double(k) * double(k));
  }
  void run(const void* const* in, void* const* out, std::byte* scratch) const noexcept override {
    if (k == 0) return;
    T *x = matrix.in(scratch), *u = static_cast<T*>(out[0]), *vt = static_cast<T*>(out[2]);
    R* s = static_cast<R*>(out[1]);
    std::memcpy(x, in[0], static_cast<size_t>(m * n) * sizeof(T));
    // xᵀ = conj(v) s uᵀ: LAPACK stores these factors as vt and u row by row.
    if (!all_finite(x, m * n) || lapack::gesdd(u ? 'S' : 'N', int(n), int(m), x, s, vt, u, int(k), work.in(scratch),
                                               lwork, rwork.in(scratch), iwork.in(scratch)) != 0) {
      fill_nan(s, k);
      if (u) fill_nan(u, m * k), fill_nan(vt, k * n);
      return;
    }
    if (!u) return;
    for (int64_t j = 0; j < k; ++j) {
      T phase = phase_of_column(u + j, m, k), rotation = conjugated(phase);
      for (int64_t i = 0; i < m; ++i) u[i * k + j] *= rotation;
      for (int64_t i = 0; i < n; ++i) vt[j * n + i] *= phase;
    }
  }
};

template <class T>
struct EigKernel final : Kernel {
  using R = RealOf<T>;
  using C = std::complex<R>;
  int64_t n;
  int lwork = 1;
  Slot<T> matrix, vectors, work, re, im;
  Slot<R> rwork;
  Slot<C> values;
  Slot<int64_t> order;
  explicit EigKernel(int64_t size) : n(size) {
    count32(n * n, "matrix elements");
    if (n > 0) {
      T answer{}, none{};
      R real_none{};
      lapack::geev(int(n), &none, &none, &none, &none, &answer, -1, &real_none);
      lwork = work_size(answer, "work elements");
    }
    matrix = reserve<T>(n * n), vectors = reserve<T>(n * n), work = reserve<T>(lwork);
    re = reserve<T>(n), im = reserve<T>(n), rwork = reserve<R>(2 * n), values = reserve<C>(n);
    order = reserve<int64_t>(n);
    set_work<T>(25 * double(n) * double(n) * double(n));
  }
  void run(const void* const* in, void* const* out, std::byte* scratch) const noexcept override {
    if (n == 0) return;
    T *x = matrix.in(scratch), *packed = vectors.in(scratch), *wr = re.in(scratch), *wi = im.in(scratch);
    C *w = static_cast<C*>(out[0]), *v = static_cast<C*>(out[1]), *found = values.in(scratch);
    transpose(static_cast<const T*>(in[0]), n, n, x);
    if (!all_finite(x, n * n) ||
        lapack::geev(int(n), x, wr, wi, packed, work.in(scratch), lwork, rwork.in(scratch)) != 0) {
      fill_nan(w, n), fill_nan(v, n * n);
      return;
    }
    int64_t* at = order.in(scratch);
    for (int64_t j = 0; j < n; ++j) {
      at[j] = j;
      if constexpr (kIsComplex<T>) found[j] = wr[j];
      else found[j] = {wr[j], wi[j]};
    }
    // Sort by re + 0.3 im, which differs within a conjugate pair.
    auto key = [&](int64_t j) { return found[j].real() + RealOf<T>(0.3) * found[j].imag(); };
    std::sort(at, at + n, [&](int64_t a, int64_t b) { return key(a) != key(b) ? key(a) < key(b) : a < b; });
    for (int64_t j = 0; j < n; ++j) {
      int64_t from = at[j];
      w[j] = found[from];
      for (int64_t i = 0; i < n; ++i) v[i * n + j] = component(packed, i, from, found[from]);
      R norm = 0;
      for (int64_t i = 0; i < n; ++i) norm = std::hypot(norm, std::abs(v[i * n + j]));
      C divisor = phase_of_column(v + j, n, n) * norm;
      for (int64_t i = 0; i < n; ++i) v[i * n + j] /= divisor;
    }
  }
  /// Component i of eigenvector j. For a real matrix, the eigenvectors of a conjugate pair take two columns: the real
  /// and the imaginary components of the first.
  C component(const T* packed, int64_t i, int64_t j, C value) const noexcept {
    if constexpr (kIsComplex<T>) return packed[j * n + i];
    else if (value.imag() == 0) return packed[j * n + i];
    else if (value.imag() > 0) return {packed[j * n + i], packed[(j + 1) * n + i]};
    else return {packed[(j - 1) * n + i], -packed[j * n + i]};
  }
};

/// Wraps a kernel so that only one call in the process runs at a time.
struct OneAtATime final : MatrixKernel {
  MatrixKernelPtr kernel;
  explicit OneAtATime(MatrixKernelPtr k) : kernel(std::move(k)) {
    scratch_bytes_ = kernel->scratch_bytes();
    work_ns_ = 0;  // so that the caller does not split calls over threads, which would gain nothing
  }
  void run(const void* const* in, void* const* out, std::byte* scratch) const noexcept override {
    static std::mutex mutex;
    const std::scoped_lock lock(mutex);
    kernel->run(in, out, scratch);
  }
};

template <template <class> class K, class... Args>
MatrixKernelPtr make(DType dtype, Args... args) {
  MatrixKernelPtr kernel;
  switch (dtype) {
    case DType::f32: kernel = std::make_unique<K<float>>(args...); break;
    case DType::f64: kernel = std::make_unique<K<double>>(args...); break;
    case DType::c64: kernel = std::make_unique<K<std::complex<float>>>(args...); break;
    case DType::c128: kernel = std::make_unique<K<std::complex<double>>>(args...); break;
    default: fail(ErrorCode::internal, "LAPACK has no routines for ", dtype);
  }
  return blas_library().is_for_one_thread ? std::make_unique<OneAtATime>(std::move(kernel)) : std::move(kernel);
}

/// Real numbers per element if the matrix is small and in single precision; else 0.
int64_t reals_if_small(DType t, int64_t larger) { return larger > kMaxWidened ? 0 : t == f32 ? 1 : t == c64 ? 2 : 0; }
DType wide(DType t) { return t == f32 ? f64 : c128; }

}  // namespace

MatrixKernelPtr make_lu(DType t, int64_t m, int64_t n) { return make<LuKernel>(t, m, n); }
MatrixKernelPtr make_cholesky(DType t, int64_t n, bool lower, MatrixTriangle reads) {
  return make<CholeskyKernel>(t, n, lower, reads);
}
MatrixKernelPtr make_triangular_solve(DType t, int64_t m, int64_t n, bool left, bool lower, MatrixForm a,
                                      bool unit_diagonal) {
  return make<TriangularKernel>(t, m, n, left, lower, a, unit_diagonal);
}
MatrixKernelPtr make_solve(DType t, int64_t n, int64_t columns, MatrixForm a) {
  return make<SolveKernel>(t, n, columns, a);
}
MatrixKernelPtr make_geqrf(DType t, int64_t m, int64_t n) { return make<GeqrfKernel>(t, m, n); }
MatrixKernelPtr make_householder_product(DType t, int64_t m, int64_t n, int64_t k) {
  return make<ReflectionsKernel>(t, m, n, k);
}
MatrixKernelPtr make_qr(DType t, int64_t m, int64_t n, bool full) { return make<QrKernel>(t, m, n, full); }
MatrixKernelPtr make_eigh(DType t, int64_t n, MatrixTriangle reads) {
  if (int64_t reals = reals_if_small(t, n); reals > 0)
    return widened(make<EighKernel>(wide(t), n, reads), reals * n * n, {n, reals * n * n, 0});
  return make<EighKernel>(t, n, reads);
}
MatrixKernelPtr make_svd(DType t, int64_t m, int64_t n) {
  int64_t k = std::min(m, n);
  if (int64_t reals = reals_if_small(t, std::max(m, n)); reals > 0)
    return widened(make<SvdKernel>(wide(t), m, n), reals * m * n, {reals * m * k, k, reals * k * n});
  return make<SvdKernel>(t, m, n);
}
MatrixKernelPtr make_eig(DType t, int64_t n) {
  if (int64_t reals = reals_if_small(t, n); reals > 0)
    return widened(make<EigKernel>(wide(t), n), reals * n * n, {2 * n, 2 * n * n, 0});
  return make<EigKernel>(t, n);
}

}  // namespace rlx::kernels

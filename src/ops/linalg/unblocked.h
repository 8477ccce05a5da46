// Matrices as the references of linear algebra use them: plain loops over double and complex numbers, for one matrix of
// a stack after another. Neighbour: linalg_rules.h, the same in graphs.
#pragma once

#include "ops/linalg/linalg_rules.h"

namespace rlx::plain {

inline double conjugated(double x) { return x; }
inline Complex conjugated(Complex x) { return std::conj(x); }
inline double real_of(double x) { return x; }
inline double real_of(Complex x) { return x.real(); }
inline double imag_of(double) { return 0; }
inline double imag_of(Complex x) { return x.imag(); }
inline bool is_finite(double x) { return std::isfinite(x); }
inline bool is_finite(Complex x) { return std::isfinite(x.real()) && std::isfinite(x.imag()); }
template <class T>
double squared(T x) {
  return real_of(x) * real_of(x) + imag_of(x) * imag_of(x);
}
/// The magnitude by which LAPACK compares pivots: |Re x| + |Im x|.
template <class T>
double pivot_size(T x) {
  return std::abs(real_of(x)) + std::abs(imag_of(x));
}

template <class T>
struct Matrix {
  int64_t rows = 0, cols = 0;
  std::vector<T> data;

  Matrix() = default;
  Matrix(int64_t r, int64_t c, T fill = {}) : rows(r), cols(c), data(static_cast<size_t>(r * c), fill) {}
  static Matrix identity(int64_t n) {
    Matrix m(n, n);
    for (int64_t i = 0; i < n; ++i) m(i, i) = 1;
    return m;
  }
  T& operator()(int64_t i, int64_t j) { return data[static_cast<size_t>(i * cols + j)]; }
  T operator()(int64_t i, int64_t j) const { return data[static_cast<size_t>(i * cols + j)]; }
  Matrix adjoint() const {
    Matrix m(cols, rows);
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < cols; ++j) m(j, i) = conjugated((*this)(i, j));
    return m;
  }
  Matrix transposed() const {
    Matrix m = adjoint();
    for (T& v : m.data) v = conjugated(v);
    return m;
  }
  /// The first r rows and c columns.
  Matrix corner(int64_t r, int64_t c) const {
    Matrix m(r, c);
    for (int64_t i = 0; i < r; ++i)
      for (int64_t j = 0; j < c; ++j) m(i, j) = (*this)(i, j);
    return m;
  }
  bool is_finite() const {
    return std::all_of(data.begin(), data.end(), [](T v) { return plain::is_finite(v); });
  }
  friend Matrix operator*(const Matrix& a, const Matrix& b) {
    Matrix m(a.rows, b.cols);
    for (int64_t i = 0; i < a.rows; ++i)
      for (int64_t k = 0; k < a.cols; ++k)
        for (int64_t j = 0; j < b.cols; ++j) m(i, j) += a(i, k) * b(k, j);
    return m;
  }
};

/// Calls `f.operator()<T>()` with double or Complex.
template <class F>
auto with_field(DType dtype, F f) {
  return is_complex(dtype) ? f.template operator()<Complex>() : f.template operator()<double>();
}

/// Stacks of matrices, read and written one by one.
inline int64_t stack_size(const Shape& shape, size_t matrix_rank = 2) {
  return element_count(Shape(shape.begin(), shape.end() - static_cast<std::ptrdiff_t>(matrix_rank)));
}
template <class T>
Matrix<T> matrix_at(const Array<T>& x, int64_t b) {
  Matrix<T> m(x.shape[x.shape.size() - 2], x.shape.back());
  std::copy_n(x.data.begin() + b * m.rows * m.cols, m.data.size(), m.data.begin());
  return m;
}
template <class T>
void put(Array<T>& x, int64_t b, const std::vector<T>& elements) {
  std::copy(elements.begin(), elements.end(), x.data.begin() + b * static_cast<int64_t>(elements.size()));
}
template <class T>
void put(Array<T>& x, int64_t b, const Matrix<T>& m) {
  put(x, b, m.data);
}
inline Shape with_batch(const Shape& x, Shape dims) {
  Shape all(x.begin(), x.end() - 2);
  all.insert(all.end(), dims.begin(), dims.end());
  return all;
}

/// The power of two by which x is divided so that the largest real or imaginary part is in [1, 2). The division is
/// exact. Afterwards the square of no element overflows, and only those vanish that do not matter beside the largest. 1
/// for a matrix of zeros.
template <class T>
double scale_of(const Matrix<T>& x) {
  double largest = 0;
  for (T v : x.data) largest = std::max({largest, std::abs(real_of(v)), std::abs(imag_of(v))});
  return largest == 0 ? 1 : std::ldexp(1.0, std::ilogb(largest));
}
template <class T>
void divide(Matrix<T>& x, double divisor) {
  for (T& v : x.data) v /= divisor;
}

/// A reference that maps each matrix of a stack to one matrix.
template <class F>
Tensor map_matrices(const Tensor& x, F f) {
  return with_field(x.dtype(), [&]<class T>() {
    Array<T> in(x), out(x.shape());
    for (int64_t b = 0; b < stack_size(in.shape); ++b) put(out, b, f(matrix_at(in, b)));
    return out.rounded_to(x.dtype());
  });
}

/// Factors one matrix with permuted rows, x = L U, in place. Also gives the pivots and the permutation that they make.
template <class T>
void factorize_lu(Matrix<T>& x, std::vector<int64_t>& pivots, std::vector<int64_t>& permutation);
/// Householder's QR as LAPACK packs it; returns the taus.
template <class T>
std::vector<T> factorize_qr(Matrix<T>& x);
/// The first `cols` columns of the reflections' product.
template <class T>
Matrix<T> product_of_reflections(const Matrix<T>& packed, const std::vector<T>& taus, int64_t cols);

/// The Hermitian matrix that the triangle `reads` of x defines.
template <class T>
Matrix<T> hermitian(const Matrix<T>& x, Triangle reads) {
  Matrix<T> m(x.rows, x.cols);
  for (int64_t i = 0; i < x.rows; ++i)
    for (int64_t j = 0; j < x.cols; ++j) {
      T mirrored = conjugated(x(j, i));
      bool own = reads == Triangle::lower ? j < i : j > i;
      m(i, j) = i == j                    ? T(real_of(x(i, i)))
                : reads == Triangle::both ? (x(i, j) + mirrored) * 0.5
                : own                     ? x(i, j)
                                          : mirrored;
    }
  return m;
}

/// For each column of v, the number by which it must be divided so that its leading component is real and positive.
template <class T>
std::vector<T> phases(const Matrix<T>& v) {
  std::vector<T> all;
  for (int64_t j = 0; j < v.cols; ++j) {
    double largest = 0;
    for (int64_t i = 0; i < v.rows; ++i) largest = std::max(largest, std::abs(v(i, j)));
    T phase = 1;
    for (int64_t i = 0; i < v.rows; ++i)
      if (double size = std::abs(v(i, j)); size > 0 && size >= kLeadingShare * largest) {
        phase = v(i, j) / size;
        break;
      }
    all.push_back(phase);
  }
  return all;
}
template <class T>
void turn_columns(Matrix<T>& v, const std::vector<T>& phases) {
  for (int64_t i = 0; i < v.rows; ++i)
    for (int64_t j = 0; j < v.cols; ++j) v(i, j) *= conjugated(phases[static_cast<size_t>(j)]);
}
/// The columns in another order.
template <class T>
Matrix<T> columns_at(const Matrix<T>& v, const std::vector<int64_t>& order) {
  Matrix<T> m(v.rows, v.cols);
  for (int64_t i = 0; i < v.rows; ++i)
    for (int64_t j = 0; j < v.cols; ++j) m(i, j) = v(i, order[static_cast<size_t>(j)]);
  return m;
}

/// The rotation that makes two vectors orthogonal whose Gram matrix is [[alpha, w], [conj w, beta]] (or one that makes
/// that Hermitian matrix diagonal): p' = c p - s q e, q' = s p + c q e, with e = conj(w) / |w|.
template <class T>
struct Rotation {
  double c = 1, s = 0, t = 0;
  T e = 1;
  Rotation(double alpha, double beta, T w) {
    double size = std::abs(w);
    if (size == 0) return;
    double zeta = (beta - alpha) / (2 * size);
    t = (zeta < 0 ? -1 : 1) / (std::abs(zeta) + std::hypot(1.0, zeta));
    c = 1 / std::hypot(1.0, t), s = c * t, e = conjugated(w) / size;
  }
  void columns(Matrix<T>& m, int64_t p, int64_t q) const {
    for (int64_t i = 0; i < m.rows; ++i) {
      T x = m(i, p), y = m(i, q) * e;
      m(i, p) = c * x - s * y, m(i, q) = s * x + c * y;
    }
  }
  void rows(Matrix<T>& m, int64_t p, int64_t q) const {
    for (int64_t j = 0; j < m.cols; ++j) {
      T x = m(p, j), y = m(q, j) * conjugated(e);
      m(p, j) = c * x - s * y, m(q, j) = s * x + c * y;
    }
  }
};

}  // namespace rlx::plain

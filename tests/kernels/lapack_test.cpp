// LAPACK's kernels in f32, f64, c64 and c128: against SciPy's results (lapack_cases.py), and against what defines each
// factorization, in matrices of every form, singular ones and ones near the ends of the exponents.
#include "kernels/linalg/lapack.h"

#include <complex>
#include <cstring>
#include <map>
#include <memory>
#include <thread>

#include "kernels/kernel_test.h"

using namespace rlx;
using namespace rlx::kernels;
using namespace rlx::test;

namespace {

using Number = std::complex<double>;

/// A matrix, or a vector as one column, in the form the checks use.
struct Matrix {
  int64_t m = 0, n = 0;
  std::vector<Number> data = {};

  Matrix(int64_t rows, int64_t cols, Number fill = 0) : m(rows), n(cols), data(static_cast<size_t>(m * n), fill) {}
  Number& operator()(int64_t i, int64_t j) { return data[static_cast<size_t>(i * n + j)]; }
  Number operator()(int64_t i, int64_t j) const { return data[static_cast<size_t>(i * n + j)]; }
};
Matrix operator*(const Matrix& a, const Matrix& b) {
  Matrix c(a.m, b.n);
  for (int64_t i = 0; i < a.m; ++i)
    for (int64_t k = 0; k < a.n; ++k)
      for (int64_t j = 0; j < b.n; ++j) c(i, j) += a(i, k) * b(k, j);
  return c;
}
template <class F>
Matrix made(int64_t m, int64_t n, F f) {
  Matrix x(m, n);
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j) x(i, j) = f(i, j);
  return x;
}
Matrix transposed(const Matrix& x) {
  return made(x.n, x.m, [&](int64_t i, int64_t j) { return x(j, i); });
}
Matrix adjoint(const Matrix& x) {
  return made(x.n, x.m, [&](int64_t i, int64_t j) { return std::conj(x(j, i)); });
}
Matrix identity(int64_t m, int64_t n) {
  return made(m, n, [](int64_t i, int64_t j) { return Number(i == j); });
}
Matrix diagonal(const Matrix& column) {
  return made(column.m, column.m, [&](int64_t i, int64_t j) { return i == j ? column(i, 0) : Number(0); });
}
Matrix scaled(Matrix x, double by) {
  for (Number& v : x.data) v *= by;
  return x;
}
double largest(const Matrix& x) {
  double result = 0;
  for (Number v : x.data) result = std::max(result, std::abs(v));
  return result;
}
double difference(const Matrix& x, const Matrix& y) {
  REQUIRE((x.m == y.m && x.n == y.n));
  double result = 0;
  for (size_t i = 0; i < x.data.size(); ++i)
    result = std::isnan(std::abs(x.data[i] - y.data[i])) ? HUGE_VAL : std::max(result, std::abs(x.data[i] - y.data[i]));
  return result;
}
bool all_nan(const Matrix& x) {
  return std::all_of(x.data.begin(), x.data.end(), [](Number v) { return std::isnan(v.real()); });
}

template <class T>
using RealOf = decltype(std::abs(T()));
template <class T>
constexpr bool kIsComplex = !std::is_same_v<T, RealOf<T>>;
/// The rounding error allowed for a matrix of extents up to `n`.
template <class T>
double roundings(int64_t n) {
  return 8 * static_cast<double>(n + 4) * static_cast<double>(std::numeric_limits<RealOf<T>>::epsilon());
}

template <class T>
T as(Number v) {
  if constexpr (kIsComplex<T>) return T(v);
  else return static_cast<T>(v.real());
}
/// x with its elements rounded to T.
template <class T>
Matrix rounded(Matrix x) {
  for (Number& v : x.data) v = Number(as<T>(v));
  return x;
}
template <class T>
Matrix random(int64_t m, int64_t n, uint64_t seed) {
  Random draws(seed * 100 + static_cast<uint64_t>(m * 10 + n));
  return rounded<T>(made(m, n, [&](int64_t, int64_t) {
    double re = draws.between(-1, 1);
    return Number(re, kIsComplex<T> ? draws.between(-1, 1) : 0);
  }));
}
template <class T>
Matrix random_hermitian(int64_t n, uint64_t seed, double shift = 0) {
  Matrix x = random<T>(n, n, seed), y = adjoint(x);
  return rounded<T>(made(n, n, [&](int64_t i, int64_t j) { return (x(i, j) + y(i, j)) / 2.0 + shift * (i == j); }));
}

/// Runs a kernel; its results are m by n elements of R, one after the other, with something behind them that stays.
class Call {
 public:
  Call(MatrixKernelPtr kernel, size_t results) : kernel_(std::move(kernel)), out_(results) {}
  template <class T>
  Call& in(const Matrix& x) {
    std::vector<std::byte> bytes(x.data.size() * sizeof(T) + 64);
    for (size_t i = 0; i < x.data.size(); ++i) {
      T v = as<T>(x.data[i]);
      std::memcpy(bytes.data() + i * sizeof(T), &v, sizeof(T));
    }
    in_.push_back(std::move(bytes));
    return *this;
  }
  template <class R>
  Matrix out(size_t result, int64_t m, int64_t n) {
    if (!done_) run();
    Matrix x(m, n);
    const auto& bytes = out_[result];
    const size_t end = x.data.size() * sizeof(R);
    for (size_t i = 0; i < x.data.size(); ++i) {
      R v;
      std::memcpy(&v, bytes.data() + i * sizeof(R), sizeof(R));
      if constexpr (std::is_integral_v<R>) x.data[i] = static_cast<double>(v);
      else x.data[i] = Number(v);
    }
    for (size_t i = end; i < end + 32; ++i) REQUIRE(bytes[i] == kUntouched);
    return x;
  }

 private:
  static constexpr std::byte kUntouched{0x5a};
  void run() {
    std::vector<const void*> from;
    std::vector<void*> to;
    for (auto& bytes : in_) from.push_back(bytes.data());
    for (auto& bytes : out_) bytes.assign(1 << 16, kUntouched), to.push_back(bytes.data());
    const auto before = in_;
    Scratch scratch(kernel_->scratch_bytes() + 64);
    kernel_->run(from.data(), to.data(), static_cast<std::byte*>(scratch.data()));
    REQUIRE(in_ == before);
    done_ = true;
  }
  MatrixKernelPtr kernel_;
  std::vector<std::vector<std::byte>> in_, out_;
  bool done_ = false;
};

struct Extents {
  int64_t m, n;
};
const Extents kExtents[] = {{1, 1}, {2, 2}, {5, 5}, {7, 4}, {4, 7}, {1, 6}, {6, 1}, {33, 20}, {20, 33}, {40, 40}};

/// Calls `f.operator()<T>()` for each dtype.
template <class F>
void for_each_dtype(F f) {
  SUBCASE("f32") { f.template operator()<float>(); }
  SUBCASE("f64") { f.template operator()<double>(); }
  SUBCASE("c64") { f.template operator()<std::complex<float>>(); }
  SUBCASE("c128") { f.template operator()<std::complex<double>>(); }
}

template <class T>
void check_lu(const Matrix& x) {
  const int64_t m = x.m, n = x.n, k = std::min(m, n);
  Call call(make_lu(dtype_of<T>(), m, n), 3);
  call.in<T>(x);
  Matrix packed = call.out<T>(0, m, n), pivots = call.out<int32_t>(1, k, 1), permutation = call.out<int32_t>(2, m, 1);
  Matrix l = made(m, k, [&](int64_t i, int64_t j) { return i == j ? 1 : i > j ? packed(i, j) : 0; });
  Matrix u = made(k, n, [&](int64_t i, int64_t j) { return i <= j ? packed(i, j) : 0; });
  auto source = [&](int64_t i) { return static_cast<int64_t>(permutation(i, 0).real()); };
  CHECK(difference(l * u, made(m, n, [&](int64_t i, int64_t j) { return x(source(i), j); })) <=
        roundings<T>(m + n) * std::max(1.0, largest(x)));
  CHECK(largest(l) <= (kIsComplex<T> ? 1.42 : 1.0));
  std::vector<int64_t> swapped(static_cast<size_t>(m));
  for (int64_t i = 0; i < m; ++i) swapped[static_cast<size_t>(i)] = i;
  for (int64_t i = 0; i < k; ++i) {
    auto p = static_cast<int64_t>(pivots(i, 0).real());
    REQUIRE((p >= i && p < m));
    std::swap(swapped[static_cast<size_t>(i)], swapped[static_cast<size_t>(p)]);
  }
  for (int64_t i = 0; i < m; ++i) CHECK(swapped[static_cast<size_t>(i)] == source(i));
}

template <class T>
void check_orthonormal(const Matrix& q) {
  CHECK(difference(adjoint(q) * q, identity(q.n, q.n)) <= roundings<T>(q.m));
}

template <class T>
void check_svd(const Matrix& x) {
  const int64_t k = std::min(x.m, x.n);
  Call call(make_svd(dtype_of<T>(), x.m, x.n), 3);
  call.in<T>(x);
  Matrix u = call.out<T>(0, x.m, k), s = call.out<RealOf<T>>(1, k, 1), vt = call.out<T>(2, k, x.n);
  const double size = largest(x);
  check_orthonormal<T>(u), check_orthonormal<T>(adjoint(vt));
  CHECK(difference(u * diagonal(s) * vt, x) <= roundings<T>(x.m + x.n) * size);
  for (int64_t i = 0; i < k; ++i) CHECK(s(i, 0).real() >= (i + 1 < k ? s(i + 1, 0).real() : 0));
}

template <class T>
void check_eigh(const Matrix& h, MatrixTriangle reads = MatrixTriangle::both) {
  const int64_t n = h.n;
  Matrix given = made(n, n, [&](int64_t i, int64_t j) {
    bool hidden = (reads == MatrixTriangle::lower && j > i) || (reads == MatrixTriangle::upper && j < i);
    return hidden ? Number(NAN, NAN) : h(i, j);
  });
  Call call(make_eigh(dtype_of<T>(), n, reads), 2);
  call.in<T>(given);
  Matrix w = call.out<RealOf<T>>(0, n, 1), v = call.out<T>(1, n, n);
  check_orthonormal<T>(v);
  CHECK(difference(v * diagonal(w) * adjoint(v), h) <= roundings<T>(n) * largest(h));
  for (int64_t i = 0; i + 1 < n; ++i) CHECK(w(i, 0).real() <= w(i + 1, 0).real());
}

template <class T>
Matrix form_of(const Matrix& x, MatrixForm form) {
  return form == MatrixForm::as_is ? x : form == MatrixForm::transposed ? transposed(x) : adjoint(x);
}
const MatrixForm kForms[] = {MatrixForm::as_is, MatrixForm::transposed, MatrixForm::adjoint};
const char kFormNames[] = "NTC";

// ---- SciPy's results ----

const std::map<std::string, std::vector<double>>& expected() {
  static const std::map<std::string, std::vector<double>> all = {
#include "lapack_cases.inc"
  };
  return all;
}
/// The matrix of the same name in lapack_cases.py.
template <class T>
Matrix formula(int64_t m, int64_t n, int64_t seed = 0) {
  return made(m, n, [&](int64_t i, int64_t j) {
    return Number(static_cast<double>((7 * i + 3 * j + i * j + seed) % 11 - 5) / 4,
                  kIsComplex<T> ? static_cast<double>((5 * i + 2 * j + seed) % 7 - 3) / 4 : 0);
  });
}
/// The results of a case, one after the other.
template <class T>
void check_case(std::string name, const std::vector<Matrix>& results, bool complex_anyway = false) {
  if (kIsComplex<T>) name += "_complex";
  INFO("case ", name);
  REQUIRE(expected().contains(name));
  const std::vector<double>& wanted = expected().at(name);
  const size_t reals = kIsComplex<T> || complex_anyway ? 2 : 1;
  size_t at = 0;
  for (const Matrix& got : results)
    for (Number v : got.data) {
      REQUIRE(at + reals <= wanted.size());
      Number want(wanted[at], reals == 2 ? wanted[at + 1] : 0);
      INFO("number ", at / reals);
      CHECK(std::abs(v - want) <= roundings<T>(4) * (2 + std::abs(want)));
      at += reals;
    }
  CHECK(at == wanted.size());
}

}  // namespace

TEST_CASE("the kernels give what SciPy gives") {
  for_each_dtype([]<class T>() {
    const DType t = dtype_of<T>();
    using R = RealOf<T>;
    for (Extents e : {Extents{4, 4}, Extents{5, 3}, Extents{3, 5}}) {
      const int64_t m = e.m, n = e.n, k = std::min(m, n);
      const std::string extents = std::to_string(m) + "x" + std::to_string(n);
      Matrix x = formula<T>(m, n);
      Call lu(make_lu(t, m, n), 3);
      lu.in<T>(x);
      check_case<T>("lu_" + extents, {lu.out<T>(0, m, n), lu.out<int32_t>(1, k, 1), lu.out<int32_t>(2, m, 1)});
      Call geqrf(make_geqrf(t, m, n), 2);
      Matrix packed = geqrf.in<T>(x).template out<T>(0, m, n), taus = geqrf.out<T>(1, k, 1);
      check_case<T>("geqrf_" + extents, {packed, taus});
      for (bool full : {false, true}) {
        Call qr(make_qr(t, m, n, full), 2);
        const int64_t columns = full ? m : k;
        qr.in<T>(x);
        check_case<T>((full ? "qr_full_" : "qr_") + extents, {qr.out<T>(0, m, columns), qr.out<T>(1, columns, n)});
      }
      for (int64_t count : {k, int64_t{2}}) {
        if (m < n) continue;
        Call product(make_householder_product(t, m, n, count), 1);
        product.in<T>(packed).template in<T>(made(count, 1, [&](int64_t i, int64_t) { return taus(i, 0); }));
        check_case<T>("householder_product_" + extents + (count == k ? "" : "_of_2"), {product.out<T>(0, m, n)});
      }
      Call svd(make_svd(t, m, n), 3);
      svd.in<T>(made(m, n, [&](int64_t i, int64_t j) { return x(i, j) + 4.0 * (i == j); }));
      check_case<T>("svd_" + extents, {svd.out<T>(0, m, k), svd.out<R>(1, k, 1), svd.out<T>(2, k, n)});
    }
    const Matrix x = formula<T>(4, 4),
                 h = made(4, 4, [&](int64_t i, int64_t j) { return (x(i, j) + std::conj(x(j, i))) / 2.0; });
    Call cholesky(make_cholesky(t, 4, true, MatrixTriangle::both), 1);
    cholesky.in<T>(made(4, 4, [&](int64_t i, int64_t j) { return h(i, j) + 8.0 * (i == j); }));
    check_case<T>("cholesky", {cholesky.out<T>(0, 4, 4)});
    Call eigh(make_eigh(t, 4, MatrixTriangle::both), 2);
    eigh.in<T>(h);
    check_case<T>("eigh", {eigh.out<R>(0, 4, 1), eigh.out<T>(1, 4, 4)});
    Call eig(make_eig(t, 4), 2);
    eig.in<T>(x);
    check_case<T>("eig", {eig.out<std::complex<R>>(0, 4, 1), eig.out<std::complex<R>>(1, 4, 4)}, true);

    const Matrix a = made(4, 4, [&](int64_t i, int64_t j) { return x(i, j) + 4.0 * (i == j); });
    const Matrix b = formula<T>(4, 3, 5), side = formula<T>(3, 4, 5);
    for (size_t f = 0; f < 3; ++f) {
      const std::string form(1, kFormNames[f]);
      Call solve(make_solve(t, 4, 3, kForms[f]), 1);
      solve.in<T>(a).template in<T>(b);
      check_case<T>("solve_" + form, {solve.out<T>(0, 4, 3)});
      for (bool left : {true, false})
        for (bool lower : {true, false})
          for (bool unit : {true, false}) {
            const int64_t m = left ? 4 : 3, n = left ? 3 : 4;
            Call triangular(make_triangular_solve(t, m, n, left, lower, kForms[f], unit), 1);
            triangular.in<T>(a).template in<T>(left ? b : side);
            check_case<T>(std::string("triangular_") + (left ? "left_" : "right_") + form +
                              (lower ? "_lower" : "_upper") + (unit ? "_unit" : ""),
                          {triangular.out<T>(0, m, n)});
          }
    }
  });
}

TEST_CASE("lu: rows that are permuted are a product of triangles, also of singular matrices") {
  for_each_dtype([]<class T>() {
    for (Extents e : kExtents) {
      check_lu<T>(random<T>(e.m, e.n, 1));
      check_lu<T>(Matrix(e.m, e.n));
      check_lu<T>(rounded<T>(random<T>(e.m, 1, 2) * random<T>(1, e.n, 3)));
      check_lu<T>(Matrix(e.m, e.n, 1));
    }
  });
}

TEST_CASE("cholesky: a triangle times its adjoint, the other triangle 0; NaN where there is none") {
  for_each_dtype([]<class T>() {
    for (int64_t n : {1, 2, 5, 40})
      for (MatrixTriangle reads : {MatrixTriangle::both, MatrixTriangle::lower, MatrixTriangle::upper})
        for (bool lower : {true, false}) {
          auto hidden = [&](int64_t i, int64_t j) {
            return (reads == MatrixTriangle::lower && j > i) || (reads == MatrixTriangle::upper && j < i);
          };
          auto outside = [&](int64_t i, int64_t j) { return lower ? j > i : j < i; };
          auto factor = [&](const Matrix& h) {
            Call call(make_cholesky(dtype_of<T>(), n, lower, reads), 1);
            call.in<T>(made(n, n, [&](int64_t i, int64_t j) { return hidden(i, j) ? Number(NAN, NAN) : h(i, j); }));
            return call.out<T>(0, n, n);
          };
          Matrix h = random_hermitian<T>(n, 4, static_cast<double>(n)), l = factor(h);
          for (int64_t i = 0; i < n; ++i)
            for (int64_t j = 0; j < n; ++j)
              if (outside(i, j)) REQUIRE(l(i, j) == 0.0);
          if (!lower) l = adjoint(l);
          CHECK(difference(l * adjoint(l), h) <= roundings<T>(n) * largest(h));
          for (double on : {0.0, -1.0, static_cast<double>(NAN)}) {  // semidefinite, indefinite, not a number
            Matrix bad = identity(n, n);
            bad(n - 1, n - 1) = on;
            bad = factor(bad);
            for (int64_t i = 0; i < n; ++i)
              for (int64_t j = 0; j < n; ++j) CHECK(outside(i, j) == !std::isnan(bad(i, j).real()));
          }
        }
  });
}

TEST_CASE("qr: orthonormal columns times a triangle with a real diagonal; geqrf and its product are the same") {
  for_each_dtype([]<class T>() {
    for (Extents e : kExtents)
      for (const Matrix& x : {random<T>(e.m, e.n, 5), Matrix(e.m, e.n), Matrix(e.m, e.n, 1)})
        for (bool full : {false, true}) {
          const int64_t m = e.m, n = e.n, k = std::min(m, n), columns = full ? m : k;
          Call call(make_qr(dtype_of<T>(), m, n, full), 2);
          call.in<T>(x);
          Matrix q = call.out<T>(0, m, columns), r = call.out<T>(1, columns, n);
          check_orthonormal<T>(q);
          CHECK(difference(q * r, x) <= roundings<T>(m + n));
          for (int64_t i = 0; i < columns; ++i)
            for (int64_t j = 0; j < std::min(i, n); ++j) REQUIRE(r(i, j) == 0.0);
          for (int64_t i = 0; i < k; ++i) CHECK(r(i, i).imag() == 0);
          if (full || m < n) continue;
          Call geqrf(make_geqrf(dtype_of<T>(), m, n), 2);
          Matrix packed = geqrf.in<T>(x).template out<T>(0, m, n), taus = geqrf.out<T>(1, k, 1);
          Call product(make_householder_product(dtype_of<T>(), m, n, k), 1);
          CHECK(difference(product.in<T>(packed).template in<T>(taus).template out<T>(0, m, n), q) <= roundings<T>(m));
          Call none(make_householder_product(dtype_of<T>(), m, n, 0), 1);
          CHECK(difference(none.in<T>(packed).template in<T>(Matrix(0, 1)).template out<T>(0, m, n), identity(m, n)) ==
                0);
        }
  });
}

TEST_CASE("triangular_solve and solve: op(a) x is b, and the other triangle is not read") {
  for_each_dtype([]<class T>() {
    for (int64_t n : {1, 3, 33})
      for (int64_t k : {1, 5})
        for (MatrixForm form : kForms) {
          Matrix a = scaled(random<T>(n, n, 6), 1 / static_cast<double>(n));
          for (int64_t i = 0; i < n; ++i) a(i, i) += 2;
          a = rounded<T>(a);
          Matrix b = random<T>(n, k, 7);
          Call solve(make_solve(dtype_of<T>(), n, k, form), 1);
          CHECK(difference(form_of<T>(a, form) * solve.in<T>(a).template in<T>(b).template out<T>(0, n, k), b) <=
                roundings<T>(n));
          for (bool left : {true, false})
            for (bool lower : {true, false})
              for (bool unit : {true, false}) {
                auto triangle_of = [&](Number hidden) {
                  return made(n, n, [&](int64_t i, int64_t j) {
                    return i == j                    ? (unit ? (hidden == 0.0 ? 1 : hidden) : a(i, j))
                           : (lower ? j < i : j > i) ? a(i, j)
                                                     : hidden;
                  });
                };
                Matrix sides = left ? b : transposed(b), op = form_of<T>(triangle_of(0), form);
                Call call(make_triangular_solve(dtype_of<T>(), sides.m, sides.n, left, lower, form, unit), 1);
                Matrix x =
                    call.in<T>(triangle_of({NAN, NAN})).template in<T>(sides).template out<T>(0, sides.m, sides.n);
                CHECK(difference(left ? op * x : x * op, sides) <= roundings<T>(n));
              }
        }
    Call singular(make_solve(dtype_of<T>(), 2, 1, MatrixForm::as_is), 1);
    Matrix x = singular.in<T>(Matrix(2, 2)).template in<T>(Matrix(2, 1, 1)).template out<T>(0, 2, 1);
    for (Number v : x.data) CHECK(!(std::isfinite(v.real()) && std::isfinite(v.imag())));
  });
}

TEST_CASE("eigh: also with equal eigenvalues, of one triangle, and near the ends of the exponents") {
  for_each_dtype([]<class T>() {
    for (int64_t n : {1, 2, 5, 33}) {
      for (MatrixTriangle reads : {MatrixTriangle::both, MatrixTriangle::lower, MatrixTriangle::upper})
        check_eigh<T>(random_hermitian<T>(n, 8), reads);
      check_eigh<T>(Matrix(n, n)), check_eigh<T>(identity(n, n)), check_eigh<T>(Matrix(n, n, 1));
      const double large = sizeof(RealOf<T>) == 8 ? 1e200 : 1e30;
      for (double scale : {large, 1 / large}) check_eigh<T>(rounded<T>(scaled(random_hermitian<T>(n, 9), scale)));
      for (double bad : {static_cast<double>(NAN), HUGE_VAL}) {
        Matrix x = identity(n, n);
        x(n - 1, 0) = bad;
        Call call(make_eigh(dtype_of<T>(), n, MatrixTriangle::both), 2);
        call.in<T>(x);
        CHECK(all_nan(call.out<RealOf<T>>(0, n, 1)));
        CHECK(all_nan(call.out<T>(1, n, n)));
      }
    }
  });
}

TEST_CASE("svd: orthonormal factors also of matrices without full rank, and near the ends of the exponents") {
  for_each_dtype([]<class T>() {
    for (Extents e : kExtents) {
      Matrix x = random<T>(e.m, e.n, 10);
      check_svd<T>(x), check_svd<T>(Matrix(e.m, e.n)), check_svd<T>(Matrix(e.m, e.n, 1)),
          check_svd<T>(identity(e.m, e.n));
      check_svd<T>(rounded<T>(random<T>(e.m, 1, 11) * random<T>(1, e.n, 12)));
      const double large = sizeof(RealOf<T>) == 8 ? 1e200 : 1e30;
      for (double scale : {large, 1 / large}) check_svd<T>(rounded<T>(scaled(x, scale)));
      x(e.m - 1, 0) = NAN;
      Call call(make_svd(dtype_of<T>(), e.m, e.n), 3);
      CHECK(all_nan(call.in<T>(x).template out<T>(0, e.m, std::min(e.m, e.n))));
    }
  });
}

TEST_CASE("eig: x v = v w in the order of docs/ir.md, also of matrices with few eigenvectors") {
  for_each_dtype([]<class T>() {
    using C = std::complex<RealOf<T>>;
    const double large = sizeof(RealOf<T>) == 8 ? 1e200 : 1e30;
    for (int64_t n : {1, 2, 5, 20}) {
      Matrix x = random<T>(n, n, 13), jordan = identity(n, n);
      for (int64_t i = 0; i + 1 < n; ++i) jordan(i, i + 1) = 1;
      for (const Matrix& each : {x, rounded<T>(scaled(x, large)), rounded<T>(scaled(x, 1 / large)), jordan,
                                 Matrix(n, n), rounded<T>(random_hermitian<T>(n, 14))}) {
        Call call(make_eig(dtype_of<T>(), n), 2);
        call.in<T>(each);
        Matrix w = call.out<C>(0, n, 1), v = call.out<C>(1, n, n);
        CHECK(difference(each * v, v * diagonal(w)) <= roundings<T>(4 * n) * largest(each));
        for (int64_t j = 0; j < n; ++j) {
          double norm = 0;
          for (int64_t i = 0; i < n; ++i) norm += std::norm(v(i, j));
          CHECK(std::abs(norm - 1) <= roundings<T>(n));
          auto key = [&](int64_t i) { return w(i, 0).real() + 0.3 * w(i, 0).imag(); };
          if (j + 1 < n) CHECK(key(j) <= key(j + 1) + roundings<T>(n) * largest(each));
        }
      }
      x(0, n - 1) = NAN;
      Call call(make_eig(dtype_of<T>(), n), 2);
      CHECK(all_nan(call.in<T>(x).template out<C>(0, n, 1)));
    }
  });
}

TEST_CASE("kernels that run in several threads at once give what they give one after the other") {
  // A BLAS that was built for one thread has buffers that all threads share.
  constexpr int64_t n = 3, kMatrices = 4000;
  const auto solve = make_solve(f32, n, n, MatrixForm::as_is);
  const auto eigh = make_eigh(f64, n, MatrixTriangle::both);
  Random draws(15);
  std::vector<float> a(n * n * kMatrices);
  for (float& v : a) v = static_cast<float>(draws.between(-1, 1));
  const std::vector<double> wide(a.begin(), a.end());
  std::vector<float> eye(n * n);
  for (size_t i = 0; i < eye.size(); i += n + 1) eye[i] = 1;
  struct Results {
    std::vector<float> x = std::vector<float>(n * n * kMatrices);
    std::vector<double> values = std::vector<double>(n * kMatrices), vectors = std::vector<double>(n * n * kMatrices);
  };
  const auto run = [&](Results& results, size_t begin, size_t end) {
    std::vector<std::byte> scratch(std::max(solve->scratch_bytes(), eigh->scratch_bytes()) + 64);
    void* at = scratch.data();
    size_t room = scratch.size();
    auto* aligned_scratch = static_cast<std::byte*>(std::align(64, room - 64, at, room));
    for (size_t i = begin; i < end; ++i) {
      const void* sides[] = {&a[i * n * n], eye.data()};
      void* x[] = {&results.x[i * n * n]};
      solve->run(sides, x, aligned_scratch);
      const void* matrix[] = {&wide[i * n * n]};
      void* pairs[] = {&results.values[i * n], &results.vectors[i * n * n]};
      eigh->run(matrix, pairs, aligned_scratch);
    }
  };
  Results one, two;
  run(one, 0, kMatrices);
  for (int times = 0; times < 5; ++times) {
    std::thread other([&] { run(two, 0, kMatrices / 2); });
    run(two, kMatrices / 2, kMatrices);
    other.join();
    CHECK((one.x == two.x && one.values == two.values && one.vectors == two.vectors));
  }
}

TEST_CASE("matrices without elements take nothing and give nothing") {
  for_each_dtype([]<class T>() {
    const DType t = dtype_of<T>();
    auto run = [](MatrixKernelPtr kernel, size_t results) {
      Call call(std::move(kernel), results);
      call.in<T>(Matrix(0, 0)).template in<T>(Matrix(0, 0)).template out<T>(0, 0, 0);
    };
    run(make_cholesky(t, 0, true, MatrixTriangle::both), 1), run(make_eigh(t, 0, MatrixTriangle::both), 2);
    run(make_eig(t, 0), 2), run(make_solve(t, 0, 2, MatrixForm::as_is), 1);
    run(make_triangular_solve(t, 0, 2, true, true, MatrixForm::as_is, false), 1);
    for (Extents e : {Extents{0, 0}, Extents{0, 3}, Extents{3, 0}})
      run(make_geqrf(t, e.m, e.n), 2), run(make_svd(t, e.m, e.n), 3), run(make_qr(t, e.m, e.n, false), 2);
    Call full(make_qr(t, 3, 0, true), 2);
    CHECK(difference(full.in<T>(Matrix(3, 0)).template out<T>(0, 3, 3), identity(3, 3)) == 0);
    Call rows(make_lu(t, 3, 0), 3);
    CHECK(rows.in<T>(Matrix(3, 0)).template out<int32_t>(2, 3, 1)(2, 0) == 2.0);
  });
}

// Containers of sparse matrices: what they check, how they convert, and the factorization in two parts.
#include <doctest/doctest.h>

#include <complex>

#include "rlx/extras/sparse_matrix.h"
#include "rlx/ops.h"
#include "rlx/session.h"
#include "support/compare.h"

using namespace rlx;

namespace {

constexpr auto kCsr = SparseFormat::csr, kCsc = SparseFormat::csc, kCoo = SparseFormat::coo;

std::string message_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}
Tensor ints(std::vector<int32_t> v) { return Tensor::of<int32_t>({std::ssize(v)}, v); }
Tensor numbers(std::vector<double> v) { return Tensor::of<double>({std::ssize(v)}, v); }

/// [[4, 0, 1], [0, 0, 0], [2, 3, 0], [0, 0, 5]]
const Tensor kDense = Tensor::of<double>({4, 3}, {4, 0, 1, 0, 0, 0, 2, 3, 0, 0, 0, 5});
SparseMatrix csr() { return {kCsr, 4, 3, ints({0, 2, 2, 4, 5}), ints({0, 2, 0, 1, 2}), numbers({4, 1, 2, 3, 5})}; }

}  // namespace

TEST_CASE("every format stands for the same matrix, and each converts to each") {
  CHECK(csr().to_dense() == kDense);
  SparseMatrix csc = csr().to(kCsc), coo = csr().to(kCoo);
  // As SciPy's csr_array(...).tocsc() and .tocoo() have them.
  CHECK(csc.first() == ints({0, 2, 3, 5}));
  CHECK(csc.second() == ints({0, 2, 2, 0, 3}));
  CHECK(csc.values() == numbers({4, 2, 3, 1, 5}));
  CHECK(coo.first() == ints({0, 0, 2, 2, 3}));
  CHECK(coo.second() == ints({0, 2, 0, 1, 2}));
  for (const SparseMatrix& from : {csr(), csc, coo})
    for (SparseFormat to : {kCsr, kCsc, kCoo}) {
      SparseMatrix made = from.to(to);
      CHECK(made.format() == to);
      CHECK(made.entries() == 5);
      CHECK(made.to_dense() == kDense);
      SparseMatrix wide = made.with_indices(i64);
      CHECK(wide.first().dtype() == i64);
      CHECK(wide.with_indices(i32).first() == made.first());
      CHECK(SparseMatrix::from_dense(kDense, to).second() == made.second());
    }
}
TEST_CASE("a transposed matrix shares its elements") {
  SparseMatrix t = csr().transposed();
  CHECK(t.format() == kCsc);
  CHECK(t.rows() == 3);
  CHECK(t.to_dense() == Tensor::of<double>({3, 4}, {4, 0, 2, 0, 0, 0, 3, 0, 1, 0, 0, 5}));
  CHECK(t.transposed().to_dense() == kDense);
  CHECK(csr().to(kCoo).transposed().to_dense() == t.to_dense());
}
TEST_CASE("entries of one place are kept until a conversion adds them up; zeros that are stored stay") {
  SparseMatrix coo(kCoo, 2, 2, ints({1, 0, 1, 0}), ints({0, 1, 0, 0}), numbers({2, 7, 3, 0}));
  CHECK(coo.entries() == 4);
  CHECK(coo.to_dense() == Tensor::of<double>({2, 2}, {0, 7, 5, 0}));
  SparseMatrix rows = coo.to(kCsr);
  CHECK(rows.first() == ints({0, 2, 3}));
  CHECK(rows.second() == ints({0, 1, 0}));
  CHECK(rows.values() == numbers({0, 7, 5}));
}
TEST_CASE("matrices without entries, rows or columns, and complex ones") {
  SparseMatrix empty(kCsr, 0, 3, ints({0}), ints({}), numbers({}));
  CHECK(empty.to(kCsc).first() == ints({0, 0, 0, 0}));
  CHECK(empty.to_dense().shape() == Shape{0, 3});
  using C = std::complex<double>;
  Tensor z = Tensor::of<C>({2, 2}, {C{0, 1}, C{}, C{}, C{2, 0}});
  CHECK(SparseMatrix::from_dense(z, kCsc).entries() == 2);
  CHECK(SparseMatrix::from_dense(z, kCsc).to_dense() == z);
}
TEST_CASE("what is wrong with a matrix is said when it is made, with its place") {
  auto made = [](SparseFormat f, int64_t rows, int64_t columns, Tensor first, Tensor second, Tensor values) {
    return message_of([&] { SparseMatrix(f, rows, columns, first, second, values); });
  };
  Tensor one = numbers({1}), two = numbers({1, 2});
  CHECK(made(kCsr, 2, 3, ints({0, 1, 2}), ints({0, 3}), two) ==
        "the column of entry 1 is 3; this csr matrix has 3 columns");
  CHECK(made(kCsc, 3, 2, ints({0, 1, 2}), ints({-1, 0}), two) ==
        "the row of entry 0 is -1; this csc matrix has 3 rows");
  CHECK(made(kCoo, 3, 2, ints({0, 3}), ints({0, 0}), two) == "the row of entry 1 is 3; this coo matrix has 3 rows");
  CHECK(made(kCoo, 3, 2, ints({0}), ints({0, 0}), two) ==
        "coo has a row and a column for each entry; got i32[1] and i32[2]");
  CHECK(made(kCsr, 3, 3, ints({0, 1, 2}), ints({0, 0}), two) == "csr of 3 rows has 4 pointers; got 3");
  CHECK(made(kCsr, 2, 3, ints({1, 1, 2}), ints({0, 0}), two) == "the first pointer of a csr matrix is 0; got 1");
  CHECK(made(kCsc, 3, 2, ints({0, 2, 1}), ints({0, 0}), two) ==
        "the pointers of a csc matrix ascend; pointer 2 is 1 behind 2");
  CHECK(made(kCsr, 2, 3, ints({0, 1, 1}), ints({0, 0}), two) ==
        "the last pointer of a csr matrix is the number of its entries, 2; got 1");
  CHECK(made(kCsr, -1, 3, ints({0}), ints({}), numbers({})) == "a matrix of -1 rows and 3 columns");
  CHECK(made(kCsr, 1, 1, ints({0, 1}), Tensor::of<int64_t>({1}, {0}), one) ==
        "a sparse pattern is two vectors of one dtype, i32 or i64; got i32[2] and i64[1]");
  CHECK(made(kCsr, 1, 1, ints({0, 1}), ints({0}), two) == "a value for each of the 1 entries; got f64[2]");
  CHECK(made(kCsr, 1, 1, ints({0, 1}), ints({0}), ints({1})) ==
        "a sparse matrix of i32; f32, f64, c64 and c128 are stored");
  CHECK(message_of([] { SparseMatrix::from_dense(numbers({1})); }) == "a matrix [rows, columns] is needed; got f64[1]");
  SparseMatrix far(kCoo, int64_t{1} << 40, 1, Tensor::of<int64_t>({1}, {int64_t{1} << 35}),
                   Tensor::of<int64_t>({1}, {0}), one);
  CHECK(message_of([&] { far.with_indices(i32); }) == "the index 34359738368 does not fit in i32; use indices of i64");
}
TEST_CASE("a matrix in a graph is three constants, or has values that are an input") {
  Graph g;
  Value x = g.input("x", f64, {3, 2}), v = g.input("v", f64, {5});
  g.output(sparse_matmul(csr().in(g), x));
  g.output(sparse_matmul(csr().in(g, v), x));
  Tensor point = Tensor::of<double>({3, 2}, {1, 2, 3, 4, 5, 6}), twice = numbers({8, 2, 4, 6, 10});
  auto out = Session().compile(g).run_ordered(std::array{point, twice});
  CHECK(out[0] == Tensor::of<double>({4, 2}, {9, 14, 0, 0, 11, 16, 25, 30}));
  CHECK(out[1] == Tensor::of<double>({4, 2}, {18, 28, 0, 0, 22, 32, 50, 60}));
}
TEST_CASE("one symbolic analysis serves many values, both ways") {
  // [[2, 1, 0], [0, 3, 1], [1, 0, 4]], whose determinant is 25.
  SparseMatrix m(kCsr, 3, 3, ints({0, 2, 4, 6}), ints({0, 1, 1, 2, 0, 2}), numbers({2, 1, 3, 1, 1, 4}));
  std::optional<SparseLu> lu;
  std::string why = message_of([&] { lu.emplace(m); });
  if (!lu) {
    CHECK(why.find("without Eigen") != std::string::npos);
    return;
  }
  CHECK(lu->fill() == 0);
  CHECK(message_of([&] { lu->solve(numbers({1, 2, 3})); }) == "factor() comes before solve(), and must succeed");
  for (double factor : {1.0, 4.0}) {
    lu->factor(numbers({2 * factor, factor, 3 * factor, factor, factor, 4 * factor}));
    CHECK(lu->fill() >= 6);
    Tensor b = Tensor::of<double>({3, 2}, {3, 0, 4, 25, 5, 0});
    // b's first column holds the sums of the rows; the second is by Cramer's rule. (3, 4, 5) are the sums of the
    // columns, too.
    CHECK(difference(lu->solve(b), Tensor::of<double>({3, 2}, {1 / factor, -4 / factor, 1 / factor, 8 / factor,
                                                               1 / factor, 1 / factor})) == "");
    CHECK(difference(lu->solve(numbers({3, 4, 5}), true), numbers({1 / factor, 1 / factor, 1 / factor})) == "");
  }
  CHECK(message_of([&] {
          lu->factor(numbers({1, 0, 0, 0, 0, 1}));
        }) == "the matrix of 3 rows and 6 entries is singular");
  CHECK(message_of([&] { lu->solve(numbers({1, 2, 3})); }) == "factor() comes before solve(), and must succeed");
  lu->factor(numbers({1, 0, 0, 0, 0, 1}), 1);  // diag(2, 1, 2)
  CHECK(lu->solve(numbers({1, 2, 3})) == numbers({0.5, 2, 1.5}));
  CHECK(message_of([&] { lu->factor(numbers({1})); }) == "the pattern has 6 entries of f64; got values of f64[1]");
  CHECK(message_of([&] { lu->solve(numbers({1})); }) == "b must be f64[3] or f64[3, k]; got f64[1]");
  CHECK(message_of([] { SparseLu{csr()}; }) == "only a square matrix can be solved with; this one is 4 by 3");
}

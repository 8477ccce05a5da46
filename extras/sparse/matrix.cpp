// Containers of sparse matrices: checked when they are made, so that whoever has one need not look again.
#include "rlx/extras/sparse_matrix.h"

#include <limits>

#include "extras/sparse/compressed.h"
#include "extras/sparse/pattern.h"

namespace rlx {
namespace {

std::vector<int64_t> numbers(const Tensor& t) {
  if (t.dtype() == i64) return {t.values<int64_t>().begin(), t.values<int64_t>().end()};
  return {t.values<int32_t>().begin(), t.values<int32_t>().end()};
}
Tensor indices(const std::vector<int64_t>& list, DType dtype) {
  auto count = static_cast<int64_t>(list.size());
  if (dtype == i64) return Tensor::of<int64_t>({count}, list);
  Tensor t(i32, {count});
  for (size_t i = 0; i < list.size(); ++i) {
    if (list[i] > std::numeric_limits<int32_t>::max())
      fail(ErrorCode::invalid_argument, "the index ", list[i], " does not fit in i32; use indices of i64");
    t.mutable_values<int32_t>()[i] = static_cast<int32_t>(list[i]);
  }
  return t;
}
template <class F>
auto with_values(DType dtype, F f) {
  switch (dtype) {
    case f32: return f.template operator()<float>();
    case f64: return f.template operator()<double>();
    case c64: return f.template operator()<std::complex<float>>();
    case c128: return f.template operator()<std::complex<double>>();
    default: fail(ErrorCode::unsupported, "a sparse matrix of ", dtype, "; f32, f64, c64 and c128 are stored");
  }
}

struct Checks {
  std::string_view format;
  void pointers(const Tensor& t, int64_t lines, int64_t entries, std::string_view of) const {
    auto p = numbers(t);
    if (std::ssize(p) != lines + 1)
      fail(ErrorCode::shape_mismatch, format, " of ", lines, " ", of, " has ", lines + 1, " pointers; got ", p.size());
    if (p.front() != 0)
      fail(ErrorCode::invalid_argument, "the first pointer of a ", format, " matrix is 0; got ", p.front());
    for (size_t i = 1; i < p.size(); ++i)
      if (p[i] < p[i - 1])
        fail(ErrorCode::invalid_argument, "the pointers of a ", format, " matrix ascend; pointer ", i, " is ", p[i],
             " behind ", p[i - 1]);
    if (p.back() != entries)
      fail(ErrorCode::invalid_argument, "the last pointer of a ", format, " matrix is the number of its entries, ",
           entries, "; got ", p.back());
  }
  void places(const Tensor& t, int64_t size, std::string_view what) const {
    auto all = numbers(t);
    for (size_t e = 0; e < all.size(); ++e)
      if (all[e] < 0 || all[e] >= size)
        fail(ErrorCode::invalid_argument, "the ", what, " of entry ", e, " is ", all[e], "; this ", format,
             " matrix has ", size, " ", what, "s");
  }
};

/// Entry, row and column of all entries, line by line.
std::vector<sparse::Place<int64_t>> places_of(const SparseMatrix& m) {
  std::vector<sparse::Place<int64_t>> all;
  auto first = numbers(m.first()), second = numbers(m.second());
  all.reserve(second.size());
  if (m.format() == SparseFormat::coo)
    for (size_t e = 0; e < second.size(); ++e) all.push_back({first[e], second[e], static_cast<int64_t>(e)});
  else
    for (size_t line = 0; line + 1 < first.size(); ++line)
      for (int64_t e = first[line]; e < first[line + 1]; ++e) {
        auto own = static_cast<int64_t>(line), other = second[static_cast<size_t>(e)];
        all.push_back(m.format() == SparseFormat::csr ? sparse::Place<int64_t>{own, other, e}
                                                      : sparse::Place<int64_t>{other, own, e});
      }
  return all;
}

}  // namespace

SparseMatrix::SparseMatrix(SparseFormat format, int64_t rows, int64_t columns, Tensor first, Tensor second,
                           Tensor values)
    : format_(format), rows_(rows), columns_(columns), first_(std::move(first)), second_(std::move(second)),
      values_(std::move(values)) {
  Checks check{names_of(format)[static_cast<size_t>(format)]};
  if (rows < 0 || columns < 0)
    fail(ErrorCode::invalid_argument, "a matrix of ", rows, " rows and ", columns, " columns");
  for (const Tensor* t : {&first_, &second_})
    if ((t->dtype() != i32 && t->dtype() != i64) || t->shape().size() != 1 || t->dtype() != first_.dtype())
      fail(ErrorCode::shape_mismatch, "a sparse pattern is two vectors of one dtype, i32 or i64; got ", first_.type(),
           " and ", second_.type());
  with_values(values_.dtype(), []<class T>() {});
  if (values_.shape() != second_.shape())
    fail(ErrorCode::shape_mismatch, "a value for each of the ", entries(), " entries; got ", values_.type());
  if (format == SparseFormat::coo) {
    if (first_.shape() != second_.shape())
      fail(ErrorCode::shape_mismatch, "coo has a row and a column for each entry; got ", first_.type(), " and ",
           second_.type());
    check.places(first_, rows, "row");
  } else if (format == SparseFormat::csr) {
    check.pointers(first_, rows, entries(), "rows");
  } else {
    check.pointers(first_, columns, entries(), "columns");
  }
  check.places(second_, format == SparseFormat::csc ? rows : columns, format == SparseFormat::csc ? "row" : "column");
}

SparseMatrix SparseMatrix::from_dense(const Tensor& dense, SparseFormat format, DType index) {
  if (dense.shape().size() != 2)
    fail(ErrorCode::shape_mismatch, "a matrix [rows, columns] is needed; got ", dense.type());
  int64_t rows = dense.shape()[0], columns = dense.shape()[1];
  return with_values(dense.dtype(), [&]<class T>() {
    std::vector<int64_t> r, c;
    std::vector<T> values;
    for (int64_t i = 0; i < rows * columns; ++i) {
      T v = dense.values<T>()[static_cast<size_t>(i)];
      if (v != T{}) r.push_back(i / columns), c.push_back(i % columns), values.push_back(v);
    }
    auto count = static_cast<int64_t>(values.size());
    return SparseMatrix(SparseFormat::coo, rows, columns, indices(r, index), indices(c, index),
                        Tensor::of<T>({count}, values))
        .to(format);
  });
}

SparseMatrix SparseMatrix::to(SparseFormat format) const {
  return with_values(values_.dtype(), [&]<class T>() {
    bool by_columns = format == SparseFormat::csc;
    std::vector<sparse::Place<T>> places;
    for (const auto& p : places_of(*this)) {
      T value = values_.values<T>()[static_cast<size_t>(p.value)];
      places.push_back(by_columns ? sparse::Place<T>{p.column, p.row, value}
                                  : sparse::Place<T>{p.row, p.column, value});
    }
    auto made = sparse::compressed(by_columns ? columns_ : rows_, std::move(places));
    std::vector<int64_t> first = made.pointers;
    if (format == SparseFormat::coo) {
      first.clear();
      for (size_t line = 0; line + 1 < made.pointers.size(); ++line)
        first.insert(first.end(), static_cast<size_t>(made.pointers[line + 1] - made.pointers[line]),
                     static_cast<int64_t>(line));
    }
    DType index = first_.dtype();
    return SparseMatrix(format, rows_, columns_, indices(first, index), indices(made.columns, index),
                        Tensor::of<T>({std::ssize(made.values)}, made.values));
  });
}

SparseMatrix SparseMatrix::with_indices(DType index) const {
  if (index != i32 && index != i64) fail(ErrorCode::invalid_argument, "indices are i32 or i64, not ", index);
  return SparseMatrix(format_, rows_, columns_, indices(numbers(first_), index), indices(numbers(second_), index),
                      values_);
}

SparseMatrix SparseMatrix::transposed() const {
  if (format_ == SparseFormat::coo) return SparseMatrix(format_, columns_, rows_, second_, first_, values_);
  return SparseMatrix(format_ == SparseFormat::csr ? SparseFormat::csc : SparseFormat::csr, columns_, rows_, first_,
                      second_, values_);
}

Tensor SparseMatrix::to_dense() const {
  Tensor dense(values_.dtype(), {rows_, columns_});
  with_values(values_.dtype(), [&]<class T>() {
    auto cells = dense.mutable_values<T>();
    for (const auto& p : places_of(*this))
      cells[static_cast<size_t>(p.row * columns_ + p.column)] += values_.values<T>()[static_cast<size_t>(p.value)];
  });
  return dense;
}

SparseValue SparseMatrix::in(Graph& g) const { return in(g, g.constant(values_)); }
SparseValue SparseMatrix::in(Graph& g, Value values) const {
  return {format_, rows_, columns_, g.constant(first_), g.constant(second_), values};
}

}  // namespace rlx

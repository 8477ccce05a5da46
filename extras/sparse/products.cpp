// Products with a sparse matrix and what they are transposed to: sampled products, and the ways to and from dense ones.
// They are each other's derivatives, so the family is closed under differentiation.
#include "extras/sparse/pattern.h"

namespace rlx {

Value sparse_matmul(const SparseValue& a, Value x, bool transposed) {
  return emit(op::sparse_matmul, {a.first, a.second, a.values, x},
              sparse::attrs_of<SparseProductAttrs>(a, {.transposed = transposed}));
}
Value sparse_matvec(const SparseValue& a, Value x, bool transposed) {
  return squeeze(sparse_matmul(a, expand_dims(x, -1), transposed), {-1});
}
Value sparse_sampled_matmul(const SparseValue& pattern, Value u, Value v) {
  return emit(op::sparse_sampled_matmul, {pattern.first, pattern.second, u, v}, sparse::attrs_of<SparseAttrs>(pattern));
}
Value sparse_to_dense(const SparseValue& a) {
  return emit(op::sparse_to_dense, {a.first, a.second, a.values}, sparse::attrs_of<SparseAttrs>(a));
}
Value sparse_sample(const SparseValue& pattern, Value dense) {
  return emit(op::sparse_sample, {pattern.first, pattern.second, dense}, sparse::attrs_of<SparseAttrs>(pattern));
}

namespace {

using namespace sparse;

bool is_empty(const Dim& d) { return d == Dim(0); }

/// x[..., size, n] at the entries' places along its dim -2: [..., nnz, n]. A place out of range gives anything.
Value picked(Value x, Value places) {
  if (is_empty(x.dim(-2))) {
    Dims dims = x.dims();
    dims[dims.size() - 2] = places.dim(0);
    return full(x.graph(), 0, {x.dtype(), dims});
  }
  return take(x, places, x.rank() - 2, OutOfRange::clip);
}

/// Each entry's place in the dense matrix, row by row; -1 if it has none.
Value flat_places(Values in, const SparseAttrs& a) {
  auto [rows, columns, valid] = places_of(in[0], in[1], a);
  Value width = extent(in[0].graph(), a.columns, i64);
  Value at = convert(rows, i64) * broadcast_to(width, rows.dims()) + convert(columns, i64);
  return select(valid, at, full_like(at, -1));
}

std::vector<Value> stacked(Values in, const Mask& batched) {
  if (batched[0] || batched[1]) return {};
  return std::vector<Value>(in.begin(), in.end());
}

/// a itself, and with the operands' roles exchanged.
std::vector<Sample> product_samples() {
  using A = SparseProductAttrs;
  constexpr auto csr = SparseFormat::csr, csc = SparseFormat::csc, coo = SparseFormat::coo;
  return {{.dims = {{4}, {5}, {5}, {3, 2}}, .dtypes = {i32, i32}, .attrs = A{csr, 3, 3}, .lo = 0, .hi = 3},
          {.dims = {{4}, {5}, {5}, {3, 1}}, .dtypes = {i64, i64}, .attrs = A{csc, 4, 3}, .lo = -1, .hi = 6},
          {.dims = {{7}, {7}, {7}, {4, 3}}, .dtypes = {i32, i32}, .attrs = A{coo, 3, 4}, .lo = 0, .hi = 4},
          {.dims = {{7}, {7}, {7}, {3, 3}}, .dtypes = {i64, i64}, .attrs = A{coo, 3, 4, true}, .lo = 0, .hi = 4},
          {.dims = {{3}, {4}, {2, 4}, {2, 2, 3}}, .dtypes = {i32, i32}, .attrs = A{csr, 2, 3, true}, .lo = 0, .hi = 4},
          {.dims = {{3}, {4}, {4}, {3, 2, 1}}, .dtypes = {i32, i32}, .attrs = A{csc, 3, 2}, .lo = 0, .hi = 4},
          {.dims = {{4}, {5}, {5}, {2, 2}}, .dtypes = {i32, i32, c128, c128}, .attrs = A{csr, 3, 2}, .lo = 0, .hi = 3},
          {.dims = {{1}, {0}, {0}, {2, 3}}, .dtypes = {i32, i32}, .attrs = A{csr, 0, 2}},
          {.dims = {{2}, {3}, {3}, {0, 2}}, .dtypes = {i32, i32}, .attrs = A{csr, 1, 0}, .lo = 0, .hi = 3}};
}

}  // namespace

OpDef define_sparse_matmul() {
  return define<SparseProductAttrs>({
      .name = "sparse_matmul",
      .doc = "a x for a sparse matrix a [rows, columns] in csr, csc or coo and x[..., columns, n]; aᵀ x of x[..., "
             "rows, n] "
             "if `transposed`. Entries of one place add up, those out of range are left out",
      .source = "Saad, Iterative Methods for Sparse Linear Systems (2003), 3.4",
      .operands = {"first", "second", "values", "x"},
      .infer =
          [](Types in, const SparseProductAttrs& a) {
            Dim entries = require_pattern(in, shape_of_matrix(a));
            require_numbers(in);
            require_rows(in[3], a.transposed ? a.rows : a.columns, "x",
                         text_of("a row for each of a's ", a.transposed ? "rows" : "columns"));
            require_values(in[2], entries, in[3], "x");
            Type y = in[3];
            y.dims[y.rank() - 2] = a.transposed ? a.columns : a.rows;
            return y;
          },
      .decompose =
          [](Values in, const SparseProductAttrs& a) {
            auto [rows, columns, valid] = places_of(in[0], in[1], shape_of_matrix(a));
            Value terms = expand_dims(in[2], -1) * picked(in[3], a.transposed ? rows : columns);
            return scatter_add_rows(masked(terms, valid, 1), a.transposed ? columns : rows,
                                    a.transposed ? a.columns : a.rows, terms.rank() - 2);
          },
      .vjp = [](Values in, Value, Value ct, const SparseProductAttrs& a) -> Many<Value> {
        SparseValue m = value_of(in, a, in[2]);
        Value values = a.transposed ? sparse_sampled_matmul(m, in[3], ct) : sparse_sampled_matmul(m, ct, in[3]);
        return {Value{}, Value{}, of_values(values, in[2]), sparse_matmul(m, ct, !a.transposed)};
      },
      .batch = [](Values in, const Mask& batched, const SparseProductAttrs& a, const Transforms&) -> Many<Value> {
        auto all = batched_operands(in, batched);
        if (all.empty()) return {};
        return emit(op::sparse_matmul, all, a);
      },
      .samples = product_samples,
  });
}

OpDef define_sparse_sampled_matmul() {
  using A = SparseAttrs;
  constexpr auto csr = SparseFormat::csr, csc = SparseFormat::csc, coo = SparseFormat::coo;
  return define<SparseAttrs>({
      .name = "sparse_sampled_matmul",
      .doc = "the values of u vᵀ at the places of a sparse pattern, u[..., rows, n] and v[..., columns, n]: [..., "
             "nnz]; 0 at "
             "places out of range",
      .source = "sampled dense-dense product: Nisa et al., HiPC (2018)",
      .operands = {"first", "second", "u", "v"},
      .infer =
          [](Types in, const SparseAttrs& a) {
            Dim entries = require_pattern(in, a);
            Type y{require_numbers(in), {}};
            require_rows(in[2], a.rows, "u", "a row for each of the pattern's rows");
            require_rows(in[3], a.columns, "v", "a row for each of the pattern's columns");
            Dims wanted = in[2].dims;
            wanted[wanted.size() - 2] = a.columns;
            if (in[3].dims != wanted)
              fail(ErrorCode::shape_mismatch, "u and v have equal leading dims and equally many columns; got ", in[2],
                   " and ", in[3]);
            y.dims = batch_dims(in[2].dims);
            y.dims.push_back(entries);
            return y;
          },
      .decompose =
          [](Values in, const SparseAttrs& a) {
            auto [rows, columns, valid] = places_of(in[0], in[1], a);
            Value products = picked(in[2], rows) * picked(in[3], columns);
            return masked(reduce_sum(products, {products.rank() - 1}), valid);
          },
      .vjp = [](Values in, Value, Value ct, const SparseAttrs& a) -> Many<Value> {
        SparseValue m = value_of(in, a, ct);
        return {Value{}, Value{}, sparse_matmul(m, in[3]), sparse_matmul(m, in[2], true)};
      },
      .batch = [](Values in, const Mask& batched, const SparseAttrs& a, const Transforms&) -> Many<Value> {
        auto all = stacked(in, batched);
        if (all.empty()) return {};
        for (size_t i : {2, 3})
          if (!batched[i]) all[i] = repeat_front(all[i], all[5 - i].dim(0));
        return emit(op::sparse_sampled_matmul, all, a);
      },
      .samples =
          {{.dims = {{4}, {5}, {3, 2}, {3, 2}}, .dtypes = {i32, i32}, .attrs = A{csr, 3, 3}, .lo = 0, .hi = 4},
           {.dims = {{6}, {6}, {3, 1}, {4, 1}}, .dtypes = {i64, i64}, .attrs = A{coo, 3, 4}, .lo = -1, .hi = 4},
           {.dims = {{4}, {5}, {2, 2, 3}, {2, 3, 3}}, .dtypes = {i32, i32}, .attrs = A{csc, 2, 3}, .lo = 0, .hi = 4},
           {.dims = {{3}, {4}, {2, 2}, {3, 2}},
            .dtypes = {i32, i32, c128, c128},
            .attrs = A{csr, 2, 3},
            .lo = 0,
            .hi = 4},
           {.dims = {{3}, {3}, {2, 0}, {2, 0}}, .dtypes = {i32, i32}, .attrs = A{coo, 2, 2}, .lo = 0, .hi = 2}},
  });
}

OpDef define_sparse_to_dense() {
  using A = SparseAttrs;
  constexpr auto csr = SparseFormat::csr, csc = SparseFormat::csc, coo = SparseFormat::coo;
  return define<SparseAttrs>({
      .name = "sparse_to_dense",
      .doc =
          "the matrix [..., rows, columns] of a sparse pattern and its values[..., nnz]; entries of one place add up, "
          "those out of range are left out",
      .operands = {"first", "second", "values"},
      .infer =
          [](Types in, const SparseAttrs& a) {
            Dim entries = require_pattern(in, a);
            Type y{require_numbers(in), in[2].dims};
            if (y.dims.empty() || y.dims.back() != entries)
              fail(ErrorCode::shape_mismatch, "values must be [..., ", entries, "], one for each entry; got ", in[2]);
            y.dims.back() = a.rows;
            y.dims.push_back(a.columns);
            return y;
          },
      .decompose =
          [](Values in, const SparseAttrs& a) {
            Dims dims = in[2].dims();
            dims.back() = a.rows;
            dims.push_back(a.columns);
            return reshape(scatter_add_rows(in[2], flat_places(in, a), a.rows * a.columns, in[2].rank() - 1), dims);
          },
      .vjp = [](Values in, Value, Value ct, const SparseAttrs& a) -> Many<Value> {
        return {Value{}, Value{}, sparse_sample(value_of(in, a), ct)};
      },
      .batch = [](Values in, const Mask& batched, const SparseAttrs& a, const Transforms&) -> Many<Value> {
        auto all = stacked(in, batched);
        return all.empty() ? Many<Value>() : Many<Value>(emit(op::sparse_to_dense, all, a));
      },
      .samples = {{.dims = {{4}, {5}, {5}}, .dtypes = {i32, i32}, .attrs = A{csr, 3, 4}, .lo = 0, .hi = 5},
                  {.dims = {{6}, {6}, {2, 6}}, .dtypes = {i64, i64}, .attrs = A{coo, 2, 3}, .lo = -1, .hi = 3},
                  {.dims = {{3}, {3}, {3}}, .dtypes = {i32, i32}, .attrs = A{csc, 3, 2}, .lo = 0, .hi = 3},
                  {.dims = {{4}, {4}, {4}}, .dtypes = {i32, i32, c128}, .attrs = A{coo, 2, 2}, .lo = 0, .hi = 2},
                  {.dims = {{0}, {0}, {0}}, .dtypes = {i32, i32}, .attrs = A{coo, 1, 1}}},
  });
}

OpDef define_sparse_sample() {
  using A = SparseAttrs;
  constexpr auto csr = SparseFormat::csr, csc = SparseFormat::csc, coo = SparseFormat::coo;
  return define<SparseAttrs>({
      .name = "sparse_sample",
      .doc = "the values of dense[..., rows, columns] at the places of a sparse pattern: [..., nnz]; 0 at places out "
             "of range",
      .operands = {"first", "second", "dense"},
      .infer =
          [](Types in, const SparseAttrs& a) {
            Dim entries = require_pattern(in, a);
            Type y{require_numbers(in), {}};
            require_rows(in[2], a.rows, "dense", "as the pattern has rows");
            if (in[2].dims.back() != a.columns)
              fail(ErrorCode::shape_mismatch, "dense must have the pattern's ", a.columns, " columns; got ", in[2]);
            y.dims = batch_dims(in[2].dims);
            y.dims.push_back(entries);
            return y;
          },
      .decompose =
          [](Values in, const SparseAttrs& a) {
            Dims dims = batch_dims(in[2].dims());
            dims.push_back(a.rows * a.columns);
            Value places = flat_places(in, a);
            Value at = places, valid = compare(places, zeros_like(places), Comparison::ge);
            Value flat = picked(expand_dims(reshape(in[2], dims), -1), at);
            return masked(squeeze(flat, {-1}), valid);
          },
      .vjp = [](Values in, Value, Value ct, const SparseAttrs& a) -> Many<Value> {
        return {Value{}, Value{}, sparse_to_dense(value_of(in, a, ct))};
      },
      .batch = [](Values in, const Mask& batched, const SparseAttrs& a, const Transforms&) -> Many<Value> {
        auto all = stacked(in, batched);
        return all.empty() ? Many<Value>() : Many<Value>(emit(op::sparse_sample, all, a));
      },
      .samples = {{.dims = {{4}, {5}, {3, 4}}, .dtypes = {i32, i32}, .attrs = A{csr, 3, 4}, .lo = 0, .hi = 5},
                  {.dims = {{6}, {6}, {2, 2, 3}}, .dtypes = {i64, i64}, .attrs = A{coo, 2, 3}, .lo = -1, .hi = 3},
                  {.dims = {{3}, {3}, {3, 2}}, .dtypes = {i32, i32}, .attrs = A{csc, 3, 2}, .lo = 0, .hi = 3},
                  {.dims = {{3}, {3}, {2, 2}}, .dtypes = {i32, i32, c64}, .attrs = A{coo, 2, 2}, .lo = 0, .hi = 2},
                  {.dims = {{2}, {2}, {0, 3}}, .dtypes = {i32, i32}, .attrs = A{coo, 0, 3}, .lo = 0, .hi = 2}},
  });
}

}  // namespace rlx

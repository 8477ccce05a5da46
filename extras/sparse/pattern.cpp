// See the header.
#include "extras/sparse/pattern.h"

namespace rlx {

SparseValue SparseValue::transposed() const {
  SparseValue t = *this;
  std::swap(t.rows, t.columns);
  if (format == SparseFormat::coo) std::swap(t.first, t.second);
  else t.format = format == SparseFormat::csr ? SparseFormat::csc : SparseFormat::csr;
  return t;
}
SparseValue SparseValue::with_values(Value v) const {
  SparseValue same = *this;
  same.values = v;
  return same;
}

namespace sparse {

Dim require_pattern(Types in, const SparseAttrs& a) {
  const Type &first = in[0], &second = in[1];
  for (const Type& t : {first, second})
    if ((t.dtype != i32 && t.dtype != i64) || t.rank() != 1 || t.dtype != first.dtype)
      fail(ErrorCode::invalid_argument, "a sparse pattern is two vectors of one dtype, i32 or i64; got ", first,
           " and ", second);
  for (const Dim& d : {a.rows, a.columns})
    if (d.is_static() && d.value() < 0)
      fail(ErrorCode::invalid_argument, "a matrix of ", a.rows, " rows and ", a.columns, " columns");
  bool coo = a.format == SparseFormat::coo;
  const Dim& side = a.format == SparseFormat::csr ? a.rows : a.columns;
  if (first.dims[0] != (coo ? second.dims[0] : side + 1)) {
    std::string_view format = names_of(a.format)[static_cast<size_t>(a.format)];
    if (coo) fail(ErrorCode::shape_mismatch, "coo has a row and a column for each entry; got ", first, " and ", second);
    fail(ErrorCode::shape_mismatch, format, " of ", side, a.format == SparseFormat::csr ? " rows" : " columns", " has ",
         side + 1, " pointers, one more; got ", first);
  }
  return second.dims[0];
}

DType require_numbers(Types in) {
  DType dtype = in[2].dtype;
  bool fits = is_complex(dtype) || (is_float(dtype) && info(dtype).bits >= 16);
  for (const Type& t : in.subspan(2))
    if (t.dtype != dtype || !fits)
      fail(ErrorCode::shape_mismatch,
           "values and dense operands are of one dtype, floats of 16 bits or more or complex; got ", in[2],
           in.size() > 3 ? text_of(" and ", in[3]) : std::string());
  return dtype;
}

void require_values(const Type& values, const Dim& entries, const Type& dense, std::string_view dense_name) {
  Dims wanted = batch_dims(dense.dims);
  wanted.push_back(entries);
  if (values.dims != Dims{entries} && values.dims != wanted)
    fail(ErrorCode::shape_mismatch, "values must have one number for each of the ", entries,
         " entries, with the leading dims of ", dense_name, " (", dense, ") or without; got ", values);
}

void require_rows(const Type& dense, const Dim& rows, std::string_view name, std::string_view why) {
  if (dense.rank() < 2 || dense.dims[dense.rank() - 2] != rows)
    fail(ErrorCode::shape_mismatch, name, " must be [..., ", rows, ", n], ", why, "; got ", dense);
}

void require_square(const SparseAttrs& a) {
  if (a.rows != a.columns)
    fail(ErrorCode::shape_mismatch, "only a square matrix can be solved with; this one is ", a.rows, " by ", a.columns);
}

namespace {

/// The row of each entry of a csr: how many pointers stand at it or before it, less 1.
Value expanded(Value pointers, const Dim& entries) {
  Value from_zero = maximum(pointers, zeros_like(pointers));
  return cumsum(scatter_add_rows(full_like(pointers, 1), from_zero, entries)) - 1.0;
}
Value in_range(Value index, const Dim& size) {
  Value most = broadcast_to(extent(index.graph(), size, index.dtype()), index.dims());
  return logical_and(compare(index, zeros_like(index), Comparison::ge), compare(index, most, Comparison::lt));
}

}  // namespace

Places places_of(Value first, Value second, const SparseAttrs& a) {
  Value other = a.format == SparseFormat::coo ? first : expanded(first, second.dim(0));
  Value rows = a.format == SparseFormat::csc ? second : other, columns = a.format == SparseFormat::csc ? other : second;
  return {rows, columns, logical_and(in_range(rows, a.rows), in_range(columns, a.columns))};
}

Value masked(Value x, Value entries, int64_t behind) {
  return select(broadcast_in_dim(entries, x.dims(), {x.rank() - 1 - behind}), x, zeros_like(x));
}

Dims batch_dims(const Dims& dense) { return Dims(dense.begin(), dense.end() - 2); }
Axes batch_axes(Value dense) {
  Axes axes;
  for (int64_t d = 0; d + 2 < dense.rank(); ++d) axes.push_back(d);
  return axes;
}

Value of_values(Value ct, Value values) {
  Axes shared;
  for (int64_t d = 0; d < ct.rank() - values.rank(); ++d) shared.push_back(d);
  return shared.empty() ? ct : reduce_sum(ct, shared);
}

std::vector<Value> batched_operands(Values in, const Mask& batched) {
  if (batched[0] || batched[1]) return {};
  std::vector<Value> all(in.begin(), in.end());
  bool shared = in[2].rank() - batched[2] == 1;
  if (shared && !batched[2]) return all;
  Dim size = batched[2] ? in[2].dim(0) : in[3].dim(0);
  for (size_t i : {2, 3})
    if (!batched[i]) all[i] = repeat_front(all[i], size);
  if (shared && all[3].rank() > 3) {  // one set of values for each lane, and lanes of batches
    Dims wanted = batch_dims(all[3].dims());
    wanted.push_back(all[2].dim(-1));
    all[2] = broadcast_in_dim(all[2], wanted, {0, static_cast<int64_t>(wanted.size()) - 1});
  }
  return all;
}

}  // namespace sparse
}  // namespace rlx

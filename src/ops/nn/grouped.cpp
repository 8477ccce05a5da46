// Products of a mixture of experts: rows that choose a matrix each, and sums of outer products by segment, which are
// the gradient by those matrices. Each op's gradients are the other op, so no row meets a matrix that it did not
// choose.
#include <cmath>

#include "ops/core/composite_rules.h"
#include "rlx/ops/elementary.h"
#include "rlx/ops/linear.h"
#include "rlx/ops/reduction.h"

namespace rlx {

Value grouped_matmul(Value x, Value w, Value index) { return emit(op::grouped_matmul, {x, w, index}); }
Value segment_matmul(Value x, Value y, Value index, Dim segments) {
  return emit(op::segment_matmul, {x, y, index}, SegmentMatmulAttrs{std::move(segments)});
}

namespace {

/// [m, count]: whether the row's index is that of the column.
Value chosen_columns(Value index, const Dim& count) {
  Value column = iota(index.graph(), {i64, {index.dim(0), count}}, 1);
  return compare(expand_dims(convert(index, i64), 1), column, Comparison::eq);
}

/// [m]: whether the index, of i64, is one of `count`.
Value is_any_of(Value index, const Dim& count) {
  Value first = scalar(index.graph(), 0, i64), end = extent(index.graph(), count, i64);
  return logical_and(compare(index, first, Comparison::ge), compare(index, end, Comparison::lt));
}

/// grouped_matmul, but zeros where the index is that of no matrix.
Value grouped_or_zero(Value x, Value w, Value index) {
  Value y = grouped_matmul(x, w, index);
  return select(expand_dims(is_any_of(convert(index, i64), w.dim(0)), 1), y, zeros_like(y));
}

Value with_matrices_transposed(Value w) { return transpose(w, {0, 2, 1}); }

/// [batch, m, ...] as [batch m, ...].
Value lanes_as_rows(Value x) {
  Dims dims = x.dims();
  dims[1] = dims[0] * dims[1];
  dims.erase(dims.begin());
  return reshape(x, dims);
}
/// The inverse of lanes_as_rows(), for dim 0 of any meaning.
Value rows_as_lanes(Value x, const Dim& batch, const Dim& rows) {
  Dims dims = x.dims();
  dims[0] = rows;
  return reshape(x, prepend(batch, dims));
}
/// The index [batch, m] of lanes that have `count` matrices each: among those of all lanes, and -1 where it is none.
Value index_among_lanes(Value index, const Dim& count) {
  index = convert(index, i64);
  Value lane = iota(index.graph(), {i64, index.dims()}, 0);
  Value all = index + lane * extent(index.graph(), count, i64);
  return lanes_as_rows(select(is_any_of(index, count), all, full_like(index, -1)));
}

/// Checks x[m, k] and index[m].
void require_rows(const Type& x, const Type& index) {
  require_rank(x, 2, 2, "x");
  require_kind(index, kInteger, "index");
  require_dims(index, {x.dims[0]}, "index");
}

}  // namespace

OpDef define_grouped_matmul() {
  return define<>({
      .name = "grouped_matmul",
      .doc = "row i of x[m, k] times the matrix w[index[i]] of w[e, k, n] -> [m, n]; NaN where index[i] is "
             "not in [0, e)",
      .source = "Shazeer et al., ICLR 2017: the products of a mixture of experts",
      .operands = {"x", "w", "index"},
      .covers = {"GroupedMatMul"},
      .infer =
          [](Types in) {
            DType dtype = require_dtype(in.first(2), kReal);
            require_rows(in[0], in[2]);
            require_rank(in[1], 3, 3, "w");
            if (in[0].dims[1] != in[1].dims[1])
              fail(ErrorCode::shape_mismatch, "inner dimensions differ: lhs ", in[0], " has ", in[0].dims[1], ", rhs ",
                   in[1], " has ", in[1].dims[1], "; the weights are [e, k, n]");
            return Type{dtype, {in[0].dims[0], in[1].dims[2]}};
          },
      .reference =
          [](Tensors in) {
            Array<double> x(in[0]), w(in[1]);
            int64_t experts = w.shape[0], k = w.shape[1], n = w.shape[2];
            Array<double> y({x.shape[0], n});
            for (int64_t i = 0; i < x.shape[0]; ++i) {
              int64_t e = load_index(in[2], static_cast<size_t>(i));
              if (e < 0 || e >= experts) {
                std::fill_n(y.data.begin() + i * n, n, NAN);
                continue;
              }
              for (int64_t l = 0; l < k; ++l)
                for (int64_t j = 0; j < n; ++j)
                  y.data[size_t(i * n + j)] += x.data[size_t(i * k + l)] * w.data[size_t((e * k + l) * n + j)];
            }
            return y.rounded_to(in[0].dtype());
          },
      .decompose =
          [](Values in) {
            // Every row by every expert, then the chosen one: no weight is copied, and an expert that is not
            // chosen may hold infinities.
            Value all = dot_general(in[0], in[1], {{}, {}, {1}, {1}});  // [m, e, n]
            Value chosen = chosen_columns(in[2], in[1].dim(0));
            Value y = reduce_sum(select(broadcast_in_dim(chosen, all.dims(), {0, 1}), all, zeros_like(all)), {1});
            return select(broadcast_in_dim(reduce_any(chosen, {1}), y.dims(), {0}), y, full_like(y, NAN));
          },
      .vjp = [](Values in, Value, Value ct) -> Many<Value> {
        return {grouped_or_zero(ct, with_matrices_transposed(in[1]), in[2]),
                segment_matmul(in[0], ct, in[2], in[1].dim(0)), Value{}};
      },
      .batch = [](Values in, const Mask& batched, const NoAttrs&, const Transforms&) -> Many<Value> {
        const size_t lane = static_cast<size_t>(std::find(batched.begin(), batched.end(), true) - batched.begin());
        const Dim batch = in[lane].dim(0);
        Value x = batched[0] ? in[0] : repeat_front(in[0], batch);
        Value index = batched[2] ? in[2] : repeat_front(in[2], batch);
        Value w = batched[1] ? lanes_as_rows(in[1]) : in[1];  // one set of matrices serves all lanes
        index = batched[1] ? index_among_lanes(index, in[1].dim(1)) : lanes_as_rows(index);
        return rows_as_lanes(grouped_matmul(lanes_as_rows(x), w, index), batch, x.dim(1));
      },
      .samples = {{.dims = {{5, 4}, {3, 4, 2}, {5}}, .dtypes = {f64, f64, i32}, .lo = 0, .hi = 3},
                  {.dims = {{4, 3}, {2, 3, 3}, {4}}, .dtypes = {f64, f64, i64}, .lo = -2, .hi = 4},
                  {.dims = {{0, 3}, {2, 3, 3}, {0}}, .dtypes = {f64, f64, i32}},
                  {.dims = {{3, 5}, {1, 5, 1}, {3}}, .dtypes = {bf16, bf16, u8}, .lo = 0, .hi = 1}},
  });
}

OpDef define_segment_matmul() {
  return define<SegmentMatmulAttrs>({
      .name = "segment_matmul",
      .doc = "[segments, k, n]: for each segment j the sum of outer products xᵀ y of the rows i of x[m, k] and y[m, n] "
             "with index[i] = j; zeros where there are none. Rows whose index is not in [0, segments) are in no sum",
      .source = "JAX, ragged_dot_general with a ragged contracting dim; the gradient of grouped_matmul by its matrices",
      .operands = {"x", "y", "index"},
      .infer =
          [](Types in, const SegmentMatmulAttrs& a) {
            DType dtype = require_dtype(in.first(2), kReal);
            require_rows(in[0], in[2]);
            require_rank(in[1], 2, 2, "y");
            if (in[0].dims[0] != in[1].dims[0])
              fail(ErrorCode::shape_mismatch, "rows differ: x ", in[0], " has ", in[0].dims[0], ", y ", in[1], " has ",
                   in[1].dims[0], "; row i of x is multiplied with row i of y");
            if (a.segments.is_static() && a.segments.value() < 0)
              fail(ErrorCode::invalid_argument, "segments is ", a.segments, "; it counts sums and cannot be negative");
            return Type{dtype, {a.segments, in[0].dims[1], in[1].dims[1]}};
          },
      .reference =
          [](Tensors in, const SegmentMatmulAttrs& a) {
            Array<double> x(in[0]), y(in[1]);
            int64_t segments = a.segments.value(), k = x.shape[1], n = y.shape[1];
            Array<double> sums({segments, k, n});
            for (int64_t i = 0; i < x.shape[0]; ++i) {
              int64_t s = load_index(in[2], static_cast<size_t>(i));
              if (s < 0 || s >= segments) continue;
              for (int64_t l = 0; l < k; ++l)
                for (int64_t j = 0; j < n; ++j)
                  sums.data[size_t((s * k + l) * n + j)] += x.data[size_t(i * k + l)] * y.data[size_t(i * n + j)];
            }
            return sums.rounded_to(in[0].dtype());
          },
      .decompose =
          [](Values in, const SegmentMatmulAttrs& a) {
            // Both operands are zero outside of their segment: an infinity times zero would be NaN in every sum.
            Value chosen = chosen_columns(in[2], a.segments);
            auto within = [&](Value x) {  // [m, segments, ...]
              Dims dims{x.dim(0), a.segments, x.dim(1)};
              Value all = broadcast_in_dim(x, dims, {0, 2});
              return select(broadcast_in_dim(chosen, dims, {0, 1}), all, zeros_like(all));
            };
            return dot_general(within(in[0]), within(in[1]), {{1}, {1}, {0}, {0}});
          },
      .vjp = [](Values in, Value, Value ct, const SegmentMatmulAttrs&) -> Many<Value> {
        return {grouped_or_zero(in[1], with_matrices_transposed(ct), in[2]), grouped_or_zero(in[0], ct, in[2]),
                Value{}};
      },
      .batch = [](Values in, const SegmentMatmulAttrs& a) -> Many<Value> {
        const Dim batch = in[0].dim(0);
        Value sums = segment_matmul(lanes_as_rows(in[0]), lanes_as_rows(in[1]), index_among_lanes(in[2], a.segments),
                                    batch * a.segments);
        return rows_as_lanes(sums, batch, a.segments);
      },
      .samples =
          {{.dims = {{5, 4}, {5, 2}, {5}}, .dtypes = {f64, f64, i32}, .attrs = SegmentMatmulAttrs{3}, .lo = 0, .hi = 3},
           {.dims = {{7, 3}, {7, 3}, {7}},
            .dtypes = {f64, f64, i64},
            .attrs = SegmentMatmulAttrs{2},
            .lo = -2,
            .hi = 4},
           {.dims = {{0, 3}, {0, 2}, {0}}, .dtypes = {f64, f64, i32}, .attrs = SegmentMatmulAttrs{2}},
           {.dims = {{3, 5}, {3, 1}, {3}},
            .dtypes = {bf16, bf16, u8},
            .attrs = SegmentMatmulAttrs{1},
            .lo = 0,
            .hi = 1}},
  });
}

}  // namespace rlx

// Matrix products as composites of dot_general; see the header. The references are plain loops.
#include "rlx/ops/linear.h"

#include <algorithm>
#include <cmath>

#include "ops/nn/linear_rules.h"
#include "rlx/ops/elementary.h"
#include "rlx/ops/quantize.h"
#include "rlx/ops/reduction.h"

namespace rlx {

Value matmul(Value lhs, Value rhs) { return emit(op::matmul, {lhs, rhs}); }
Value linear(Value x, Value w, Value bias) { return bias ? emit(op::linear, {x, w, bias}) : emit(op::linear, {x, w}); }
Value outer(Value x, Value y) {
  if (x.rank() != 1 || y.rank() != 1)
    fail(ErrorCode::shape_mismatch, "outer takes two operands of rank 1, got ", x.type(), " and ", y.type());
  return expand_dims(x, 1) * y;
}
Value fused_matmul(Value x, Value w, Value bias, Value residual, Activation activation, bool transpose_rhs) {
  FusedMatmulAttrs attrs{transpose_rhs, bool(bias), bool(residual), activation};
  std::vector<Value> operands = {x, w};
  if (bias) operands.push_back(bias);
  if (residual) operands.push_back(residual);
  return emit(op::fused_matmul, std::move(operands), attrs);
}
Value lora_matmul(Value x, Value w, Value a, Value b, double scale) {
  return emit(op::lora_matmul, {x, w, a, b}, LoraMatmulAttrs{scale});
}
Value grouped_matmul(Value x, Value w, Value index) { return emit(op::grouped_matmul, {x, w, index}); }
Value segment_matmul(Value x, Value y, Value index, Dim segments) {
  return emit(op::segment_matmul, {x, y, index}, SegmentMatmulAttrs{std::move(segments)});
}

namespace {

[[noreturn]] void inner_differ(const Type& lhs, const Dim& k_lhs, const Type& rhs, const Dim& k_rhs,
                               std::string_view advice) {
  fail(ErrorCode::shape_mismatch, "inner dimensions differ: lhs ", lhs, " has ", k_lhs, ", rhs ", rhs, " has ", k_rhs,
       "; ", advice);
}

/// The operands of a matmul as stacks of matrices: their batch dims, and the dims of one matrix.
struct MatmulDims {
  Dims lhs_batch, rhs_batch, batch;
  Dim m = 1, k, n = 1;
  bool row, column;  // an operand of rank 1
  MatmulDims(const Type& lhs, const Type& rhs) : row(lhs.rank() == 1), column(rhs.rank() == 1) {
    require_rank(lhs, 1, SIZE_MAX, "lhs");
    require_rank(rhs, 1, SIZE_MAX, "rhs");
    k = lhs.dims.back();
    const Dim& other = column ? rhs.dims[0] : rhs.dims[rhs.rank() - 2];
    if (k != other)
      inner_differ(lhs, k, rhs, other, "transpose one operand, or use dot_general to name the contracted axes");
    if (!row) m = lhs.dims[lhs.rank() - 2], lhs_batch.assign(lhs.dims.begin(), lhs.dims.end() - 2);
    if (!column) n = rhs.dims.back(), rhs_batch.assign(rhs.dims.begin(), rhs.dims.end() - 2);
    batch = lhs_batch.size() >= rhs_batch.size() ? lhs_batch : rhs_batch;
    for (const Dims* dims : {&lhs_batch, &rhs_batch})
      for (size_t i = 0; i < dims->size(); ++i) {
        Dim& to = batch[batch.size() - dims->size() + i];
        if (to == Dim(1)) to = (*dims)[i];
        else if ((*dims)[i] != Dim(1) && (*dims)[i] != to)
          fail(ErrorCode::shape_mismatch, "batch dimensions of lhs ", lhs, " and rhs ", rhs, " do not broadcast: ", to,
               " meets ", (*dims)[i]);
      }
  }
  Dims result() const {
    Dims dims = batch;
    if (!row) dims.push_back(m);
    if (!column) dims.push_back(n);
    return dims;
  }
};

Value matmul_parts(Value lhs, Value rhs) {
  MatmulDims d(lhs.type(), rhs.type());
  auto rank = static_cast<int64_t>(d.batch.size());
  auto matrix = [&](Value x, const Dims& batch, const Dim& rows, const Dim& cols) {
    Dims dims = batch;
    dims.push_back(rows), dims.push_back(cols);
    return reshape(x, dims);
  };
  lhs = matrix(lhs, d.lhs_batch, d.m, d.k);
  Dims result = d.batch;
  result.push_back(d.m), result.push_back(d.n);
  Value y;
  if (element_count(d.rhs_batch) == Dim(1)) {  // one matrix for all: no copies of it, and one large product
    y = dot_general(lhs, matrix(rhs, {}, d.k, d.n), {{}, {}, {lhs.rank() - 1}, {0}});
  } else {
    auto stretched = [&](Value x, const Dims& batch, const Dim& rows, const Dim& cols) {
      if (batch == d.batch) return x;
      Dims dims = d.batch;
      dims.push_back(rows), dims.push_back(cols);
      return broadcast_to(x, dims);
    };
    rhs = matrix(rhs, d.rhs_batch, d.k, d.n);
    Axes batch = axes_from(0, d.batch.size());
    y = dot_general(stretched(lhs, d.lhs_batch, d.m, d.k), stretched(rhs, d.rhs_batch, d.k, d.n),
                    {batch, batch, {rank + 1}, {rank}});
  }
  return reshape(y, d.result());
}

/// Row-major matrices of f64, integers or complex numbers: y[i, j] = sum over k of x[i, k] w(k, j).
template <class T, class W>
void multiply(const T* x, int64_t m, int64_t k, int64_t n, T* y, W w) {
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j) {
      T sum{};
      for (int64_t l = 0; l < k; ++l) {
        if constexpr (std::is_same_v<T, int64_t>)
          sum = static_cast<T>(static_cast<uint64_t>(sum) +
                               static_cast<uint64_t>(x[i * k + l]) * static_cast<uint64_t>(w(l, j)));
        else sum += x[i * k + l] * w(l, j);
      }
      y[i * n + j] = sum;
    }
}

Type matmul_type(Types in) {
  DType dtype = require_dtype(in, kNumber);
  return {dtype, MatmulDims(in[0], in[1]).result()};
}

Tensor matmul_of(Tensors in) {
  Type type = matmul_type(std::array{in[0].type(), in[1].type()});
  return with_kinds<kNumber>(type.dtype, [&]<class T>() {
    MatmulDims d(in[0].type(), in[1].type());
    Array<T> x(in[0]), w(in[1]), y(shape_of(type.dims));
    int64_t m = d.m.value(), k = d.k.value(), n = d.n.value();
    auto matrix_at = [](const Dims& own,
                        const Axes& index) {  // which matrix of the stack, extents of 1 stretching
      Shape shape = shape_of(own);
      Axes at;
      for (size_t i = 0; i < shape.size(); ++i)
        at.push_back(shape[i] == 1 ? 0 : index[index.size() - shape.size() + i]);
      return static_cast<int64_t>(offset_of(shape, at));
    };
    int64_t matrix = 0;
    for_each_index(shape_of(d.batch), [&](const Axes& i) {
      const T* rhs = w.data.data() + matrix_at(d.rhs_batch, i) * k * n;
      multiply(x.data.data() + matrix_at(d.lhs_batch, i) * m * k, m, k, n, y.data.data() + matrix++ * m * n,
               [&](int64_t l, int64_t j) { return rhs[l * n + j]; });
    });
    return y.rounded_to(type.dtype);
  });
}

/// The dtype that all operands have; the weight, operand 1, may be of blocks along k instead, [n, k].
DType product_dtype(Types in, bool transposed) {
  if (!is_block(in[1].dtype)) return require_dtype(in, kNumber);
  if (!transposed)
    fail(ErrorCode::invalid_argument, "the weight ", in[1],
         " is packed in blocks along its last dim, so it is [n, k]: ", "use linear, or set transpose_rhs");
  require_kind(in[0], kReal, "x");
  for (const Type& t : in.subspan(2))
    if (t.dtype != in[0].dtype)
      fail(ErrorCode::shape_mismatch, "operands beside the blocks must have one dtype, got ", in[0], " and ", t);
  return in[0].dtype;
}
}  // namespace

Dims product_dims(const Type& x, const Type& w, bool transposed) {
  require_rank(x, 1, SIZE_MAX, "x");
  require_rank(w, 2, 2, "w");
  const Dim& k = w.dims[transposed ? 1 : 0];
  if (x.dims.back() != k)
    fail(ErrorCode::shape_mismatch, "inner dimensions differ: x ", x, " has ", x.dims.back(), ", w ", w, " has ", k,
         transposed ? "; the weight is [n, k]" : "; the weight is [k, n]");
  Dims dims = x.dims;
  dims.back() = w.dims[transposed ? 0 : 1];
  return dims;
}

namespace {

Value product(Value x, Value w, bool transposed) {
  if (is_block(w.dtype())) w = dequantize_blocks(w, x.dtype() == f64 ? f64 : f32);
  return dot_general(x, w, {{}, {}, {x.rank() - 1}, {transposed ? 1 : 0}});
}

}  // namespace

OpDef define_matmul() {
  return define<>({
      .name = "matmul",
      .doc = "[..., m, k] x [..., k, n] -> [..., m, n]; batch dims broadcast. lhs of rank 1 is a row and rhs "
             "of rank 1 a column, "
             "and the result lacks that dim",
      .source = "NumPy, matmul",
      .operands = {"lhs", "rhs"},
      .covers = {"MatMul"},
      .infer = [](Types in) { return matmul_type(in); },
      .reference = [](Tensors in) { return matmul_of(in); },
      .decompose = [](Values in) { return matmul_parts(in[0], in[1]); },
      .samples = {{.dims = {{3, 4}, {4, 2}}},
                  {.dims = {{2, 3, 4}, {2, 4, 5}}},
                  {.dims = {{2, 1, 3, 4}, {5, 4, 2}}},
                  {.dims = {{3, 4}, {2, 4, 2}}},
                  {.dims = {{2, 3, 4}, {1, 4, 2}}},
                  {.dims = {{4}, {4}}},
                  {.dims = {{4}, {2, 4, 3}}},
                  {.dims = {{2, 3, 4}, {4}}},
                  {.dims = {{3, 0}, {0, 2}}},
                  {.dims = {{2, 3}, {3, 2}}, .dtypes = {i32, i32}, .lo = -99, .hi = 99},
                  {.dims = {{2, 3}, {3, 2}}, .dtypes = {c64, c64}}},
  });
}

OpDef define_linear() {
  return define<>({
      .name = "linear",
      .doc =
          "x wᵀ + bias: x[..., k], w[n, k], bias[n]. w may be of a block format, such as q4_k: it is decoded exactly",
      .operands = {"x", "w", "bias?"},
      .infer =
          [](Types in) {
            Type t{product_dtype(in, true), product_dims(in[0], in[1], true)};
            if (in.size() > 2) require_dims(in[2], {t.dims.back()}, "bias");
            return t;
          },
      .decompose =
          [](Values in) {
            Value y = product(in[0], in[1], true);
            return in.size() > 2 ? y + in[2] : y;
          },
      .samples = {{.dims = {{3, 4}, {2, 4}, {2}}},
                  {.dims = {{2, 3, 4}, {5, 4}}},
                  {.dims = {{4}, {2, 4}, {2}}},
                  {.dims = {{0, 4}, {2, 4}, {2}}},
                  {.dims = {{3, 0}, {2, 0}, {2}}},
                  {.dims = {{2, 3}, {4, 3}, {4}}, .dtypes = {i32, i32, i32}, .lo = -9, .hi = 9},
                  {.dims = {{2, 3, 256}, {5, 256}, {5}}, .dtypes = {f64, q4_k, f64}, .lo = -0.25, .hi = 0.25},
                  {.dims = {{11, 64}, {3, 64}}, .dtypes = {f64, q8_0}, .lo = -0.5, .hi = 0.5}},
  });
}

OpDef define_fused_matmul() {
  return define<FusedMatmulAttrs>({
      .name = "fused_matmul",
      .doc = "activation(x w + bias) + residual: x[..., k], w[k, n] ([n, k] if transpose_rhs), bias[n] if "
             "has_bias, residual "
             "[..., n] if has_residual. f16 and bf16 round once, at the end",
      .operands = {"x", "w", "bias?", "residual?"},
      .covers = {"FusedMatMulBiasAct", "FusedMatMulResidual"},
      .infer =
          [](Types in, const FusedMatmulAttrs& a) {
            DType dtype = product_dtype(in, a.transpose_rhs);
            require_kind(in[0], kReal);
            size_t wanted = size_t{2} + a.has_bias + a.has_residual;
            require_operands(in.size(), wanted,
                             flag_text("has_bias", a.has_bias) + " and " + flag_text("has_residual", a.has_residual));
            Type t{dtype, product_dims(in[0], in[1], a.transpose_rhs)};
            if (a.has_bias) require_dims(in[2], {t.dims.back()}, "bias");
            if (a.has_residual) require_dims(in.back(), t.dims, "residual");
            return t;
          },
      .decompose =
          [](Values in, const FusedMatmulAttrs& a) {
            Value y = product(in[0], in[1], a.transpose_rhs);
            if (a.has_bias) y = y + in[2];
            y = activate(y, a.activation);
            return a.has_residual ? y + in.back() : y;
          },
      .samples = {{.dims = {{3, 4}, {4, 2}}},
                  {.dims = {{3, 4}, {4, 2}, {2}},
                   .attrs = FusedMatmulAttrs{.has_bias = true, .activation = Activation::relu}},
                  {.dims = {{2, 3, 4}, {5, 4}, {5}, {2, 3, 5}},
                   .attrs = FusedMatmulAttrs{true, true, true, Activation::gelu}},
                  {.dims = {{3, 4}, {4, 2}, {3, 2}},
                   .attrs = FusedMatmulAttrs{.has_residual = true, .activation = Activation::silu}},
                  {.dims = {{3, 4}, {4, 2}, {2}},
                   .attrs = FusedMatmulAttrs{.has_bias = true, .activation = Activation::gelu_tanh}},
                  {.dims = {{3, 4}, {2, 4}},
                   .attrs = FusedMatmulAttrs{.transpose_rhs = true, .activation = Activation::sigmoid}},
                  {.dims = {{3, 256}, {2, 256}, {2}, {3, 2}},
                   .dtypes = {f64, q6_k, f64, f64},
                   .attrs = FusedMatmulAttrs{true, true, true, Activation::silu},
                   .lo = -0.25,
                   .hi = 0.25},
                  {.dims = {{4}, {4, 2}, {2}},
                   .attrs = FusedMatmulAttrs{.has_residual = true, .activation = Activation::tanh}}},
  });
}

OpDef define_lora_matmul() {
  return define<LoraMatmulAttrs>({
      .name = "lora_matmul",
      .doc = "x w + scale (x a) b: x[..., k], w[k, n], a[k, r], b[r, n]",
      .source = "Hu et al., ICLR 2022",
      .operands = {"x", "w", "a", "b"},
      .covers = {"LoraMatMul"},
      .infer =
          [](Types in) {
            Type t{require_dtype(in, kReal), product_dims(in[0], in[1], false)};
            Type inner{t.dtype, product_dims(in[0], in[2], false)};
            require_dims({t.dtype, product_dims(inner, in[3], false)}, t.dims, "the low-rank product");
            return t;
          },
      .decompose =
          [](Values in, const LoraMatmulAttrs& a) {
            return product(in[0], in[1], false) + a.scale * product(product(in[0], in[2], false), in[3], false);
          },
      .samples = {{.dims = {{3, 4}, {4, 5}, {4, 2}, {2, 5}}, .attrs = LoraMatmulAttrs{0.5}},
                  {.dims = {{2, 3, 4}, {4, 2}, {4, 1}, {1, 2}}},
                  {.dims = {{0, 3}, {3, 2}, {3, 1}, {1, 2}}, .attrs = LoraMatmulAttrs{-3}},
                  {.dims = {{5, 1}, {1, 3}, {1, 2}, {2, 3}}, .dtypes = {f16, f16, f16, f16}}},
  });
}

// ---- products of a mixture of experts ----
// Each op's gradients are the other op, so that no row meets a matrix that it did not choose.

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
              inner_differ(in[0], in[0].dims[1], in[1], in[1].dims[1], "the weights are [e, k, n]");
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

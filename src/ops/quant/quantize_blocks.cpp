// Weights that are packed: in blocks that hold their scales, or as codes beside tensors of scales; and their products.
#include "rlx/ops/quantize_blocks.h"
#include "ops/nn/linear_rules.h"
#include "ops/quant/block_scales.h"
#include "rlx/ops/linear.h"
#include "rlx/ops/quantize.h"
#include "rlx/ops/take.h"
#include "tensor/blocks/encode.h"

namespace rlx {

// ---- builders ----
Value quantize_blocks(Value x, DType dtype) { return emit(op::quantize_blocks, {x}, QuantizeBlocksAttrs{dtype}); }
Value dequantize_blocks(Value x, DType dtype) { return emit(op::dequantize_blocks, {x}, DequantizeBlocksAttrs{dtype}); }
Value dequantize_blockwise(Value q, CodeScales s, int64_t axis, int64_t block_size, std::optional<DType> dtype) {
  std::vector<Value> in = {q, s.scale};
  for (const Value& v : {s.zero_point, s.bias, s.table, s.global})
    if (v) in.push_back(v);
  return emit(op::dequantize_blockwise, std::move(in),
              DequantizeBlockwiseAttrs{axis, block_size, dtype, bool(s.zero_point), bool(s.bias), bool(s.table),
                                       bool(s.global)});
}
Value dequant_matmul(Value x, Value w) { return emit(op::dequant_matmul, {x, w}, DequantMatmulAttrs{}); }
Value dequant_matmul(Value x, Value w, CodeScales s, int64_t block_size, bool transpose_rhs, int64_t planes) {
  std::vector<Value> in = {x, w};
  for (const Value& v : {s.scale, s.zero_point, s.bias, s.table, s.global})
    if (v) in.push_back(v);
  return emit(op::dequant_matmul, std::move(in),
              DequantMatmulAttrs{transpose_rhs, block_size, bool(s.scale), bool(s.zero_point), bool(s.bias),
                                 bool(s.table), bool(s.global), planes});
}
Value dequant_grouped_matmul(Value x, Value w, Value index) {
  return emit(op::dequant_grouped_matmul, {x, w, index}, DequantGroupedMatmulAttrs{});
}
Value dequant_grouped_matmul(Value x, Value w, Value index, CodeScales s, int64_t block_size, bool columns_last) {
  std::vector<Value> in = {x, w, index};
  for (const Value& v : {s.scale, s.zero_point, s.bias, s.table, s.global})
    if (v) in.push_back(v);
  return emit(op::dequant_grouped_matmul, std::move(in),
              DequantGroupedMatmulAttrs{block_size, columns_last, bool(s.scale), bool(s.zero_point), bool(s.bias),
                                        bool(s.table), bool(s.global)});
}
Value dequant_moe_weights(Value w, DType dtype) {
  return emit(op::dequant_moe_weights, {w}, DequantizeBlocksAttrs{dtype});
}

namespace {

void require_blocks(const Type& t, std::string_view what) {
  if (!is_block(t.dtype))
    fail(ErrorCode::invalid_argument, what, " must be of a block format such as q4_k, got ", t,
         "; codes with scales of their own go to dequantize_blockwise and dequant_matmul");
}
Type decoded_type(const Type& x, DType dtype) {
  require_blocks(x, "x");
  if (dtype != f32 && dtype != f64 && dtype != f16 && dtype != bf16)
    fail(ErrorCode::invalid_argument, "blocks are read as f32, f64, f16 or bf16, not as ", dtype);
  return {dtype, x.dims};
}

/// The operands behind the codes by name, as the attributes say which there are.
template <class T>
struct BlockOperands {
  const T* scale = nullptr;
  const T *zero_point = nullptr, *bias = nullptr, *table = nullptr, *global = nullptr;
  template <class Attrs>
  BlockOperands(std::span<const T> rest, const Attrs& a, bool has_scale = true) {
    size_t wanted = size_t{has_scale} + a.has_zero_point + a.has_bias + a.has_table + a.has_global, next = 0;
    if (rest.size() != wanted)
      fail(ErrorCode::invalid_argument, "the attributes call for ", wanted, " operands behind the codes (scale, zero ",
           "point, bias, table, global), got ", rest.size());
    for (auto [has, part] :
         {std::pair{has_scale, &scale}, std::pair{a.has_zero_point, &zero_point}, std::pair{a.has_bias, &bias},
          std::pair{a.has_table, &table}, std::pair{a.has_global, &global}})
      if (has) *part = &rest[next++];
  }
};

Type blockwise_type(Types in, const DequantizeBlockwiseAttrs& a) {
  const Type& q = in[0];
  BlockOperands<Type> parts(in.subspan(1), a);
  if (!is_integer(q.dtype) && !is_float(q.dtype))
    fail(ErrorCode::invalid_argument, "codes are integers or floats, got ", q,
         is_block(q.dtype) ? "; blocks hold their scales: dequantize_blocks reads them" : "");
  Dims wanted = scale_dims(q, a.axis, a.block_size);
  if (!is_float(parts.scale->dtype)) fail(ErrorCode::invalid_argument, "the scale must be a float, got ", *parts.scale);
  require_dims(*parts.scale, wanted, "scale");
  Type t{result_dtype(*parts.scale, a.dtype), q.dims};
  require_kind(t, kReal, "result");
  if (parts.zero_point) {
    require_dims(*parts.zero_point, wanted, "zero_point");
    if (!is_integer(parts.zero_point->dtype) && !is_float(parts.zero_point->dtype))
      fail(ErrorCode::invalid_argument, "the zero point must be a number, got ", *parts.zero_point);
  }
  if (parts.bias) {
    require_dims(*parts.bias, wanted, "bias");
    require_kind(*parts.bias, kReal, "bias");
  }
  if (parts.table) {
    if (kind_of(q.dtype) != Kind::unsigned_int || info(q.dtype).bits > 8 || a.has_zero_point)
      fail(ErrorCode::invalid_argument, "codes of a table are integers of at most 8 bits without a sign and without a ",
           "zero point, got ", q, a.has_zero_point ? " with one" : "");
    require_dims(*parts.table, {int64_t{1} << info(q.dtype).bits}, "table");
    require_kind(*parts.table, kReal, "table");
  }
  if (parts.global) {
    require_dims(*parts.global, {}, "global");
    require_kind(*parts.global, kReal, "global");
  }
  return t;
}
Value blockwise_parts(Values in, const DequantizeBlockwiseAttrs& a) {
  BlockOperands<Value> parts(in.subspan(1), a);
  DType dtype = result_dtype(parts.scale->type(), a.dtype), work = is_low_precision(dtype) ? f32 : dtype;
  Value y = parts.table ? take(convert(*parts.table, work), convert(in[0], i32)) : convert(in[0], work);
  auto stretched = [&](const Value& v) { return repeated(convert(v, work), y, a.axis, a.block_size); };
  if (parts.zero_point) y = y - stretched(*parts.zero_point);
  y = y * stretched(*parts.scale);
  if (parts.bias) y = y + stretched(*parts.bias);
  if (parts.global) y = y * convert(*parts.global, work);
  return convert(y, dtype);
}

/// The attributes of what makes the weights of a product.
DequantizeBlockwiseAttrs weights_attrs(const DequantMatmulAttrs& a, DType dtype) {
  return {a.transpose_rhs ? -1 : -2, a.block_size, dtype, a.has_zero_point, a.has_bias, a.has_table, a.has_global};
}
DequantizeBlockwiseAttrs weights_attrs(const DequantGroupedMatmulAttrs& a, DType dtype) {
  return {a.columns_last ? -2 : -1, a.block_size, dtype, a.has_zero_point, a.has_bias, a.has_table, a.has_global};
}
/// One plane of codes.
Type plane_type(const Type& w, int64_t planes) {
  if (planes < 1) fail(ErrorCode::invalid_argument, "planes is ", planes, "; there is at least one");
  if (planes == 1) return w;
  require_rank(w, 3, 3, "w");
  if (w.dims[0] != Dim(planes))
    fail(ErrorCode::shape_mismatch, "codes of ", planes, " planes have them as dim 0, got ", w);
  return {w.dtype, {w.dims.begin() + 1, w.dims.end()}};
}

/// A sample for each block format, of two rows.
std::vector<Sample> block_samples() {
  std::vector<Sample> all;
  for (size_t i = 0; i < kDTypeCount; ++i)
    if (auto t = static_cast<DType>(i); is_block(t)) {
      Dim length = info(t).block_elements;
      all.push_back({.dims = {{2, length * Dim(3)}}, .dtypes = {t}});
    }
  return all;
}

}  // namespace

OpDef define_quantize_blocks() {
  using A = QuantizeBlocksAttrs;
  return define<A>({
      .name = "quantize_blocks",
      .doc = "x as blocks of `dtype`, a format of GGUF's with an encoder, along its last dim",
      .source = "GGUF specification and ggml's quantizers",
      .operands = {"x"},
      .infer =
          [](Types in, const A& a) {
            if (const DType x = in[0].dtype; x != f32 && x != f64 && x != f16 && x != bf16)
              fail(ErrorCode::invalid_argument, "blocks are made of f32, f64, f16 or bf16, not of ", in[0]);
            if (!is_block(a.dtype))
              fail(ErrorCode::invalid_argument, in[0], " cannot become blocks of ", a.dtype,
                   ", which is no block format; take one such as q8_0");
            blocks::required_encoder(a.dtype);
            const int64_t length = info(a.dtype).block_elements;
            if (in[0].rank() == 0 || (in[0].dims.back().is_static() && in[0].dims.back().value() % length != 0))
              fail(ErrorCode::shape_mismatch, a.dtype, " holds blocks of ", length,
                   " elements along the last dim, of which ", in[0], " has no whole number");
            return Type{a.dtype, in[0].dims};
          },
      .reference = [](Tensors in, const A& a) { return quantized(in[0], a.dtype); },
      .batch = [](Values in, const A& a) { return quantize_blocks(in[0], a.dtype); },
      .samples = {{.dims = {{2, 64}}},
                  {.dims = {{3, 1, 32}}, .attrs = A{q4_0}, .lo = -3, .hi = 5},
                  {.dims = {{96}}, .attrs = A{q5_1}},
                  {.dims = {{0, 32}}},
                  {.dims = {{2, 256}}, .dtypes = {f16}, .attrs = A{q4_k}}},
  });
}

OpDef define_dequantize_blocks() {
  return define<DequantizeBlocksAttrs>({
      .name = "dequantize_blocks",
      .doc = "the elements of a tensor of blocks, as `dtype`: exact, then rounded once",
      .source = "GGUF specification and ggml's block types; OCP Microscaling 1.0",
      .operands = {"x"},
      .infer = [](Types in, const DequantizeBlocksAttrs& a) { return decoded_type(in[0], a.dtype); },
      .reference = [](Tensors in, const DequantizeBlocksAttrs& a) { return dequantized(in[0], a.dtype); },
      .batch = [](Values in, const DequantizeBlocksAttrs& a) { return dequantize_blocks(in[0], a.dtype); },
      .samples =
          [] {
            std::vector<Sample> all = block_samples();
            all.push_back({.dims = {{0, 32}}, .dtypes = {q8_0}});
            all.push_back({.dims = {{256}}, .dtypes = {q6_k}, .attrs = DequantizeBlocksAttrs{f64}});
            all.push_back({.dims = {{2, 1, 3, 512}}, .dtypes = {q4_k}, .attrs = DequantizeBlocksAttrs{f16}});
            all.push_back({.dims = {{1, 64}}, .dtypes = {q4_0}, .attrs = DequantizeBlocksAttrs{bf16}});
            return all;
          },
  });
}

OpDef define_dequantize_blockwise() {
  using A = DequantizeBlockwiseAttrs;
  return define<A>({
      .name = "dequantize_blockwise",
      .doc = "((q - zero_point) scale + bias) global, with a table of the codes' numbers (table[q] scale + bias) "
             "global; scale, zero_point and bias stand for `block_size` elements along "
             "`axis` each, the last of them perhaps for fewer, or for all if it is 0",
      .source = "ONNX, DequantizeLinear with block_size; OCP Microscaling 1.0; MLX, quantize",
      .operands = {"q", "scale", "zero_point?", "bias?", "table?", "global?"},
      .infer = [](Types in, const A& a) { return blockwise_type(in, a); },
      .decompose = [](Values in, const A& a) { return blockwise_parts(in, a); },
      .samples = {{.dims = {{8, 3}, {2, 3}}, .dtypes = {i8, f64}, .attrs = A{0, 4}, .lo = -9, .hi = 9},
                  {.dims = {{7, 3}, {2, 3}, {2, 3}},
                   .dtypes = {i8, f64, f64},
                   .attrs = A{.axis = 0, .block_size = 4, .has_zero_point = true},
                   .lo = -9,
                   .hi = 9},
                  {.dims = {{6, 4}, {2, 4}}, .dtypes = {u4, f64}, .attrs = A{0, 3}, .lo = 0, .hi = 15},
                  {.dims = {{6, 4}, {1, 4}}, .dtypes = {f8e4m3fn, f64}, .attrs = A{0, 0}},
                  {.dims = {{3, 5}, {1, 5}}, .dtypes = {f8e5m2, f64}, .attrs = A{0, 0}},
                  {.dims = {{32, 2}, {2, 2}, {}},
                   .dtypes = {f4e2m1fn, f8e4m3fn, f64},
                   .attrs = A{.axis = 0, .block_size = 16, .dtype = f64, .has_global = true},
                   .lo = -4,
                   .hi = 4},
                  {.dims = {{3, 8}, {3, 2}, {3, 2}},
                   .dtypes = {u2, f64, f64},
                   .attrs = A{.block_size = 4, .has_bias = true},
                   .lo = 0,
                   .hi = 3},
                  {.dims = {{2, 64}, {2, 2}},
                   .dtypes = {f4e2m1fn, f8e8m0fnu},
                   .attrs = A{.block_size = 32},
                   .lo = 0.5,
                   .hi = 4},
                  {.dims = {{2, 3, 5}, {2, 2, 5}, {2, 2, 5}},
                   .dtypes = {i8, f64, i8},
                   .attrs = A{.axis = -2, .block_size = 2, .has_zero_point = true},
                   .lo = -9,
                   .hi = 9},
                  {.dims = {{4, 6}, {2, 6}, {16}},
                   .dtypes = {u4, f64, f64},
                   .attrs = A{.axis = 0, .block_size = 2, .has_table = true},
                   .lo = 0,
                   .hi = 15},
                  {.dims = {{0, 4}, {0, 2}}, .dtypes = {i4, f64}, .attrs = A{.block_size = 2}, .lo = -8, .hi = 8}},
  });
}

namespace {

/// Whether the weights are the numbers themselves, without scales: halves, or wider where a pass widened them.
bool has_float_weights(DType w, const DequantMatmulAttrs& a) {
  return is_float(w) && info(w).bits >= 16 && a == DequantMatmulAttrs{};
}

}  // namespace

OpDef define_dequant_matmul() {
  using A = DequantMatmulAttrs;
  return define<A>({
      .name = "dequant_matmul",
      .doc = "x[..., k] times packed weights, of x's dtype: blocks or floats of 16 bits and more w[n, k], or codes "
             "w[k, n] ([n, k] if transpose_rhs) with scales for `block_size` elements along k each, as "
             "dequantize_blockwise has them; of several `planes`, which are dim 0, w is the sum",
      .source = "dequantize_blocks, dequantize_blockwise, dot_general",
      .operands = {"x", "w", "scale?", "zero_point?", "bias?", "table?", "global?"},
      .covers = {"DequantMatMul"},
      .infer =
          [](Types in, const A& a) {
            require_kind(in[0], kReal, "x");
            BlockOperands<Type> parts(in.subspan(2), a, a.has_scale);
            if (is_block(in[1].dtype)) {
              if (!(a == A{}))
                fail(ErrorCode::invalid_argument, in[1], " is packed in blocks, which hold their scales and lie along ",
                     "k, [n, k]: it takes no attributes and no other operands");
              return Type{in[0].dtype, product_dims(in[0], in[1], true)};
            }
            if (has_float_weights(in[1].dtype, a)) return Type{in[0].dtype, product_dims(in[0], in[1], true)};
            if (!a.has_scale) fail(ErrorCode::invalid_argument, "the codes ", in[1], " need a scale");
            Type t{in[0].dtype, product_dims(in[0], plane_type(in[1], a.planes), a.transpose_rhs)};
            blockwise_type(in.subspan(1), weights_attrs(a, in[0].dtype));
            return t;
          },
      .decompose =
          [](Values in, const A& a) {
            if (is_block(in[1].dtype())) return linear(in[0], in[1]);
            if (has_float_weights(in[1].dtype(), a)) {
              const DType work = in[0].dtype() == f64 || in[1].dtype() == f64 ? f64 : f32;
              return convert(linear(convert(in[0], work), convert(in[1], work)), in[0].dtype());
            }
            Value w = emit(op::dequantize_blockwise, {in.begin() + 1, in.end()}, weights_attrs(a, in[0].dtype()));
            if (a.planes > 1) w = reduce_sum(w, {0});
            return dot_general(in[0], w, {{}, {}, {in[0].rank() - 1}, {a.transpose_rhs ? 1 : 0}});
          },
      .samples = {{.dims = {{3, 256}, {5, 256}}, .dtypes = {f64, q4_k}, .lo = -0.25, .hi = 0.25},
                  {.dims = {{2, 2, 64}, {3, 64}}, .dtypes = {f64, q8_0}, .lo = -0.25, .hi = 0.25},
                  {.dims = {{512}, {4, 512}}, .dtypes = {f64, q6_k}, .lo = -0.25, .hi = 0.25},
                  {.dims = {{9, 64}, {7, 64}}, .dtypes = {f64, q4_0}, .lo = -0.25, .hi = 0.25},
                  {.dims = {{2, 256}, {3, 256}}, .dtypes = {f64, iq2_xs}, .lo = -0.25, .hi = 0.25},
                  {.dims = {{0, 32}, {3, 32}}, .dtypes = {f64, mxfp4}},
                  {.dims = {{3, 128}, {5, 128}}, .dtypes = {f64, bf16}},
                  {.dims = {{2, 9, 64}, {4, 64}}, .dtypes = {f64, f16}},
                  {.dims = {{2, 7}, {3, 7}}, .dtypes = {f64, bf16}},
                  {.dims = {{3, 8}, {8, 5}, {2, 5}},
                   .dtypes = {f64, i8, f64},
                   .attrs = A{.block_size = 4, .has_scale = true}},
                  {.dims = {{3, 7}, {7, 5}, {2, 5}, {2, 5}},
                   .dtypes = {f64, i8, f64, f64},
                   .attrs = A{.block_size = 4, .has_scale = true, .has_zero_point = true}},
                  {.dims = {{2, 6}, {6, 4}, {2, 4}},
                   .dtypes = {f64, u4, f64},
                   .attrs = A{.block_size = 3, .has_scale = true},
                   .lo = 0,
                   .hi = 7},
                  {.dims = {{2, 3}, {3, 4}, {1, 4}}, .dtypes = {f64, f8e4m3fn, f64}, .attrs = A{.has_scale = true}},
                  {.dims = {{2, 3}, {3, 4}, {1, 4}}, .dtypes = {f64, f8e5m2, f64}, .attrs = A{.has_scale = true}},
                  {.dims = {{2, 32}, {32, 4}, {2, 4}, {}},
                   .dtypes = {f64, f4e2m1fn, f8e4m3fn, f64},
                   .attrs = A{.block_size = 16, .has_scale = true, .has_global = true}},
                  {.dims = {{2, 8}, {3, 8}, {3, 2}, {3, 2}},
                   .dtypes = {f64, u4, f64, f64},
                   .attrs = A{.transpose_rhs = true, .block_size = 4, .has_scale = true, .has_bias = true},
                   .lo = 0,
                   .hi = 7},
                  {.dims = {{2, 8}, {8, 6}, {2, 6}, {16}},
                   .dtypes = {f64, u4, f64, f64},
                   .attrs = A{.block_size = 4, .has_scale = true, .has_table = true},
                   .lo = 0,
                   .hi = 7},
                  {.dims = {{2, 33}, {2, 3, 33}, {2, 3, 2}},
                   .dtypes = {f64, f4e2m1fn, f8e8m0fnu},
                   .attrs = A{.transpose_rhs = true, .block_size = 32, .has_scale = true, .planes = 2},
                   .lo = 0.25,
                   .hi = 4},
                  {.dims = {{3, 6}, {2, 6, 5}, {2, 2, 5}},
                   .dtypes = {f64, i8, f64},
                   .attrs = A{.block_size = 4, .has_scale = true, .planes = 2}}},
  });
}

OpDef define_dequant_grouped_matmul() {
  using A = DequantGroupedMatmulAttrs;
  return define<A>({
      .name = "dequant_grouped_matmul",
      .doc = "row i of x[m, k] times the transposed matrix w[index[i]] -> [m, n]: of blocks w[e, n, k], or of codes "
             "([e, k, n] "
             "if columns_last) with scales for `block_size` elements along k each, as dequantize_blockwise has them; "
             "NaN where index[i] is not "
             "in [0, e)",
      .source = "grouped_matmul, dequantize_blocks, dequantize_blockwise",
      .operands = {"x", "w", "index", "scale?", "zero_point?", "bias?", "table?", "global?"},
      .covers = {"DequantGroupedMatMul", "DequantGroupedMatMulMlx"},
      .infer =
          [](Types in, const A& a) {
            require_kind(in[0], kReal, "x");
            require_rank(in[0], 2, 2, "x");
            BlockOperands<Type> parts(in.subspan(3), a, a.has_scale);
            if (is_block(in[1].dtype)) {
              if (!(a == A{}))
                fail(ErrorCode::invalid_argument, in[1], " is packed in blocks, which hold their scales: it takes no ",
                     "attributes and no other operands");
            } else if (!a.has_scale) {
              fail(ErrorCode::invalid_argument, "w is of blocks, or of codes with a scale, got ", in[1]);
            }
            require_rank(in[1], 3, 3, "w");
            require_kind(in[2], kInteger, "index");
            require_dims(in[2], {in[0].dims[0]}, "index");
            const size_t k = a.columns_last ? 1 : 2;
            if (in[0].dims[1] != in[1].dims[k])
              fail(ErrorCode::shape_mismatch, "inner dimensions differ: x ", in[0], " has ", in[0].dims[1], ", w ",
                   in[1], " has ", in[1].dims[k], "; the weights are ", a.columns_last ? "[e, k, n]" : "[e, n, k]");
            if (a.has_scale) {
              std::vector<Type> codes = {in[1]};
              codes.insert(codes.end(), in.begin() + 3, in.end());
              blockwise_type(codes, weights_attrs(a, in[0].dtype));
            }
            return Type{in[0].dtype, {in[0].dims[0], in[1].dims[3 - k]}};
          },
      .decompose =
          [](Values in, const A& a) {
            DType dtype = in[0].dtype() == f64 ? f64 : f32;
            if (!a.has_scale) return grouped_matmul(in[0], dequant_moe_weights(in[1], dtype), in[2]);
            std::vector<Value> codes = {in[1]};
            codes.insert(codes.end(), in.begin() + 3, in.end());
            Value w = emit(op::dequantize_blockwise, codes, weights_attrs(a, dtype));
            return grouped_matmul(in[0], a.columns_last ? w : transpose(w, {0, 2, 1}), in[2]);
          },
      .samples = {{.dims = {{4, 256}, {3, 2, 256}, {4}}, .dtypes = {f64, q4_k, i32}, .lo = 0, .hi = 3},
                  {.dims = {{5, 64}, {2, 3, 64}, {5}}, .dtypes = {f64, q8_0, i64}, .lo = 0, .hi = 2},
                  {.dims = {{3, 32}, {4, 1, 32}, {3}}, .dtypes = {f64, iq4_nl, i32}, .lo = 0, .hi = 4},
                  {.dims = {{0, 256}, {2, 3, 256}, {0}}, .dtypes = {f64, q6_k, i32}},
                  {.dims = {{1, 64}, {1, 5, 64}, {1}}, .dtypes = {f64, q5_1, i32}, .lo = 0, .hi = 1},
                  {.dims = {{4, 8}, {3, 2, 8}, {4}, {3, 2, 2}, {3, 2, 2}},
                   .dtypes = {f64, u4, i32, f64, f64},
                   .attrs = A{.block_size = 4, .has_scale = true, .has_bias = true},
                   .lo = 0,
                   .hi = 3},
                  {.dims = {{4, 7}, {3, 7, 2}, {4}, {3, 2, 2}, {3, 2, 2}},
                   .dtypes = {f64, u4, i32, f64, u8},
                   .attrs = A{.block_size = 4, .columns_last = true, .has_scale = true, .has_zero_point = true},
                   .lo = 0,
                   .hi = 3},
                  {.dims = {{2, 4}, {2, 4, 6}, {2}, {2, 2, 6}, {16}},
                   .dtypes = {f64, u4, i32, f64, f64},
                   .attrs = A{.block_size = 2, .columns_last = true, .has_scale = true, .has_table = true},
                   .lo = 0,
                   .hi = 2},
                  {.dims = {{3, 37}, {2, 3, 37}, {3}, {2, 3, 2}},
                   .dtypes = {f64, f8e4m3fn, i32, f8e8m0fnu},
                   .attrs = A{.block_size = 32, .has_scale = true},
                   .lo = 0.5,
                   .hi = 2},
                  {.dims = {{2, 6}, {2, 3, 6}, {2}, {2, 3, 1}, {2, 3, 1}},
                   .dtypes = {bf16, i8, i64, f32, i8},
                   .attrs = A{.has_scale = true, .has_zero_point = true},
                   .lo = 0,
                   .hi = 3}},
  });
}

OpDef define_dequant_moe_weights() {
  return define<DequantizeBlocksAttrs>({
      .name = "dequant_moe_weights",
      .doc = "blocks w[e, n, k] as grouped_matmul takes its weights: [e, k, n] of `dtype`",
      .source = "dequantize_blocks, transpose",
      .operands = {"w"},
      .covers = {"DequantMoEWeights"},
      .infer =
          [](Types in, const DequantizeBlocksAttrs& a) {
            Type t = decoded_type(in[0], a.dtype);
            require_rank(t, 3, 3, "w");
            std::swap(t.dims[1], t.dims[2]);
            return t;
          },
      .decompose =
          [](Values in, const DequantizeBlocksAttrs& a) {
            return transpose(dequantize_blocks(in[0], a.dtype), {0, 2, 1});
          },
      .samples = {{.dims = {{2, 3, 64}}, .dtypes = {q8_0}},
                  {.dims = {{3, 1, 256}}, .dtypes = {q4_k}, .attrs = DequantizeBlocksAttrs{f64}},
                  {.dims = {{1, 2, 32}}, .dtypes = {q4_0}, .attrs = DequantizeBlocksAttrs{bf16}},
                  {.dims = {{2, 0, 256}}, .dtypes = {q6_k}}},
  });
}

}  // namespace rlx

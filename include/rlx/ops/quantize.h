// Quantized numbers: codes with scales and zero points, blocks that hold their own scales, and the products that read
// either. Neighbour: qat.h, training with numbers that are rounded as if they were quantized.
//
// Rounding is to nearest, ties to even, everywhere.
#pragma once

#include "rlx/blocks.h"
#include "rlx/ops/conv.h"

namespace rlx {

namespace op {
extern const OpDef quantize, dequantize, dequantize_blocks, dequantize_blockwise, dequant_matmul,
    dequant_grouped_matmul, dequant_moe_weights, qmatmul, qconv2d;
}  // namespace op

struct QuantizeAttrs {
  std::optional<int64_t> axis = {};  ///< scales and zero points run along it; left out: there is one of each
  DType dtype = DType::i8;           ///< of the codes: any integer of at most 16 bits
  RLX_FIELDS(QuantizeAttrs, field("axis", &QuantizeAttrs::axis), field("dtype", &QuantizeAttrs::dtype));
};
/// clamp(round(x / scale) + zero_point) to what `attrs.dtype` holds. A NaN becomes 0.
Value quantize(Value x, Value scale, Value zero_point = {}, QuantizeAttrs attrs = {});

struct DequantizeAttrs {
  std::optional<int64_t> axis = {};  ///< as quantize's
  RLX_FIELDS(DequantizeAttrs, field("axis", &DequantizeAttrs::axis));
};
/// (q - zero_point) scale, of the scale's dtype.
Value dequantize(Value q, Value scale, Value zero_point = {}, std::optional<int64_t> axis = {});

struct DequantizeBlocksAttrs {
  DType dtype = DType::f32;  ///< f32, f64, f16 or bf16
  RLX_FIELDS(DequantizeBlocksAttrs, field("dtype", &DequantizeBlocksAttrs::dtype));
};
/// The elements of a tensor of blocks (q4_k, iq2_xs, mxfp4 ...), under its dims.
Value dequantize_blocks(Value x, DType dtype = f32);

/// Codes whose scales are a tensor of their own. `scale`, `zero_point` and `bias` have q's dims but along `axis`, where
/// they have ceil(extent / block_size); `global` is a scalar. By what the codes and scales are, this is
///
///   int8 / int4 blockwise    i8 or i4 (u4: without a sign), f32 scales, zero points for the asymmetric variant
///   FP8 E4M3 / E5M2          f8e4m3fn or f8e5m2, f32 scales, one for each column: block_size 0
///   NVFP4                    f4e2m1fn, f8e4m3fn scales for 16 elements, a global f32
///   MLX affine               u2, u3, u4, u6 or u8 along the last dim, scales and biases
///   NF4, FP4 (bitsandbytes)  u4, a table of the numbers that the 16 codes stand for, f32 scales
///   MXFP4 / MXFP8            f4e2m1fn or f8e4m3fn, f8e8m0fnu scales for 32 elements
struct DequantizeBlockwiseAttrs {
  int64_t axis = -1;
  int64_t block_size = 0;           ///< elements along `axis` that share a scale; 0: all of them
  std::optional<DType> dtype = {};  ///< of the result; the scales' where left out, or f32 if theirs has no arithmetic
  bool has_zero_point = false, has_bias = false, has_table = false, has_global = false;
  RLX_FIELDS(DequantizeBlockwiseAttrs, field("axis", &DequantizeBlockwiseAttrs::axis),
             field("block_size", &DequantizeBlockwiseAttrs::block_size),
             field("dtype", &DequantizeBlockwiseAttrs::dtype),
             field("has_zero_point", &DequantizeBlockwiseAttrs::has_zero_point),
             field("has_bias", &DequantizeBlockwiseAttrs::has_bias),
             field("has_table", &DequantizeBlockwiseAttrs::has_table),
             field("has_global", &DequantizeBlockwiseAttrs::has_global));
};
/// What stands beside the codes of packed weights; only the scale is required. A table [2^bits] has the numbers that
/// codes without a sign stand for; there is no zero point beside it.
struct CodeScales {
  Value scale, zero_point = {}, bias = {}, global = {}, table = {};
};
/// ((q - zero_point) scale + bias) global; with a table, (table[q] scale + bias) global.
Value dequantize_blockwise(Value q, CodeScales scales, int64_t axis, int64_t block_size,
                           std::optional<DType> dtype = {});

struct DequantMatmulAttrs {
  bool transpose_rhs = false;  ///< w is [n, k] instead of [k, n]; blocks always are
  int64_t block_size = 0;      ///< elements along k that share a scale; 0: all of them
  bool has_scale = false, has_zero_point = false, has_bias = false, has_table = false, has_global = false;
  int64_t planes = 1;  ///< more than 1: codes, and what stands beside them, have them as dim 0, and w is their sum
  RLX_FIELDS(DequantMatmulAttrs, field("transpose_rhs", &DequantMatmulAttrs::transpose_rhs),
             field("block_size", &DequantMatmulAttrs::block_size), field("has_scale", &DequantMatmulAttrs::has_scale),
             field("has_zero_point", &DequantMatmulAttrs::has_zero_point),
             field("has_bias", &DequantMatmulAttrs::has_bias), field("has_table", &DequantMatmulAttrs::has_table),
             field("has_global", &DequantMatmulAttrs::has_global), field("planes", &DequantMatmulAttrs::planes));
};
/// x[..., k] times weights of blocks, w[n, k]: the same as linear. Weights of halves, f16 or bf16 beside any real x,
/// are read as they are, too: convert and linear, without their copy in f32.
Value dequant_matmul(Value x, Value w);
/// x[..., k] times weights of codes, w[k, n] or [n, k]: dequantize_blockwise along k, and the product. Of several
/// planes, [planes, ...], the later ones hold what the earlier ones left over, as residual MXFP4 has two.
Value dequant_matmul(Value x, Value w, CodeScales scales, int64_t block_size, bool transpose_rhs = false,
                     int64_t planes = 1);

struct DequantGroupedMatmulAttrs {
  int64_t block_size = 0;     ///< elements along k that share a scale; 0: all of them
  bool columns_last = false;  ///< codes are w[e, k, n] with scales [e, ceil(k / block_size), n]
  bool has_scale = false, has_zero_point = false, has_bias = false, has_table = false, has_global = false;
  RLX_FIELDS(DequantGroupedMatmulAttrs, field("block_size", &DequantGroupedMatmulAttrs::block_size),
             field("columns_last", &DequantGroupedMatmulAttrs::columns_last),
             field("has_scale", &DequantGroupedMatmulAttrs::has_scale),
             field("has_zero_point", &DequantGroupedMatmulAttrs::has_zero_point),
             field("has_bias", &DequantGroupedMatmulAttrs::has_bias),
             field("has_table", &DequantGroupedMatmulAttrs::has_table),
             field("has_global", &DequantGroupedMatmulAttrs::has_global));
};
/// Row i of x[m, k] times the transposed matrix w[index[i]] of blocks w[e, n, k] -> [m, n]; NaN where there is no such
/// expert, as in grouped_matmul.
Value dequant_grouped_matmul(Value x, Value w, Value index);
/// The same of codes w[e, n, k] with scales [e, n, ceil(k / block_size)], as MLX packs experts, or, with columns_last,
/// w[e, k, n] as the other products of codes have them.
Value dequant_grouped_matmul(Value x, Value w, Value index, CodeScales scales, int64_t block_size,
                             bool columns_last = false);
/// Blocks w[e, n, k] as grouped_matmul takes them: [e, k, n] of `dtype`.
Value dequant_moe_weights(Value w, DType dtype = f32);

struct QMatmulAttrs {
  int64_t x_zero_point = 0, w_zero_point = 0, out_zero_point = 0;
  double multiplier = 1;  ///< x's scale times w's over the result's, as f32
  RLX_FIELDS(QMatmulAttrs, field("x_zero_point", &QMatmulAttrs::x_zero_point),
             field("w_zero_point", &QMatmulAttrs::w_zero_point), field("out_zero_point", &QMatmulAttrs::out_zero_point),
             field("multiplier", &QMatmulAttrs::multiplier));
};
/// x[..., k] w[k, n] + bias[n] of codes, as codes: acc = bias + sum (x - x_zero_point)(w - w_zero_point) in i32, which
/// wraps; the result is clamp(round(f32(acc) multiplier) + out_zero_point) of x's dtype, i8 or u8. Weights with a scale
/// for each column have `multipliers` f32[n], and the attribute stays 1.
Value qmatmul(Value x, Value w, Value bias, QMatmulAttrs attrs = {}, Value multipliers = {});

struct QConv2dAttrs {
  Axes stride = {}, padding = {}, dilation = {};
  int64_t groups = 1;
  int64_t x_zero_point = 0, w_zero_point = 0, out_zero_point = 0;
  double multiplier = 1;
  RLX_FIELDS(QConv2dAttrs, field("stride", &QConv2dAttrs::stride), field("padding", &QConv2dAttrs::padding),
             field("dilation", &QConv2dAttrs::dilation), field("groups", &QConv2dAttrs::groups),
             field("x_zero_point", &QConv2dAttrs::x_zero_point), field("w_zero_point", &QConv2dAttrs::w_zero_point),
             field("out_zero_point", &QConv2dAttrs::out_zero_point), field("multiplier", &QConv2dAttrs::multiplier));
};
/// The same for a convolution of x[N, C, H, W] with w[O, C / groups, kH, kW], bias[O]; padding adds nothing to a sum.
Value qconv2d(Value x, Value w, Value bias, QConv2dAttrs attrs = {}, Value multipliers = {});

}  // namespace rlx

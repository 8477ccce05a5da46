// Products of codes of at most 8 bits beside their scales: FP8, FP6, FP4 and every other split of a byte into sign,
// exponent and mantissa, with one scale for a tensor, or one for each block along the last dim (OCP Microscaling,
// NVFP4). Neighbour: quantize.h, weights that are packed.
//
// Codes are u8, one a byte, under the dims of what they stand for; what lies above the bits of the format is not read.
// Where a format has a dtype of its own (f8e4m3fn, f4e2m1fn, ...), operands of codes may be of that dtype instead.
#pragma once

#include "rlx/ops/op.h"

namespace rlx {

namespace op {
extern const OpDef scaled_quant_scale, scaled_quantize, scaled_dequantize, scaled_matmul, scaled_grouped_matmul,
    scaled_round;
}  // namespace op

/// What a code of at most 8 bits means. Seven formats are those of the dtypes (OCP 8-bit floating point 1.0, OCP
/// Microscaling 1.0, Noune et al. 2022). The others have a sign, exponent bits and mantissa bits as one likes; all
/// their codes are finite, and there is gradual underflow.
///
/// By name: that of the dtype; `f8e4m3` and `f8e5m2` are the hardware's f8e4m3fn and f8e5m2. Else fNeXmY of N = 1 + X +
/// Y bits, whose bias is 2^(X - 1) - 1, or fNeXmY_biasB: `f8e4m3_bias7` has finite codes only, the largest of them 480.
class ScaledFormat {
 public:
  ScaledFormat(DType dtype = DType::f8e4m3fn);
  /// At least one exponent bit, at most 8 bits with the sign; every number of it is a normal one of f32.
  static ScaledFormat custom(int64_t exponent_bits, int64_t mantissa_bits, std::optional<int64_t> bias = {});
  /// The format of that name; an rlx::Error that says how they are named if there is none.
  static ScaledFormat named(std::string_view name);
  std::string name() const;

  const std::optional<DType>& dtype() const { return dtype_; }  ///< of the same numbers, if there is one
  int bits() const { return 1 + exponent_bits_ + mantissa_bits_; }
  int exponent_bits() const { return exponent_bits_; }
  int mantissa_bits() const { return mantissa_bits_; }
  int bias() const { return bias_; }
  double largest() const { return decode(largest_code()); }
  /// The largest finite code, without sign.
  uint8_t largest_code() const;
  bool has_minus_zero() const;
  double decode(uint8_t code) const;
  /// The code of the nearest number, ties to the even mantissa, or, where there is none, to the larger number (IEEE
  /// 754-2019, 4.3.1); what is too large becomes the largest, NaN 0.
  uint8_t encode(double) const;

  bool operator==(const ScaledFormat&) const = default;
  friend void print(std::ostream& out, const ScaledFormat& f) { out << f.name(); }
  friend void parse(Scanner& in, ScaledFormat& f);
  friend size_t hash_of(const ScaledFormat& f) { return std::hash<std::string>{}(f.name()); }
  template <class Mapper>
  friend void map(ScaledFormat&, const Mapper&) {}
  friend std::string kind_name(const ScaledFormat&) { return "format"; }
  friend std::ostream& operator<<(std::ostream& out, const ScaledFormat& f) { return out << f.name(); }

 private:
  std::optional<DType> dtype_;
  int exponent_bits_ = 0, mantissa_bits_ = 0, bias_ = 0;
};

/// per_tensor: a scalar of a float dtype. mx: a f8e8m0fnu for each 32 elements (OCP Microscaling 1.0). nv, in text
/// nvfp4: a f8e4m3fn for each 16. Blocks run along the last dim, and the last of them may stand for fewer.
enum class ScaleLayout { per_tensor, mx, nv };
constexpr std::array<std::string_view, 3> names_of(ScaleLayout) { return {"per_tensor", "mx", "nvfp4"}; }
/// Of the power of two that an mx scale is. floor: the largest one that is not above the largest number of the block
/// over the largest power of two in the format (OCP Microscaling 1.0, section 6.3); what is larger than the format
/// holds saturates. ceil: the least one with which nothing does.
enum class MxRounding { floor, ceil };
constexpr std::array<std::string_view, 2> names_of(MxRounding) { return {"floor", "ceil"}; }

struct ScaledQuantScaleAttrs {
  ScaledFormat format = {};
  ScaleLayout layout = ScaleLayout::per_tensor;
  int64_t block_size = 0;  ///< elements that share a scale; 0: 32 of mx, 16 of nvfp4
  MxRounding rounding = MxRounding::floor;
  RLX_FIELDS(ScaledQuantScaleAttrs, field("format", &ScaledQuantScaleAttrs::format),
             field("layout", &ScaledQuantScaleAttrs::layout), field("block_size", &ScaledQuantScaleAttrs::block_size),
             field("rounding", &ScaledQuantScaleAttrs::rounding));
};
/// With what x is divided so that it fits the format: the largest |x| of the tensor or block over the format's largest
/// number; of mx a power of two. 1 where all are 0; NaN where one is (of nvfp4 as well). The least nvfp4 scale is 2^-9.
/// Of f64 for x of f64, else of f32, where it is one scalar.
Value scaled_quant_scale(Value x, ScaledQuantScaleAttrs attrs = {});

struct ScaledQuantizeAttrs {
  ScaledFormat format = {};
  ScaleLayout layout = ScaleLayout::per_tensor;
  int64_t block_size = 0;
  RLX_FIELDS(ScaledQuantizeAttrs, field("format", &ScaledQuantizeAttrs::format),
             field("layout", &ScaledQuantizeAttrs::layout), field("block_size", &ScaledQuantizeAttrs::block_size));
};
/// The codes of x / scale: ScaledFormat::encode of each, u8 of x's dims.
Value scaled_quantize(Value x, Value scale, ScaledQuantizeAttrs attrs = {});

struct ScaledDequantizeAttrs {
  ScaledFormat format = {};
  ScaleLayout layout = ScaleLayout::per_tensor;
  int64_t block_size = 0;
  std::optional<DType> dtype = {};  ///< of the result; the scale's where left out, or f32 if that has no arithmetic
  RLX_FIELDS(ScaledDequantizeAttrs, field("format", &ScaledDequantizeAttrs::format),
             field("layout", &ScaledDequantizeAttrs::layout), field("block_size", &ScaledDequantizeAttrs::block_size),
             field("dtype", &ScaledDequantizeAttrs::dtype));
};
/// What the codes stand for, times their scale.
Value scaled_dequantize(Value codes, Value scale, ScaledDequantizeAttrs attrs = {});

struct ScaledMatmulAttrs {
  ScaledFormat lhs_format = {}, rhs_format = {};
  ScaleLayout layout = ScaleLayout::per_tensor;  ///< of both
  int64_t block_size = 0;
  bool has_bias = false;
  DType dtype = DType::f32;  ///< of the result
  RLX_FIELDS(ScaledMatmulAttrs, field("lhs_format", &ScaledMatmulAttrs::lhs_format),
             field("rhs_format", &ScaledMatmulAttrs::rhs_format), field("layout", &ScaledMatmulAttrs::layout),
             field("block_size", &ScaledMatmulAttrs::block_size), field("has_bias", &ScaledMatmulAttrs::has_bias),
             field("dtype", &ScaledMatmulAttrs::dtype));
};
/// lhs[..., k] times the transposed rhs[n, k], both of codes, plus bias[n]: sums in f32, or in f64 for that dtype.
/// The bias is of the result's dtype.
Value scaled_matmul(Value lhs, Value rhs, Value lhs_scale, Value rhs_scale, Value bias = {},
                    ScaledMatmulAttrs attrs = {});
/// Row i of lhs[m, k] times the transposed rhs[index[i]] of rhs[e, n, k], plus bias[index[i]] of bias[e, n]; NaN where
/// there is no such expert, as in grouped_matmul.
Value scaled_grouped_matmul(Value lhs, Value rhs, Value lhs_scale, Value rhs_scale, Value index, Value bias = {},
                            ScaledMatmulAttrs attrs = {});

/// x as its codes have it: quantized with the scale that fits, and read again. Differentiating looks through the
/// rounding (straight-through): so are the products above trained.
Value scaled_round(Value x, ScaledQuantScaleAttrs attrs = {});

}  // namespace rlx

// Products of matrices as models write them; dot_general (rlx/ops/contract.h) is what they are made of.
#pragma once

#include "rlx/ops/activation.h"
#include "rlx/ops/contract.h"

namespace rlx {

namespace op {
extern const OpDef matmul, linear, fused_matmul, lora_matmul, grouped_matmul, segment_matmul;
}  // namespace op

/// [..., m, k] x [..., k, n]: batch dims broadcast, an operand of rank 1 is a row on the left and a column on
/// the right, and that dim is gone from the result, as NumPy's matmul has it.
Value matmul(Value lhs, Value rhs);
/// x wᵀ + bias: x[..., k], w[n, k], bias[n] or absent.
Value linear(Value x, Value w, Value bias = {});
/// x[m] times y[n] -> [m, n].
Value outer(Value x, Value y);

struct FusedMatmulAttrs {
  bool transpose_rhs = false;  ///< w is [n, k] instead of [k, n]
  bool has_bias = false, has_residual = false;
  Activation activation = Activation::none;
  RLX_FIELDS(FusedMatmulAttrs, field("transpose_rhs", &FusedMatmulAttrs::transpose_rhs),
             field("has_bias", &FusedMatmulAttrs::has_bias), field("has_residual", &FusedMatmulAttrs::has_residual),
             field("activation", &FusedMatmulAttrs::activation));
};
/// activation(x w + bias) + residual: x[..., k], w[k, n] (or [n, k]), bias[n], residual[..., n]. The
/// attributes say which operands there are; the builder sets them from what is given.
Value fused_matmul(Value x, Value w, Value bias = {}, Value residual = {}, Activation activation = Activation::none,
                   bool transpose_rhs = false);

struct LoraMatmulAttrs {
  double scale = 1;
  RLX_FIELDS(LoraMatmulAttrs, field("scale", &LoraMatmulAttrs::scale));
};
/// x w + scale (x a) b: x[..., k], w[k, n], a[k, r], b[r, n].
Value lora_matmul(Value x, Value w, Value a, Value b, double scale = 1);
/// Row i of x[m, k] times w[e, k, n] at e = index[i]; index[m] of integers. NaN where there is no such matrix; its
/// gradient is zero there.
Value grouped_matmul(Value x, Value w, Value index);

struct SegmentMatmulAttrs {
  Dim segments = 0;
  RLX_FIELDS(SegmentMatmulAttrs, field("segments", &SegmentMatmulAttrs::segments));
};
/// For each segment j the sum of outer products xᵀ y of the rows i of x[m, k] and y[m, n] with index[i] = j ->
/// [segments, k, n]: the gradient of grouped_matmul by w. Rows whose index is no segment are in none of the sums.
Value segment_matmul(Value x, Value y, Value index, Dim segments);

}  // namespace rlx

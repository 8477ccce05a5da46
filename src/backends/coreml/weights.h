// Weights in fewer bits than they are computed with: the operations of ML Programs that write constants out when a
// program is loaded (constexpr_*), in the forms of iOS 16 (opset 6, parameters as attributes) and iOS 18 (opset 8).
#pragma once

#include "backends/coreml/emitter.h"

namespace rlx::coreml {

/// The least elements of a constant that is worth it.
constexpr size_t kManyWeights = 4096;

/// Blocks, and integers of at most 8 bits.
bool are_codes(DType dtype);

/// A tensor as places in a table of at most 256 of its elements, bit by bit the same.
struct Palette {
  Tensor indices;  ///< u1, u2, u3, u4, u6 or u8, of the tensor's shape
  Tensor entries;  ///< [2, 4, 8, 16, 64 or 256] of the tensor's dtype; the last ones repeated
};
/// Nothing for a tensor that has more different elements, is small, or is of one dim or none.
std::optional<Palette> palette_of(const Tensor& t);

/// constexpr_lut_to_dense. From opset 6 on; of eight entries, sixteen before opset 8.
Var looked_up(Emitter& e, const Palette& palette);

/// constexpr_affine_dequantize: (codes - zero_point) scale, of i8 or u8; both others have one element, or one for each
/// place along `axis`. From opset 6 on.
Var affine(Emitter& e, const Tensor& codes, const Tensor& scale, const std::optional<Tensor>& zero_point, int64_t axis);

/// Codes, and a scale for each run of them along the last dim: what comes nearest to x, which is of f32.
struct Nearest {
  Tensor codes;       ///< i8
  Tensor scales;      ///< f32
  double change = 0;  ///< the greatest difference
};
/// `run` divides x's last dim; 0 for one scale for each place along the first dim.
Nearest nearest_codes(const Tensor& x, int64_t run);

}  // namespace rlx::coreml

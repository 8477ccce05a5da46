// Weights that are stored in fewer bits than they are computed with. They become operations of ML Programs that write
// constants out when a program is loaded (constexpr_*), in the forms of iOS 16 (opset 6, parameters as attributes) and
// of iOS 18 (opset 8).
#pragma once

#include "backends/coreml/emitter.h"

namespace rlx::coreml {

/// Constants of fewer elements are stored as they are.
constexpr size_t kManyWeights = 4096;

/// Whether a dtype is that of quantized values: a block format, or integers of at most 8 bits.
bool are_codes(DType dtype);

/// A tensor as indices into a table of at most 256 different elements. It is exact, bit by bit.
struct Palette {
  Tensor indices;  ///< u1, u2, u3, u4, u6 or u8, of the tensor's shape
  Tensor entries;  ///< 2, 4, 8, 16, 64 or 256 of the tensor's dtype; the last one is repeated to fill the table
};
/// The palette of a tensor of f32 or f16. Nothing if it has more different elements, is small, or has fewer than two
/// dims.
std::optional<Palette> palette_of(const Tensor& t);

/// Emits constexpr_lut_to_dense, which needs opset 6. A table of eight entries is written as one of sixteen before
/// opset 8.
Var looked_up(Emitter& e, const Palette& palette);

/// Emits constexpr_affine_dequantize, (codes - zero_point) scale, which needs opset 6. `codes` are i8 or u8; scale and
/// zero point have one element, or one for each index along `axis`.
Var affine(Emitter& e, const Tensor& codes, const Tensor& scale, const std::optional<Tensor>& zero_point, int64_t axis);

/// The quantized values and scales that come nearest to a tensor of f32; a scale is shared by a run along the last dim.
struct Nearest {
  Tensor codes;       ///< i8
  Tensor scales;      ///< f32
  double change = 0;  ///< the largest difference from the tensor
};
/// `run` is the length of a run and divides x's last dim; 0 stands for one scale for each index along the first dim.
Nearest nearest_codes(const Tensor& x, int64_t run);

}  // namespace rlx::coreml

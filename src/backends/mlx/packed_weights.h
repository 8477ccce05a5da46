// Weights that stay packed: as MLX's quantized products read them. Ours lie in more ways (along either dim, with zero
// points, with a sign, in GGUF's blocks), so they are laid out anew, once, where they are params or constants.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backends/mlx/carry.h"
#include "passes/target.h"

namespace rlx::mlx_backend {

/// What MLX calls it: "affine" (scales and biases of f32), "mxfp4", "mxfp8", "nvfp4"; codes of `bits` bits, and `group`
/// of them along a row with a scale.
struct PackedForm {
  std::string mode;
  int bits = 0, group = 0;
};
/// The form in which MLX multiplies with the weights of a dequant_matmul or a dequant_grouped_matmul; nothing, and the
/// reason, if there is none.
std::optional<PackedForm> packed_form(const Question& q, std::string* why = nullptr);

/// Which operands of such a product are its weights: the codes, and what stands beside them.
std::vector<size_t> weight_operands(const Node& node);

/// The weights in that form: words of codes u32[n, k * bits / 32], scales [n, k / group], and biases of mode affine; of
/// a grouped product with the experts as a dim in front. `operands` are the types of all operands of the node, `values`
/// the weight operands, evaluated and dense.
std::vector<mx::array> packed_weights(const Node& node, const std::vector<Type>& operands,
                                      std::span<const mx::array> values);

}  // namespace rlx::mlx_backend

// Mixed precision: which ops of an f32 graph run in f16 or bf16, and the graph in which they do.
#pragma once

#include "rlx/op_def.h"

namespace rlx {

/// What mixed precision does with an op of an f32 graph.
enum class OpPrecision {
  low,   ///< its f32 operands become the low type
  rows,  ///< a softmax, a norm: sums in f32 inside. Runs in what arrives and gives the low type
  /// Runs in what arrives: in f32 if anything of f32 does but numbers written in the graph and, for inference, weights.
  /// Numbers and constants that the low type does not hold keep it in f32.
  follows,
  full,  ///< what arrives becomes f32 again
};
constexpr std::array<std::string_view, 4> names_of(OpPrecision) { return {"low", "rows", "follows", "full"}; }

/// What a graph is computed for.
enum class MixedFor {
  training,   ///< its gradients too: norms are in f32, as PyTorch's autocast has them
  inference,  ///< what one product leaves for the next is of the low type, norms between them included
  /// Its products with weights are in integers (quantize_products.h). Recurrent layers and what norms give are of the
  /// low type, and so is what follows them: those products, attention. Convolutions stay in f32, and so do ops that
  /// read an f32 input.
  beside_integers,
  /// As beside_integers, but images are of the low type, too: convolutions that are not in integers are, and those in
  /// integers follow what arrives.
  beside_integer_images,
};
OpPrecision precision_of(const OpDef& op, MixedFor purpose = MixedFor::inference);

/// The graph with the ops of class `low` in `low` (f16 or bf16). The table of classes, which depend on the purpose, is
/// in the .cpp; an op that it does not name follows if it is element-wise or only moves data, and else is `full`.
/// Inputs, params and outputs keep their types: params are converted where they are used, and their gradients come back
/// in f32. Control flow takes f32, and its bodies are treated alike, but for those of a custom_fn, which stay as they
/// are. A recurrent layer whose state an input gives stays in f32. Operands of a `low` op are rounded as `convert` does
/// it: beyond the range of the low type they become infinite.
/// A mask that is added to attention's scores is left as it arrives: f32 holds the lowest numbers that models write
/// there. So are scales and the bias beside codes.
///
///   before  %3 = matmul(%0, %1) : f32[8, 4]          after  %3 = convert(%0) {dtype = bf16}   %4 = convert(%1) ...
///           %4 = gelu(%3) : f32[8, 4]                       %5 = matmul(%3, %4) : bf16[8, 4]
///           %5 = exp(%4) : f32[8, 4]                        %6 = gelu(%5) : bf16[8, 4]
///                                                           %7 = convert(%6) {dtype = f32}    %8 = exp(%7) : f32[8, 4]
Graph in_mixed_precision(const Graph& g, DType low, MixedFor purpose);

}  // namespace rlx

// Mixed precision: which ops of an f32 graph run in f16 or bf16, and the graph in which they do.
#pragma once

#include "rlx/op_def.h"

namespace rlx {

/// What mixed precision does with an op of an f32 graph.
enum class OpPrecision {
  low,      ///< its f32 operands become the low type
  rows,     ///< a softmax, a norm: sums in f32 inside. Trained in f32; else runs in what arrives and gives the low type
  follows,  ///< runs in what arrives; in f32 if anything but numbers written in the graph does
  full,     ///< what arrives becomes f32 again
};
constexpr std::array<std::string_view, 4> names_of(OpPrecision) { return {"low", "rows", "follows", "full"}; }
OpPrecision precision_of(const OpDef& op);

/// What a graph is computed for.
enum class MixedFor {
  training,   ///< its gradients too: ops of class `rows` are in f32, as PyTorch's autocast has them
  inference,  ///< what one product leaves for the next is of the low type, norms between them included
};

/// The graph with the ops of class `low` in `low` (f16 or bf16). Inputs, params and outputs keep their types: params
/// are converted where they are used, and their gradients come back in f32. Bodies of control flow are treated alike.
/// A number is rounded to the low type as `convert` does it: beyond its range it becomes infinite. Masks that are added
/// to attention's scores stay in f32, which holds their lowest numbers.
///
///   before  %3 = matmul(%0, %1) : f32[8, 4]          after  %3 = convert(%0) {dtype = bf16}   %4 = convert(%1) ...
///           %4 = gelu(%3) : f32[8, 4]                       %5 = matmul(%3, %4) : bf16[8, 4]
///           %5 = exp(%4) : f32[8, 4]                        %6 = gelu(%5) : bf16[8, 4]
///                                                           %7 = convert(%6) {dtype = f32}    %8 = exp(%7) : f32[8, 4]
Graph in_mixed_precision(const Graph& g, DType low, MixedFor purpose);

}  // namespace rlx

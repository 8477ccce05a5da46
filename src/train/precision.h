// Mixed precision: which ops of a loss run in f16 or bf16, and the graph in which they do.
#pragma once

#include "rlx/op_def.h"

namespace rlx::train {

/// What automatic mixed precision does with an op of an f32 graph.
enum class OpPrecision {
  low,      ///< its f32 operands become the low type
  follows,  ///< runs in what arrives; in f32 if anything but numbers written in the graph does
  full,     ///< what arrives becomes f32 again
};
constexpr std::array<std::string_view, 3> names_of(OpPrecision) { return {"low", "follows", "full"}; }
OpPrecision precision_of(const OpDef& op);

/// The graph with the ops of class `low` in `low` (f16 or bf16). Inputs, params and outputs keep their types: params
/// are cast where they are used, and their gradients come back in f32. Bodies of control flow are treated alike.
Graph auto_mixed(const Graph& g, DType low);

}  // namespace rlx::train

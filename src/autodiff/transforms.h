// The transforms of closed graphs: graph in, graph out. They nest: the result is an ordinary graph.
//
//   reverse   `vjp` walks a graph backwards and asks each op's `vjp` what a cotangent of its results means for its
//             operands. An op without one is replaced by its decomposition.
//   forward   an op's `jvp`, else its `vjp` transposed: the rule is linear in the cotangent, so reverse mode over the
//             rule's own graph gives forward mode. No op has to write both.
//   batching  an op's `batch`, else element-wise as it is, else its decomposition, else a scan over lanes.
//
// Inputs and outputs of what they return are told apart by position; their names mean nothing. The public functions,
// which know of names and params, stand in rlx/autodiff.h; what inputs and outputs mean is said at `Transforms` in
// rlx/op_def.h. Derivatives of f16 and bf16 ops are computed in f32 and rounded once, as values are.
#pragma once

#include "rlx/op_def.h"

namespace rlx {

Graph vjp(const Graph& g, const Mask& wrt, const Mask& given);
/// The outputs of g come first: one graph that runs forward and back.
Graph value_and_vjp(const Graph& g, const Mask& wrt, const Mask& given);
Graph jvp(const Graph& g, const Mask& active);
Graph batch(const Graph& g, const Mask& batched, const Dim& size);
extern const Transforms kTransforms;

/// Floats and complex numbers have derivatives.
bool has_derivative(DType dtype);
/// Which inputs, or outputs, have derivatives.
Mask differentiable_inputs(const Graph&);
Mask differentiable_outputs(const Graph&);

}  // namespace rlx

// Derivatives and batches of graphs: graph in, graph out, so that they nest and run like any other graph.
//
//     rlx::Graph loss = ...;                        // inputs x, y; params w, b; one scalar output
//     rlx::Graph step = rlx::value_and_grad(loss);  // outputs: the loss, then grad_w, grad_b
//
// `wrt` names inputs and params; left out, it means every float param if there are any, else every float input. What
// depends on nothing in `wrt` gets zeros. An op without a derivative on the way is an error that names it
// (unsupported), never a silent zero. Complex derivatives follow JAX: docs/ir.md, "Derivatives of complex functions".
#pragma once

#include <map>

#include "rlx/graph.h"

namespace rlx {

using Names = std::vector<std::string>;

/// Reverse mode. Inputs: g's, then a cotangent "ct_<output>" for each float output. Outputs: g's (where
/// `with_outputs`), then "grad_<name>" for each of `wrt`, of its type.
Graph vjp(const Graph& g, const Names& wrt = {}, bool with_outputs = true);

/// The gradients of the first output, which must be a float scalar: "grad_<name>" for each of `wrt`.
Graph grad(const Graph& g, const Names& wrt = {});
/// The same behind all outputs of g; those after the first are passed through.
Graph value_and_grad(const Graph& g, const Names& wrt = {});

/// Forward mode. Inputs: g's, then a tangent "tangent_<name>" for each of `wrt`. Outputs: g's, then "tangent_<output>"
/// for each float output.
Graph jvp(const Graph& g, const Names& wrt = {});

/// Products of the first output's Hessian, forward over reverse. Inputs: g's, then "tangent_<name>" for each of `wrt`.
/// Outputs: "grad_<name>", then "hvp_<name>", for each of `wrt`. The first output must be a float scalar.
Graph hvp(const Graph& g, const Names& wrt = {});

/// The Jacobian of the first output with respect to one input or param, dims of the output then dims of the input, as
/// "jacobian": by forward mode (one pass for each element of the input) ...
Graph jacfwd(const Graph& g, const std::string& wrt);
/// ... or by reverse mode (one for each element of the output).
Graph jacrev(const Graph& g, const std::string& wrt);
/// The second derivatives of the first output: its dims, then the dims of the input twice, as "hessian". Forward over
/// reverse.
Graph hessian(const Graph& g, const std::string& wrt);

/// Where the batch stands, by name: absent means "not batched". Negative axes count from the end of the batched type.
struct BatchAxes {
  std::map<std::string, int64_t> inputs;   ///< of inputs and params
  std::map<std::string, int64_t> outputs;  ///< 0 for those left out
};
/// g for `size` examples at once: the named inputs get a new dim of that extent, which may be a symbol, and so do all
/// outputs. Fails if nothing is named, or an axis does not fit.
Graph vmap(const Graph& g, const BatchAxes& axes, Dim size);

}  // namespace rlx

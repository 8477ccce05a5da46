// The judge: runs a graph node by node, by each op's plain reference kernel or by its decomposition. Slow, exact,
// and independent of every pass and backend.
#pragma once

#include "ir/rewrite.h"

namespace rlx {

/// `inputs` in the order of g.inputs(); `params` by name, all of them. Symbols take their numbers from the inputs.
std::vector<Tensor> interpret(const Graph& g, Tensors inputs, const std::map<std::string, Tensor>& params = {});
/// One op on tensors.
std::vector<Tensor> run_op(const OpDef& op, const Attrs& attrs, Tensors inputs);
/// The same for a caller who has made room for results of these types, which shape inference gave. Fails where the
/// reference, which may be a user's, gives others.
std::vector<Tensor> run_op(const OpDef& op, const Attrs& attrs, Tensors inputs, std::span<const Type> results);

}  // namespace rlx

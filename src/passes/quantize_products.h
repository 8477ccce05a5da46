// Products with weights in 8-bit integers: `compute = int8`. Neighbour: mixed_precision, for floats narrower than f32,
// whose table says which ops are products.
#pragma once

#include "rlx/graph.h"

namespace rlx {

/// Products of f32 with weights, as dynamic_quantize_matmul: the weights' codes are made when params are bound, those
/// of the other operand in each run, by row. Everything else stays as it is, in f32.
///
///   before  %2 = linear(%0, %1)             after  %2, %3 = dynamic_quantize(%1) {axes = [1]}
///                                                  %4 = dynamic_quantize_matmul(%0, %2, %3) {transpose_rhs = true}
///
/// Takes matmul, linear and fused_matmul whose right operand is a matrix made of params and constants alone. Sub-graphs
/// are left as they are: what they compute with is given to them, and is no weight there. Small products stay in f32,
/// where int8 gains nothing; the bounds stand in the .cpp.
Graph quantize_products(const Graph& g);

}  // namespace rlx

// Products in the form for which weights are packed. Neighbour: fuse_matmul, for what follows a product.
#pragma once

#include "rlx/graph.h"

namespace rlx {

/// Says products as `matmul`, `linear` and `fused_matmul` where they are such, and reads transposed operands as they
/// stand.
///
///   before  %2 = transpose(%1) {permutation = [1, 0]}       after  %2 = linear(%0, %1)
///           %3 = matmul(%0, %2)
///
///   before  %2 = dot_general(%0, %1) {..., lhs_contract = [2], rhs_contract = [0]}
///   after   %2 = matmul(%0, %1)      of [B, S, k] and [k, n]: imported graphs write their layers so
///
///   before  %2 = dot_general(%0, %1) {lhs_batch = [0], rhs_batch = [0], lhs_contract = [2], rhs_contract = [1]}
///           %3 = transpose(%2) {permutation = [0, 2, 1]}
///   after   %3 = dot_general(%1, %0) {lhs_batch = [0], rhs_batch = [0], lhs_contract = [1], rhs_contract = [2]}
///
/// A transpose goes into any dot_general, as long as the free dims keep their order. The other forms are for floats and
/// a right operand of rank 2, weights most often; batched products of two activations stay.
Graph simplify_products(const Graph& g);

}  // namespace rlx

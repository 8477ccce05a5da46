// Sums of products that a loop adds up step by step, as one product of the stacked operands: sum_t x_tᵀ y_t is Xᵀ Y,
// where X and Y have the rows of all steps one below the other. User: the reverse rule of scan, for the cotangents of
// weights.
#pragma once

#include <functional>

#include "rlx/graph.h"

namespace rlx {

/// If `sum` consists of products that are only added, transposed and reshaped: the operands of these products, two for
/// each. Empty if it contains anything else.
std::vector<Ref> operands_of_products(const Graph& step, Ref sum);

/// The sum of `sum` over all steps. `stacked` gives the values of an operand in all steps, one behind the other along
/// dim 0.
Value sum_over_steps(const Graph& step, Ref sum, const std::function<Value(Ref)>& stacked);

}  // namespace rlx

// What the steps of a loop add up product by product, as one product of what they stack: sum_t x_tᵀ y_t is Xᵀ Y, with
// the rows of all steps one below the other. The reverse rule of scan asks this for the cotangents of weights.
#pragma once

#include <functional>

#include "rlx/graph.h"

namespace rlx {

/// The operands of the products whose sum `sum` is, reached through nothing but additions, transposes and reshapes;
/// empty if it is anything else. Two for each product.
std::vector<Ref> operands_of_products(const Graph& step, Ref sum);

/// The sum of `sum` over all steps; `stacked` has the values of an operand in all steps, one after the other along dim
/// 0.
Value sum_over_steps(const Graph& step, Ref sum, const std::function<Value(Ref)>& stacked);

}  // namespace rlx

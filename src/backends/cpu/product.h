// Products with weights that are known when the step is made: packed once, shared by every shape.
#pragma once

#include "backends/cpu/lowering.h"

namespace rlx::cpu {

/// y[m, n] = x[m, k] w[k, n], w at operand 1: extents, and strides in elements. x's inner elements are adjacent.
struct Product {
  int64_t m, n, k;
  int64_t x_stride;
  int64_t w_k_stride, w_n_stride;
};
/// Which operands follow x and w, and what is done with them; positions in the node, or -1.
struct ProductEpilogue {
  kernels::Activation activation = kernels::Activation::none;
  int bias = -1, residual = -1;
  int64_t residual_stride = 0;
  bool residual_first = false;  ///< before the activation
};

/// The step, if operand 1 is bound and its dtypes can be packed; else null.
std::unique_ptr<Step> packed_product(const LoweringContext& c, const Product& product, const ProductEpilogue& epilogue);

}  // namespace rlx::cpu

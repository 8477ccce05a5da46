// Products with weights that are known when the step is made. They are packed once, and all shapes share them.
#pragma once

#include "backends/cpu/lowering.h"

namespace rlx::cpu {

/// y[m, n] = x[m, k] w[k, n], where w is operand 1. Strides are in elements; x is contiguous along k.
struct Product {
  int64_t m, n, k;
  int64_t x_stride;
  int64_t w_k_stride, w_n_stride;
};
/// What is done to the sums, and the operands of the node that it reads: their positions, or -1 if there are none.
struct ProductEpilogue {
  kernels::Activation activation = kernels::Activation::none;
  int bias = -1, residual = -1;
  int64_t residual_stride = 0;
  bool residual_first = false;  ///< before the activation
};

/// The step, if operand 1 is bound and its dtypes can be packed; else null.
std::unique_ptr<Step> packed_product(const LoweringContext& c, const Product& product, const ProductEpilogue& epilogue);

}  // namespace rlx::cpu

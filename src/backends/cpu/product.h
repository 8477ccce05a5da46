// Products with weights that are known when the step is made. They are packed once, and the steps for all shapes share
// them.
#pragma once

#include "backends/cpu/lowering.h"

namespace rlx::cpu {

/// y[m, n] = x[m, k] w[k, n], where x and w are operands 0 and 1. Strides are in elements; x is contiguous along k.
struct Product {
  int64_t m, n, k;
  int64_t x_stride;
  int64_t w_k_stride, w_n_stride;
};
/// The epilogue of a product. Its operands are given as positions among the node's operands, -1 if absent.
struct ProductEpilogue {
  kernels::Activation activation = kernels::Activation::none;
  int bias = -1, residual = -1;
  int64_t residual_stride = 0;
  bool residual_first = false;  ///< the residual is added before the activation, not after it
};

/// A step that computes the product into a dense y. Null if w is not bound, or if some of x, w and y are f64, not all.
std::unique_ptr<Step> packed_product(const LoweringContext& c, const Product& product, const ProductEpilogue& epilogue);

}  // namespace rlx::cpu

// Special functions. They are composites that are accurate over the whole range of their dtype. Names and domains are
// SciPy's, except for lgamma (SciPy's gammaln), igamma and igammac (gammainc, gammaincc), which have JAX's names.
#pragma once

#include "rlx/ops/elementwise.h"

namespace rlx {

namespace op {
extern const OpDef polygamma;
}  // namespace op

// clang-format off
RLX_UNARY(erfinv)
RLX_UNARY(erfcx)
RLX_UNARY(ndtr)
RLX_UNARY(log_ndtr)
RLX_UNARY(ndtri)
RLX_UNARY(logit)
RLX_UNARY(entr)
RLX_UNARY(sinc)
RLX_UNARY(i0)
RLX_UNARY(i0e)
RLX_UNARY(i1)
RLX_UNARY(i1e)
RLX_UNARY(lgamma)
RLX_UNARY(digamma)
RLX_BINARY(xlogy)
RLX_BINARY(xlog1py)
RLX_BINARY(hypot)
RLX_BINARY(zeta)
RLX_BINARY(igamma)
RLX_BINARY(igammac)
// clang-format on

struct PolygammaAttrs {
  int64_t n = 1;
  RLX_FIELDS(PolygammaAttrs, field("n", &PolygammaAttrs::n));
};
/// The n-th derivative of digamma.
Value polygamma(Value x, int64_t n);
/// The logarithm of the multivariate gamma function in d dimensions.
Value multigammaln(Value a, int64_t d);

}  // namespace rlx

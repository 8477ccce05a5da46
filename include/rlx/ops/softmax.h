// Softmax and its logarithms, on any axis.
#pragma once

#include "rlx/ops/reduction.h"
#include "rlx/ops/shape.h"

namespace rlx {

namespace op {
extern const OpDef softmax, log_softmax, logsumexp;
}  // namespace op

Value softmax(Value x, int64_t axis = -1);
Value log_softmax(Value x, int64_t axis = -1);
/// ln of the sum of e^x over `axes`.
Value logsumexp(Value x, Axes axes, bool keep_dims = false);

}  // namespace rlx

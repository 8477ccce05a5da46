// Attention, as PyTorch defines it: a query that sees no key is NaN.
#include <cmath>

#include "frontends/mil/handlers.h"

namespace rlx::mlprogram {

MIL_OP(scaled_dot_product_attention) {
  Value q = op("query"), k = op("key"), v = op("value"), mask = op.maybe("attn_mask");
  if (q.rank() < 3 || k.rank() != q.rank() || v.rank() != q.rank())
    op.wrong("query ", q.type(), ", key ", k.type(), " and value ", v.type(), " must be of one rank, at least 3");
  Axes last = axes_from(0, k.dims().size());
  std::swap(last[last.size() - 1], last[last.size() - 2]);
  Value scores = rlx::matmul(q, rlx::transpose(k, last)) * (1 / std::sqrt(static_cast<double>(static_dim(op, q, -1))));
  if (mask && mask.dtype() == boolean)
    scores = rlx::select(mask, scores, scalar(op.graph(), -std::numeric_limits<double>::infinity(), scores.dtype()));
  else if (mask) scores = scores + (mask.dtype() == scores.dtype() ? mask : convert(mask, scores.dtype()));
  return one(rlx::matmul(rlx::softmax(scores, -1), v));
}

}  // namespace rlx::mlprogram

// Losses. Those of classes give one loss for each position; `mean` makes one number of them.
#pragma once

#include "rlx/ops/softmax.h"

namespace rlx {

namespace op {
extern const OpDef softmax_cross_entropy_with_logits, softmax_cross_entropy, nll, mse, binary_cross_entropy_with_logits;
}  // namespace op

/// logsumexp(logits) - logits[label] along `axis`: labels are integers and lack that dim. A label that is no
/// class gives NaN.
Value softmax_cross_entropy_with_logits(Value logits, Value labels, int64_t axis = -1);
/// -log_probs[label] along `axis`, likewise.
Value nll(Value log_probs, Value labels, int64_t axis = -1);
/// -sum of targets * log_softmax(logits) along `axis`; where a target is 0, nothing is added.
Value softmax_cross_entropy(Value logits, Value targets, int64_t axis = -1);

enum class LossReduction { none, mean, sum };
constexpr std::array<std::string_view, 3> names_of(LossReduction) { return {"none", "mean", "sum"}; }
struct LossAttrs {
  LossReduction reduction = LossReduction::mean;  ///< over all elements, to a scalar
  RLX_FIELDS(LossAttrs, field("reduction", &LossAttrs::reduction));
};
/// (prediction - target)^2
Value mse(Value prediction, Value target, LossReduction reduction = LossReduction::mean);
/// -(target ln s + (1 - target) ln (1 - s)), s = 1 / (1 + e^-logit)
Value binary_cross_entropy_with_logits(Value logits, Value target, LossReduction reduction = LossReduction::mean);

}  // namespace rlx

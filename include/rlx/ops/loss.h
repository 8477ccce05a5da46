// Losses. Those of classes give one loss for each position; `mean` averages them.
#pragma once

#include <limits>

#include "rlx/ops/softmax.h"

namespace rlx {

namespace op {
extern const OpDef softmax_cross_entropy_with_logits, softmax_cross_entropy, nll, cross_entropy, smooth_labels, mse,
    binary_cross_entropy_with_logits, huber, kl_divergence;
}  // namespace op

/// Labels as the losses below take them: floats become i32, integers stay as they are. A float that is no whole number
/// names no class, kNoClass, so that its loss is NaN.
Value class_labels(Value numbers);
inline constexpr int32_t kNoClass = std::numeric_limits<int32_t>::min();

/// logsumexp(logits) - logits[label] along `axis`: labels lack that dim, and are integers, or floats, of which
/// class_labels are taken. A label that is no class gives NaN.
Value softmax_cross_entropy_with_logits(Value logits, Value labels, int64_t axis = -1);
/// -log_probs[label] along `axis`, likewise.
Value nll(Value log_probs, Value labels, int64_t axis = -1);
/// -sum of targets * log_softmax(logits) along `axis`; where a target is 0, nothing is added.
Value softmax_cross_entropy(Value logits, Value targets, int64_t axis = -1);

/// What becomes of the losses of all elements, or positions: nothing; their mean; their sum; their sum over the extent
/// of the first dim, which counts examples.
enum class LossReduction { none, mean, sum, batch_mean };
constexpr std::array<std::string_view, 4> names_of(LossReduction) { return {"none", "mean", "sum", "batch_mean"}; }

struct CrossEntropyAttrs {
  int64_t axis = -1;            ///< of the classes
  int64_t ignore_index = -100;  ///< the label of positions that do not count
  double label_smoothing = 0;   ///< the share of a label's weight that is distributed evenly over all classes
  LossReduction reduction = LossReduction::mean;
  RLX_FIELDS(CrossEntropyAttrs, field("axis", &CrossEntropyAttrs::axis),
             field("ignore_index", &CrossEntropyAttrs::ignore_index),
             field("label_smoothing", &CrossEntropyAttrs::label_smoothing),
             field("reduction", &CrossEntropyAttrs::reduction));
};
/// softmax_cross_entropy_with_logits over the labels that count, each times the weight [classes] of its class if there
/// are weights; the mean is over the weights that count (NaN if none does). As PyTorch's cross_entropy, which takes
/// labels as integers only.
Value cross_entropy(Value logits, Value labels, CrossEntropyAttrs attrs = {});
Value cross_entropy(Value logits, Value labels, Value weight, CrossEntropyAttrs attrs = {});

struct SmoothLabelsAttrs {
  double smoothing = 0.1;
  int64_t axis = -1;  ///< of the classes
  RLX_FIELDS(SmoothLabelsAttrs, field("smoothing", &SmoothLabelsAttrs::smoothing),
             field("axis", &SmoothLabelsAttrs::axis));
};
/// (1 - smoothing) targets + smoothing / classes: for softmax_cross_entropy.
Value smooth_labels(Value targets, double smoothing, int64_t axis = -1);

struct LossAttrs {
  LossReduction reduction = LossReduction::mean;  ///< over all elements
  RLX_FIELDS(LossAttrs, field("reduction", &LossAttrs::reduction));
};
/// (prediction - target)^2
Value mse(Value prediction, Value target, LossReduction reduction = LossReduction::mean);
/// -(target ln s + (1 - target) ln (1 - s)), s = 1 / (1 + e^-logit)
Value binary_cross_entropy_with_logits(Value logits, Value target, LossReduction reduction = LossReduction::mean);

struct HuberAttrs {
  double delta = 1;
  LossReduction reduction = LossReduction::mean;
  RLX_FIELDS(HuberAttrs, field("delta", &HuberAttrs::delta), field("reduction", &HuberAttrs::reduction));
};
/// d^2 / 2 where d = |prediction - target| is at most delta, beyond it delta (d - delta / 2).
Value huber(Value prediction, Value target, double delta = 1, LossReduction reduction = LossReduction::mean);

struct KlDivergenceAttrs {
  bool log_target = false;                        ///< the target has logarithms too
  LossReduction reduction = LossReduction::mean;  ///< batch_mean is the divergence of a batch of distributions
  RLX_FIELDS(KlDivergenceAttrs, field("log_target", &KlDivergenceAttrs::log_target),
             field("reduction", &KlDivergenceAttrs::reduction));
};
/// target (ln target - log_prediction), 0 where the target is 0; with `log_target` a logarithm of -inf gives NaN, as
/// PyTorch's does.
Value kl_divergence(Value log_prediction, Value target, KlDivergenceAttrs attrs = {});

}  // namespace rlx

// The graphs of a training session: the gradients of a loss, and what they do to the params.
#pragma once

#include "rlx/train.h"

namespace rlx::train {

/// A param that is trained, and what it is trained with.
struct Trained {
  std::string name;
  Type type;
  OptimizerRule rule;
  double lr_scale = 1;
  std::vector<OptimizerState> states;
};

/// The params of `loss` that its config trains, in the graph's order.
std::vector<Trained> trained_params(const Graph& loss, const TrainConfig& config);

// Inputs and outputs of the graphs below are told apart by position. Params that are not trained stay params.

/// Inputs: those of `loss`, the trained params. Outputs: those of `loss`.
Graph forward_graph(const Graph& loss, const std::vector<Trained>& trained);
/// Inputs: those of `loss`, the trained params, a sum of gradients for each. Outputs: those of `loss`, the gradients'
/// norm, the sums with the gradients added.
Graph gradient_graph(const Graph& loss, const std::vector<Trained>& trained);
/// Inputs: a divisor of the gradients, lr (both f32 scalars), step (an i32 scalar), the gradients, the values that are
/// kept. Outputs: the gradients' norm, the values that are kept. Kept are the trained params, the states of each, and,
/// if the config has a moving mean, that of each.
Graph update_graph(const std::vector<Trained>& trained, const TrainConfig& config);
/// Inputs: those of `loss`, the trained params, lr, step, the other values that are kept. Outputs: those of `loss`, the
/// norm, the values that are kept.
Graph fused_graph(const Graph& loss, const std::vector<Trained>& trained, const TrainConfig& config);

/// The values that are kept, named as in a checkpoint: a param by its name, "state/<state>/<param>", "mean/<param>".
std::vector<Signature::Entry> kept_values(const std::vector<Trained>& trained, const TrainConfig& config);

}  // namespace rlx::train

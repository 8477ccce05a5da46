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
/// A param that becomes an output of the loss graph.
struct Written {
  std::string name;
  Type type;
  std::string output;
};

/// What a session keeps from step to step: the trained params, the states of each, their moving means if the config has
/// any, and what is written; in this order, as inputs and outputs of graphs under the same names.
struct Layout {
  std::vector<Trained> trained;
  std::vector<Written> written;
  std::vector<Signature::Entry> kept;  ///< named as in a checkpoint: "w", "state/<state>/w", "mean/w"
  size_t first_mean = 0, first_written = 0;
  bool has_means = false;

  bool keeps(const std::string& param) const;
};
/// Which params of `loss` its config trains and writes, in the graph's order. Fails on what does not fit.
Layout layout_of(const Graph& loss, const TrainConfig& config);

/// The name that a value that is kept has as an input, and as the output that it becomes: a run can then update it
/// where it is.
std::string kept_name(const Signature::Entry& entry);
std::string sum_name(const Trained& trained);

// Inputs and outputs of the graphs below are told apart by position. Params that are not kept stay params. `ok` is
// bool[]: where it is false, what is kept comes out as it went in.

/// Inputs: those of `loss`, the trained params, those that are written. Outputs: those of `loss`.
Graph forward_graph(const Graph& loss, const Layout& layout);
/// Inputs: those of `loss`, [the scale], the trained params, those that are written, a sum of gradients for each
/// trained one. Outputs: those of `loss`, the gradients' norm, ok, what is written, the sums with the gradients added.
Graph gradient_graph(const Graph& loss, const Layout& layout, const TrainConfig& config);
/// Inputs: a divisor of the gradients, lr (both f32 scalars), step (an i32 scalar), the gradients, what is kept but not
/// written. Outputs: the gradients' norm, ok, what is kept but not written.
Graph update_graph(const Layout& layout, const TrainConfig& config);
/// Inputs: those of `loss`, [the scale], lr, step, what is kept. Outputs: those of `loss`, the norm, ok, what is kept.
Graph fused_graph(const Graph& loss, const Layout& layout, const TrainConfig& config);

/// Whether the gradients are computed with a scale, which the graphs then have as an input (an f32 scalar).
inline bool is_scaled(const TrainConfig& config) { return config.precision.compute == f16; }

}  // namespace rlx::train

// Training: a graph with a scalar loss, the params it learns, an optimizer, a device.
//
//     rlx::TrainConfig config;
//     config.optimizer = rlx::Optimizer::adamw({.weight_decay = 0.01});
//     config.learning_rate = rlx::LearningRate::cosine(1e-3, 1000, {.warmup = 100});
//     rlx::TrainingSession session(loss, initial, config);
//     for (...) session.step({{"x", x}, {"target", t}}).loss;
//     session.save("model.safetensors");
//
// docs/training.md tells what a step computes, and in which order.
#pragma once

#include <optional>

#include "rlx/io.h"
#include "rlx/ops/optimizer.h"
#include "rlx/session.h"

namespace rlx {

/// How params step. A rule that takes matrices only (Muon) has a second one for all other params.
struct Optimizer {
  OptimizerRule rule;
  std::optional<OptimizerRule> for_vectors = {};

  static Optimizer sgd(SgdAttrs a = {}) { return {a}; }
  static Optimizer adam(AdamAttrs a = {}) { return {a}; }
  static Optimizer adamw(AdamAttrs a = {.weight_decay = 0.01}) { return a.decoupled = true, Optimizer{a}; }
  static Optimizer adagrad(AdagradAttrs a = {}) { return {a}; }
  static Optimizer rmsprop(RmspropAttrs a = {}) { return {a}; }
  static Optimizer adafactor(AdafactorAttrs a = {}) { return {a}; }
  static Optimizer lamb(LambAttrs a = {}) { return {a}; }
  static Optimizer lion(LionAttrs a = {}) { return {a}; }
  static Optimizer muon(MuonAttrs a = {}, AdamAttrs others = {.decoupled = true}) { return {a, others}; }

  const OptimizerRule& rule_for(const Type& param) const;
};

/// The learning rate of each step, the first being step 1.
struct LearningRate {
  enum class Shape { constant, linear, cosine, one_cycle };
  struct Options {
    int64_t warmup = 0;  ///< steps that rise from 0; one_cycle rises in a way of its own
    double last = 0;     ///< what it falls to, as a fraction of the peak
  };
  double peak = 1e-3;
  Shape shape = Shape::constant;
  int64_t steps = 0;  ///< after which it stays at the last value
  Options options = {};

  LearningRate(double constant = 1e-3) : peak(constant) {}
  /// From the peak down a line, or down half a cosine, to the last value at `steps`.
  static LearningRate linear(double peak, int64_t steps, Options options);
  static LearningRate linear(double peak, int64_t steps) { return linear(peak, steps, Options{}); }
  static LearningRate cosine(double peak, int64_t steps, Options options);
  static LearningRate cosine(double peak, int64_t steps) { return cosine(peak, steps, Options{}); }
  /// Up half a cosine from peak / 25 during the first 0.3 of the steps, then down to peak / 250,000 (Smith, Topin
  /// 2018).
  static LearningRate one_cycle(double peak, int64_t steps);

  /// `step` counts from 1; before it, the value of the first.
  double at(int64_t step) const;
};

/// Params that step in a way of their own.
struct ParamGroup {
  std::vector<std::string> params;  ///< names, or beginnings of names with a '*' behind them
  double lr_scale = 1;
  std::optional<double> weight_decay = {};  ///< instead of the optimizer's
  bool frozen = false;                      ///< does not step, and no gradient of it is computed
};

struct TrainConfig {
  Optimizer optimizer = Optimizer::adam();
  LearningRate learning_rate = 1e-3;
  double clip_value = 0;  ///< gradients are clamped to +-this; 0: not
  double clip_norm = 0;   ///< all gradients are scaled so that their norm together is at most this; 0: not
  double ema = 0;         ///< a moving mean of the params is kept, of which this fraction stays at each step; 0: none
  bool fused = true;      ///< forward, backward and update are one graph; else gradients come out and go in again
  bool allow_unused = false;  ///< a trained param that the loss does not depend on is no error
  /// The first group that names a param counts.
  std::vector<ParamGroup> groups = {};
  CompileOptions compile = CompileOptions::from_environment();
};

/// How params were updated: by an update graph behind the gradients, or in the same graph.
enum class UpdatePath { gradient, fused };
constexpr std::array<std::string_view, 2> names_of(UpdatePath) { return {"gradient", "fused"}; }

struct StepResult {
  double loss = 0;
  double grad_norm = 0;  ///< of all gradients together, before clipping
  double learning_rate = 0;
  int64_t step = 0;  ///< how many were made, this one included
  UpdatePath path = UpdatePath::fused;
  std::vector<Tensor> outputs;  ///< of the loss graph, after the loss
};

/// A graph that learns. The first output of the graph is the loss, a float scalar; the params of the graph that are
/// floats are trained unless a group freezes them. Not for several threads at once.
class TrainingSession {
 public:
  /// Fails if a param has no initial value or one of another type, if a group names none, if the loss does not depend
  /// on a trained param (see `allow_unused`), or if an op on the way has no derivative.
  TrainingSession(const Graph& loss, NamedTensors initial, TrainConfig config = {}, const Session& device = Session());
  ~TrainingSession();
  TrainingSession(TrainingSession&&) noexcept;
  TrainingSession& operator=(TrainingSession&&) noexcept;

  /// One step on a batch. A loss that is no finite number is an error (invalid_argument) that names the first node that
  /// gave one; nothing has changed then. Fails while gradients wait.
  StepResult step(const std::vector<NamedTensor>& batch);
  /// Adds the gradients of a batch to those that wait. Nothing steps.
  StepResult accumulate(const std::vector<NamedTensor>& batch);
  int64_t pending_accumulation() const;
  /// One step by the mean of the gradients that wait; returns of how many. Fails if none does.
  int64_t step_accumulated();
  /// The outputs for a batch, by the params as they are, or by their moving mean.
  std::vector<Tensor> evaluate(const std::vector<NamedTensor>& batch, bool averaged = false);

  Tensor param(const std::string& name) const;
  NamedTensors params() const;
  /// The moving mean of the trained params; fails if the config keeps none.
  NamedTensors averaged_params() const;
  int64_t steps() const;
  bool fused_active() const;
  UpdatePath update_path() const { return fused_active() ? UpdatePath::fused : UpdatePath::gradient; }
  const TrainConfig& config() const;
  /// What a step runs, for reports: the fused graph, or the gradient graph.
  const DispatchReport& report() const;

  /// What a caller wants kept beside a checkpoint: where in the data it was, a key, an epoch.
  using Notes = std::map<std::string, std::string, std::less<>>;
  /// All params by their names, states as "state/<state>/<param>", moving means as "mean/<param>", in a safetensors
  /// file that appears complete or not at all. An equal session that loads it goes on bit by bit as this one would.
  /// Fails while gradients wait: they are not kept.
  void save(const std::string& path, const Notes& notes = {}) const;
  /// Gives the notes back. Fails, changing nothing, if the file is of another model or was trained by other rules,
  /// naming the first difference.
  Notes load(const std::string& path);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace rlx

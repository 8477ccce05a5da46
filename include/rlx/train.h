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
#include "rlx/ops/random.h"
#include "rlx/session.h"

namespace rlx {

/// How a rule that divides by the curvature (Sophia) gets to know the Hessian's diagonal: every so many steps, before
/// the update, h becomes beta2 h + (1 - beta2) estimate.
struct HessianEstimate {
  /// hutchinson: u (H u), u of the normal distribution, by forward over reverse mode. gauss_newton_bartlett: rows times
  /// the square of the gradient of the mean cross-entropy with labels that are drawn from the model's own
  /// probabilities; never negative.
  enum class Kind { hutchinson, gauss_newton_bartlett };
  Kind kind = Kind::hutchinson;
  int64_t every = 10;
  double beta2 = 0.99;
  std::string logits = {};  ///< of gauss_newton_bartlett: the output of the loss graph that holds them, [..., classes]
  RngAlgorithm algorithm = RngAlgorithm::philox;
};
constexpr std::array<std::string_view, 2> names_of(HessianEstimate::Kind) {
  return {"hutchinson", "gauss_newton_bartlett"};
}

/// How params step. A rule that takes matrices only (Muon) has a second one for all other params.
struct Optimizer {
  OptimizerRule rule;
  std::optional<OptimizerRule> for_vectors = {};
  HessianEstimate hessian = {};  ///< of Sophia alone

  static Optimizer sgd(SgdAttrs a = {}) { return {a}; }
  static Optimizer adam(AdamAttrs a = {}) { return {a}; }
  static Optimizer adamw(AdamAttrs a = {.weight_decay = 0.01}) { return a.decoupled = true, Optimizer{a}; }
  static Optimizer adagrad(AdagradAttrs a = {}) { return {a}; }
  static Optimizer rmsprop(RmspropAttrs a = {}) { return {a}; }
  static Optimizer adafactor(AdafactorAttrs a = {}) { return {a}; }
  static Optimizer lamb(LambAttrs a = {}) { return {a}; }
  static Optimizer lion(LionAttrs a = {}) { return {a}; }
  static Optimizer muon(MuonAttrs a = {}, AdamAttrs others = {.decoupled = true}) { return {a, others}; }
  static Optimizer sophia(SophiaAttrs a = {}) { return {a}; }
  static Optimizer sophia(SophiaAttrs a, HessianEstimate estimate) { return {a, {}, std::move(estimate)}; }

  /// By the name of one of these functions, with its defaults. Fails naming those there are.
  static Optimizer named(std::string_view name);

  const OptimizerRule& rule_for(const Type& param) const;
};

/// The learning rate of each step, the first being step 1.
struct LearningRate {
  enum class Shape { constant, linear, cosine, one_cycle };
  struct Options {
    int64_t warmup = 0;  ///< steps that rise from 0 along a line; one_cycle rises in a way of its own
    double last = 0;     ///< what it falls to, as a fraction of the peak
  };
  double peak = 1e-3;
  Shape shape = Shape::constant;
  int64_t steps = 0;  ///< after which it stays at the last value
  Options options = {};

  LearningRate(double constant = 1e-3) : peak(constant) {}
  /// From 0 up a line to the peak, `warmup` steps after the first, and there it stays.
  static LearningRate constant(double peak, int64_t warmup);
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

constexpr std::array<std::string_view, 4> names_of(LearningRate::Shape) {
  return {"constant", "linear", "cosine", "one_cycle"};
}

/// In which type the products of a step are computed. Params, their states and their updates stay as they are.
struct PrecisionPolicy {
  DType compute = f32;  ///< f32: everything as the graph says; f16, bf16: automatic mixed precision
  // Of f16, whose gradients would vanish: they are computed of the loss times a scale, which begins as `loss_scale`.
  // A step in which one overflows is skipped and the scale multiplied by `backoff`; `growth_interval` steps without
  // that, and it is multiplied by `growth`.
  double loss_scale = 65536, growth = 2, backoff = 0.5;
  int64_t growth_interval = 2000;

  /// Products and convolutions in f16 or bf16; norms, losses, sums and exponentials in f32: docs/training.md has the
  /// table.
  static PrecisionPolicy auto_mixed(DType compute = f16) { return {compute}; }
};
/// The loss graph as such a policy computes it.
Graph mixed_precision(const Graph& loss, DType compute);

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
  PrecisionPolicy precision = {};
  uint64_t seed = 0;           ///< of the keys below, and of Sophia's random vectors
  std::string key_input = {};  ///< an input of the loss, u32[2], that gets another key in each step (for dropout)
  /// Params that are not trained but become an output of the loss graph after each step (the running statistics of
  /// batch norm): name of the param, name of the output.
  std::map<std::string, std::string, std::less<>> written = {};
  /// The forward pass is cut into so many parts, of which the step keeps the ends and computes the insides again on its
  /// way back: less memory, up to a third more time. 0 or 1: nothing is computed twice.
  int64_t checkpoints = 0;
  /// The first group that names a param counts.
  std::vector<ParamGroup> groups = {};
  /// The params that are trained, by names, or beginnings of names with a '*' behind them; all others stay frozen.
  /// Empty: all that are floats. A group may freeze some of those that a '*' stands for.
  std::vector<std::string> trained = {};
  CompileOptions compile = CompileOptions::from_environment();
};

/// How params are updated: by an update graph behind the gradients, in the same graph, or by the device's own means of
/// training a loaded model.
enum class UpdatePath { gradient, fused, native_update };
constexpr std::array<std::string_view, 3> names_of(UpdatePath) { return {"gradient", "fused", "native_update"}; }

/// Whether a device can update the params of a model that it has loaded, by means of its own.
struct UpdateEligibility {
  Device device;
  bool supported = false;
  std::string reason;  ///< why not
};
UpdateEligibility native_update_eligibility(const Device& device);

struct StepResult {
  double loss = 0;
  double grad_norm = 0;  ///< of all gradients together, before clipping
  double learning_rate = 0;
  int64_t step = 0;  ///< how many were made, this one included
  UpdatePath path = UpdatePath::fused;
  std::vector<Tensor> outputs;  ///< of the loss graph, after the loss
  bool skipped = false;         ///< a gradient overflowed (f16): nothing was updated, and the scale was lowered
  double loss_scale = 1;        ///< that the gradients were computed with
};

/// Bytes that a session holds between its steps.
struct TrainingMemory {
  size_t params = 0, states = 0;  ///< trained params and those that are written; states and moving means
  size_t gradients = 0;           ///< that wait
  size_t spare = 0;               ///< new values that the last step could not write over the old ones
  size_t program = 0;             ///< activations, gradients and packed weights of the compiled graphs
  size_t total() const { return params + states + gradients + spare + program; }
};

/// A graph that learns. The first output of the graph is the loss, a float scalar; the params of the graph that are
/// floats are trained unless a group freezes them, or those alone that the config lists. Not for several threads at
/// once.
class TrainingSession {
 public:
  /// Fails if a param has no initial value or one of another type, if a group or the list of trained params names none,
  /// or one that cannot be trained, if the loss does not depend on a trained param (see `allow_unused`), or if an op on
  /// the way has no derivative.
  TrainingSession(const Graph& loss, NamedTensors initial, TrainConfig config = {}, const Session& device = Session());
  ~TrainingSession();
  TrainingSession(TrainingSession&&) noexcept;
  TrainingSession& operator=(TrainingSession&&) noexcept;

  /// One step on a batch. A loss, or a norm of the gradients, that is no finite number is an error (invalid_argument)
  /// that names the first node that gave one; nothing has changed then. (Gradients that overflow in f16 are none: see
  /// StepResult::skipped.) Fails while gradients wait.
  StepResult step(const std::vector<NamedTensor>& batch);
  /// Adds the gradients of a batch to those that wait; a batch that is skipped adds none. Nothing steps, but what is
  /// `written` is.
  StepResult accumulate(const std::vector<NamedTensor>& batch);
  int64_t pending_accumulation() const;
  /// The sum of the gradients that wait, of each trained param; empty if none does.
  NamedTensors pending_gradients() const;
  /// One step by the mean of the gradients that wait; returns of how many. Fails if none does.
  int64_t step_accumulated();
  /// The outputs for a batch, by the params as they are, or by their moving mean. Nothing is written.
  std::vector<Tensor> evaluate(const std::vector<NamedTensor>& batch, bool averaged = false);

  /// From now on another loss of the same params: for batches of another size. The latest eight stay compiled. Fails if
  /// its params are not the session's.
  void set_loss(const Graph& loss);
  /// From the next step on.
  void set_learning_rate(LearningRate rate);
  /// From the next step on forward, backward and update are one graph, or not: TrainConfig::fused. The numbers stay.
  TrainingSession& with_fused_optimizer(bool fused = true);
  /// The same by the name of the path. Fails for `native_update` where the device has no such means, which is
  /// everywhere today, with the reason that `eligibility` gives; the session then goes on by the path that it was on.
  TrainingSession& with_update_path(UpdatePath path);
  /// From the next step on computes in this precision: TrainConfig::precision. A scale of the loss begins anew. Fails
  /// while gradients wait.
  TrainingSession& with_precision_policy(PrecisionPolicy policy);

  Tensor param(const std::string& name) const;
  NamedTensors params() const;
  /// The moving mean of the trained params; fails if the config keeps none.
  NamedTensors averaged_params() const;
  int64_t steps() const;
  /// Of the loss graph in use, behind the loss.
  size_t output_count() const;
  bool fused_active() const;
  UpdatePath update_path() const { return fused_active() ? UpdatePath::fused : UpdatePath::gradient; }
  /// Whether the session's device could do the updates itself; `update_path` tells what is done.
  UpdateEligibility eligibility() const;
  const TrainConfig& config() const;
  /// What a step runs, for reports: the fused graph, or the gradient graph.
  const DispatchReport& report() const;
  TrainingMemory memory() const;
  /// By what gradients are multiplied until they are computed; 1 unless the precision is f16.
  double loss_scale() const;

  /// What a caller wants kept beside a checkpoint: where in the data it was, a key, an epoch.
  using Notes = std::map<std::string, std::string, std::less<>>;
  /// All params by their names, states as "state/<state>/<param>", moving means as "mean/<param>", in a safetensors
  /// file that appears complete or not at all, with the number of steps and the loss scale in its metadata. An equal
  /// session that loads it goes on bit by bit as this one would. Fails while gradients wait: they are not kept.
  void save(const std::string& path, const Notes& notes = {}) const;
  /// Gives the notes back. Fails, changing nothing, if the file is of another model or was trained by other rules,
  /// naming the first difference.
  Notes load(const std::string& path);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace rlx

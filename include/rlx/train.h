// Training: a graph with a scalar loss, the params it learns, an optimizer, a device.
//
//     rlx::TrainConfig config;
//     config.optimizer = rlx::Optimizer::adamw({.weight_decay = 0.01});
//     config.learning_rate = rlx::LearningRate::cosine(1e-3, 1000, {.warmup = 100});
//     rlx::TrainingSession session(loss, initial, config);
//     for (...) session.step({{"x", x}, {"target", t}}).loss;
//     session.save("model.safetensors");
//
// docs/training.md says what a step computes, and in which order.
#pragma once

#include <optional>

#include "rlx/io.h"
#include "rlx/ops/optimizer.h"
#include "rlx/ops/random.h"
#include "rlx/session.h"

namespace rlx {

/// How a rule that divides by the curvature (Sophia) estimates the diagonal of the Hessian: every so many steps, before
/// the update, h becomes beta2 h + (1 - beta2) estimate.
struct HessianEstimate {
  /// hutchinson: u (H u) with u from the normal distribution, by forward over reverse mode. gauss_newton_bartlett: the
  /// number of rows times the square of the gradient of the mean cross-entropy, with labels that are drawn from the
  /// model's own probabilities; it is never negative.
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

/// The rule by which params are updated. A rule for matrices only (Muon) has a second rule for all other params.
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

  /// The rule of this name, that is, of one of the functions above, with its defaults. If there is none, fails and
  /// names those there are.
  static Optimizer named(std::string_view name);

  const OptimizerRule& rule_for(const Type& param) const;
};

/// The learning rate of each step, the first being step 1.
struct LearningRate {
  enum class Shape { constant, linear, cosine, one_cycle };
  struct Options {
    int64_t warmup = 0;  ///< steps in which the rate rises linearly from 0; one_cycle has a rise of its own
    double last = 0;     ///< the final rate, as a fraction of the peak
  };
  double peak = 1e-3;
  Shape shape = Shape::constant;
  int64_t steps = 0;  ///< after this many steps the rate stays at the last value
  Options options = {};

  LearningRate(double constant = 1e-3) : peak(constant) {}
  /// Rises linearly from 0 to the peak, which it reaches `warmup` steps after the first, and stays there.
  static LearningRate constant(double peak, int64_t warmup);
  /// Falls from the peak to the last value at `steps`: linearly, or along half a cosine.
  static LearningRate linear(double peak, int64_t steps, Options options);
  static LearningRate linear(double peak, int64_t steps) { return linear(peak, steps, Options{}); }
  static LearningRate cosine(double peak, int64_t steps, Options options);
  static LearningRate cosine(double peak, int64_t steps) { return cosine(peak, steps, Options{}); }
  /// Rises along half a cosine from peak / 25 during the first 0.3 of the steps, then falls to peak / 250,000 (Smith,
  /// Topin 2018).
  static LearningRate one_cycle(double peak, int64_t steps);

  /// The rate of step `step`, which counts from 1. For smaller numbers it is that of step 1.
  double at(int64_t step) const;
};

constexpr std::array<std::string_view, 4> names_of(LearningRate::Shape) {
  return {"constant", "linear", "cosine", "one_cycle"};
}

/// The dtype in which the products of a step are computed. Params, their states and their updates keep their dtypes.
struct PrecisionPolicy {
  DType compute = f32;  ///< f32: everything as the graph says; f16, bf16: automatic mixed precision
  // For f16, whose gradients would underflow: gradients are computed of the loss times a scale, which begins as
  // `loss_scale`. A step in which a gradient overflows is skipped, and the scale is multiplied by `backoff`. After
  // `growth_interval` steps without that, it is multiplied by `growth`.
  double loss_scale = 65536, growth = 2, backoff = 0.5;
  int64_t growth_interval = 2000;

  /// Products and convolutions in f16 or bf16; norms, losses, sums and exponentials in f32: docs/training.md has the
  /// table.
  static PrecisionPolicy auto_mixed(DType compute = f16) { return {compute}; }
};
/// The loss graph with its products in `compute`, as this policy computes it.
Graph mixed_precision(const Graph& loss, DType compute);

/// Params that are updated in a way of their own.
struct ParamGroup {
  std::vector<std::string> params;  ///< names, or beginnings of names with a '*' behind them
  double lr_scale = 1;
  std::optional<double> weight_decay = {};  ///< instead of the optimizer's
  bool frozen = false;                      ///< the params are not updated, and their gradients are not computed
};

struct TrainConfig {
  Optimizer optimizer = Optimizer::adam();
  LearningRate learning_rate = 1e-3;
  double clip_value = 0;  ///< gradients are clamped to +- this value; 0: they are not clamped
  double clip_norm = 0;   ///< gradients are scaled so that the norm of all is at most this; 0: they are not scaled
  double ema = 0;         ///< a moving mean of the params is kept, of which this fraction stays at each step; 0: none
  bool fused = true;      ///< forward, backward and update are one graph; else gradients leave it for a second one
  bool allow_unused = false;  ///< trained params may exist that the loss does not depend on
  PrecisionPolicy precision = {};
  uint64_t seed = 0;           ///< of the keys below, and of Sophia's random vectors
  std::string key_input = {};  ///< an input of the loss, u32[2], that gets another key in each step (for dropout)
  /// Params that are not trained but become an output of the loss graph after each step (the running statistics of
  /// batch norm): name of the param, name of the output.
  std::map<std::string, std::string, std::less<>> written = {};
  /// Into how many segments the forward pass is cut. A step keeps only the values at their ends, and computes those
  /// inside again in the backward pass: that takes less memory and up to a third more time. With 0 or 1 nothing is
  /// computed twice.
  int64_t checkpoints = 0;
  /// Groups of params with settings of their own. If several name a param, the first one counts.
  std::vector<ParamGroup> groups = {};
  /// The params that are trained, by names, or beginnings of names with a '*' behind them; all others stay frozen.
  /// Empty: all that are floats. A group may freeze some of those that a '*' stands for.
  std::vector<std::string> trained = {};
  CompileOptions compile = CompileOptions::from_environment();
};

/// How params are updated: by a separate update graph (gradient), by one graph with the gradients (fused), or by the
/// device's own means of training a loaded model (native_update).
enum class UpdatePath { gradient, fused, native_update };
constexpr std::array<std::string_view, 3> names_of(UpdatePath) { return {"gradient", "fused", "native_update"}; }

/// Whether a device can update the params of a loaded model by its own means.
struct UpdateEligibility {
  Device device;
  bool supported = false;
  std::string reason;  ///< why not
};
UpdateEligibility native_update_eligibility(const Device& device);

struct StepResult {
  double loss = 0;
  double grad_norm = 0;  ///< the norm of all gradients together, before clipping
  double learning_rate = 0;
  int64_t step = 0;  ///< the number of steps so far, this one included
  UpdatePath path = UpdatePath::fused;
  std::vector<Tensor> outputs;  ///< of the loss graph, after the loss
  bool skipped = false;         ///< a gradient overflowed (f16): nothing was updated, and the scale was lowered
  double loss_scale = 1;        ///< the scale with which the gradients were computed
};

/// The bytes that a session holds between its steps.
struct TrainingMemory {
  size_t params = 0, states = 0;  ///< trained params and those that are written; states and moving means
  size_t gradients = 0;           ///< accumulated gradients
  size_t spare = 0;               ///< new values that the last step could not write over the old ones
  size_t program = 0;             ///< activations, gradients and packed weights of the compiled graphs
  size_t total() const { return params + states + gradients + spare + program; }
};

/// A training of one graph. The first output of the graph is the loss, a float scalar. All float params are trained,
/// unless a group freezes them or the config lists those that are. Only one thread may use a session at a time.
class TrainingSession {
 public:
  /// Fails if a param has no initial value or one of another type, if a group or the list of trained params names none,
  /// or one that cannot be trained, if the loss does not depend on a trained param (see `allow_unused`), or if an op on
  /// the way has no derivative.
  TrainingSession(const Graph& loss, NamedTensors initial, TrainConfig config = {}, const Session& device = Session());
  ~TrainingSession();
  TrainingSession(TrainingSession&&) noexcept;
  TrainingSession& operator=(TrainingSession&&) noexcept;

  /// Makes one step on a batch. If the loss, or the norm of the gradients, is not finite, it fails (invalid_argument),
  /// names the first node with such a number, and changes nothing. (Gradients that overflow in f16 are no error: see
  /// StepResult::skipped.) Fails if there are accumulated gradients.
  StepResult step(const std::vector<NamedTensor>& batch);
  /// Adds the gradients of a batch to the accumulated ones; a batch that is skipped adds none. No param is updated,
  /// except those that the config has `written`.
  StepResult accumulate(const std::vector<NamedTensor>& batch);
  int64_t pending_accumulation() const;
  /// The sum of the accumulated gradients of each trained param; empty if there are none.
  NamedTensors pending_gradients() const;
  /// Makes one step with the mean of the accumulated gradients, and returns how many there were. Fails if there are
  /// none.
  int64_t step_accumulated();
  /// The outputs for a batch, with the params as they are or with their moving means. Nothing is changed.
  std::vector<Tensor> evaluate(const std::vector<NamedTensor>& batch, bool averaged = false);

  /// Uses another loss of the same params from now on, for batches of another size for example. The latest eight losses
  /// stay compiled. Fails if its params are not those of the session.
  void set_loss(const Graph& loss);
  /// Sets the learning rate, from the next step on.
  void set_learning_rate(LearningRate rate);
  /// Sets TrainConfig::fused, from the next step on: whether forward, backward and update are one graph. The results
  /// are the same.
  TrainingSession& with_fused_optimizer(bool fused = true);
  /// The same, by the name of the path. Fails for `native_update` if the device has no such means, which is so for
  /// every device today; the message has the reason that `eligibility` gives, and the session keeps its path.
  TrainingSession& with_update_path(UpdatePath path);
  /// Sets TrainConfig::precision, from the next step on. The scale of the loss begins again. Fails if there are
  /// accumulated gradients.
  TrainingSession& with_precision_policy(PrecisionPolicy policy);

  Tensor param(const std::string& name) const;
  NamedTensors params() const;
  /// The moving means of the trained params. Fails if the config keeps none.
  NamedTensors averaged_params() const;
  int64_t steps() const;
  /// The number of outputs of the current loss graph, without the loss.
  size_t output_count() const;
  bool fused_active() const;
  UpdatePath update_path() const { return fused_active() ? UpdatePath::fused : UpdatePath::gradient; }
  /// Whether the session's device could update params by its own means. `update_path` says what is done.
  UpdateEligibility eligibility() const;
  const TrainConfig& config() const;
  /// What a step runs, for reports: the fused graph, or the gradient graph.
  const DispatchReport& report() const;
  TrainingMemory memory() const;
  /// The factor of the loss of which gradients are computed; 1 unless the precision is f16.
  double loss_scale() const;

  /// Texts that a caller stores with a checkpoint: a position in the data, a key, an epoch.
  using Notes = std::map<std::string, std::string, std::less<>>;
  /// Writes all params under their names, states as "state/<state>/<param>" and moving means as "mean/<param>", to a
  /// safetensors file, with the number of steps and the loss scale in its metadata. The file appears complete or not at
  /// all. A session with the same config that loads it goes on bit by bit as this one would. Fails if there are
  /// accumulated gradients, because they would not be saved.
  void save(const std::string& path, const Notes& notes = {}) const;
  /// Loads such a file and returns its notes. If the file is of another model, or was trained by other rules, fails,
  /// names the first difference, and changes nothing.
  Notes load(const std::string& path);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace rlx

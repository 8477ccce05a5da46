// What a training session holds, for the files that make it up: session.cpp (the public functions), session_state.cpp
// (how a step runs), checkpoint.cpp.
#pragma once

#include <deque>

#include "backends/registry.h"
#include "train/step_graph.h"

namespace rlx {

/// A loss, and what was compiled of it. Each graph is compiled when it is first needed.
struct TrainingLoss {
  Graph given;
  Graph computed;  ///< in the precision that was asked for
  Graph learned;   ///< the same in parts, as gradients are computed of it
  std::optional<CompiledGraph> forward = {}, gradients = {}, fused = {}, curvature = {};
};

namespace train {

/// A value where the graphs of a session run: a tensor of the host where the device computes in the host's memory, else
/// one on the device. What a step is given may be on the host in either case.
struct Placed {
  Tensor host = {};
  DeviceTensor there = {};  ///< if not empty, the value

  Placed() = default;
  Placed(Tensor value) : host(std::move(value)) {}
  Placed(DeviceTensor value) : there(std::move(value)) {}
  Tensor to_host() const { return there.is_empty() ? host : there.to_host(); }
  size_t byte_count() const { return there.is_empty() ? host.byte_count() : there.byte_count(); }
};

}  // namespace train

struct TrainingSession::State {
  TrainConfig config;
  Session device;
  std::string name;  ///< of the first loss
  /// Whether the device has memory of its own, in which the session's values stay between steps.
  bool has_own_memory = backend_of(device.device())->has_own_memory();
  train::Layout layout = {};
  NamedTensors fixed = {};               ///< params that are neither trained nor written
  std::vector<train::Placed> kept = {};  ///< as in the layout
  std::vector<train::Placed> sums = {};  ///< of the gradients that wait
  int64_t steps = 0, pending = 0;
  double scale = 1;                      ///< of the loss
  int64_t since_overflow = 0;            ///< steps
  size_t spare_bytes = 0;                ///< that the last update wrote beside the old values
  bool is_damaged = false;               ///< a run failed while it wrote what is kept
  std::deque<TrainingLoss> losses = {};  ///< the one in use in front
  std::optional<CompiledGraph> update = {};

  TrainingLoss& loss() { return losses.front(); }
  const TrainingLoss& loss() const { return losses.front(); }
  TrainingLoss made_loss(const Graph& given) const;

  /// `updates`: inputs that become outputs of their name are donated.
  CompiledGraph& compiled(std::optional<CompiledGraph>& graph, const std::function<Graph()>& make, bool updates = true);
  CompiledGraph& forward_graph();
  CompiledGraph& gradient_graph();
  CompiledGraph& update_graph();
  CompiledGraph& fused_graph();
  CompiledGraph& curvature_graph();
  /// What a step runs.
  void compile_step();
  /// Every compiled graph there is.
  std::vector<CompiledGraph*> all_compiled();
  void bind_fixed();

  /// The batch in the order of the loss graph's inputs, with the key that belongs to this step where one is wanted.
  std::vector<Tensor> ordered(const std::vector<NamedTensor>& batch) const;
  Tensor key(int64_t step, int64_t part) const;
  std::span<const train::Placed> trained() const { return std::span(kept).first(layout.trained.size()); }
  std::span<const train::Placed> written() const { return std::span(kept).subspan(layout.first_written); }

  train::Placed placed(Tensor value) const;
  /// Begins a run on a device with memory of its own.
  PendingRun submitted(const CompiledGraph& graph, std::span<const train::Placed> inputs) const;
  std::vector<train::Placed> run(const CompiledGraph& graph, std::vector<train::Placed> inputs) const;

  /// Fails if what is kept may be half updated: nobody is given it then, and no checkpoint is overwritten with it.
  void require_whole() const;
  /// Fails if no moving means are kept.
  void require_means() const;
  /// Runs a graph whose last outputs are the values of `places`, in order, which are its last inputs too: updates them
  /// where they are, if the device can. Gives the outputs before those, but for the last of them, which is `ok`.
  std::vector<Tensor> run_updating(CompiledGraph& graph, std::vector<train::Placed> inputs,
                                   std::span<train::Placed* const> places);
  std::vector<Tensor> run_updating_on_host(CompiledGraph& graph, std::vector<train::Placed> inputs,
                                           std::span<train::Placed* const> places);
  std::vector<Tensor> run_updating_on_device(CompiledGraph& graph, std::vector<train::Placed> inputs,
                                             std::span<train::Placed* const> places);
  StepResult fused_step(const std::vector<Tensor>& batch, double rate);
  /// The gradients of a batch added to `sums`.
  StepResult add_gradients(const std::vector<Tensor>& batch);
  /// A step by the mean of the sums over `pending`; gives the norm of the mean.
  double apply_sums(double rate);
  /// New curvature, where it is time for one. Gives what was before, or nothing if it did not change.
  std::vector<train::Placed> estimate_curvature(const std::vector<Tensor>& batch);
  void restore_curvature(std::vector<train::Placed> before);

  StepResult result(std::span<const Tensor> outputs, size_t own) const;
  /// What to do about a loss and a norm: nothing, or skip (gives true), or fail, naming the node that gave the number.
  bool must_skip(const StepResult& r, std::span<const Tensor> batch);
  void note_good_step();
  [[noreturn]] void fail_not_finite(std::string_view what, double value, std::span<const Tensor> batch) const;
};

}  // namespace rlx

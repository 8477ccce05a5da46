// Training sessions; see rlx/train.h.
#include <cmath>
#include <utility>

#include "backends/registry.h"
#include "passes/mixed_precision.h"
#include "train/curvature.h"
#include "train/session_state.h"

namespace rlx {

namespace {

void check_precision(const PrecisionPolicy& p) {
  if (p.compute != f32 && p.compute != f16 && p.compute != bf16)
    fail(ErrorCode::invalid_argument, "a step computes in f32, f16 or bf16, got ", p.compute);
  if (!(p.loss_scale > 0 && std::isfinite(p.loss_scale) && p.growth >= 1 && p.backoff > 0 && p.backoff < 1) ||
      p.growth_interval < 1)
    fail(ErrorCode::invalid_argument,
         "a loss scale is finite and above 0, grows by 1 or more, every 1 or more steps, and backs ",
         "off by a fraction; got loss_scale = ", p.loss_scale, ", growth = ", p.growth, ", backoff = ", p.backoff,
         ", growth_interval = ", p.growth_interval);
}
void check_rate(const LearningRate& rate) {
  if (!(rate.peak >= 0 && std::isfinite(rate.peak)))
    fail(ErrorCode::invalid_argument, "the learning rate is ", rate.peak, "; it is finite and not below 0");
  if (!(rate.options.last >= 0 && std::isfinite(rate.options.last)))
    fail(ErrorCode::invalid_argument, "the last learning rate is ", rate.options.last,
         " of the highest; it is finite and not below 0");
}
void check_config(const TrainConfig& c) {
  check_rate(c.learning_rate);
  for (const ParamGroup& group : c.groups)
    if (!(group.lr_scale >= 0 && std::isfinite(group.lr_scale)))
      fail(ErrorCode::invalid_argument, "the group of '", group.params.empty() ? "" : group.params[0],
           "' steps at lr_scale = ", group.lr_scale, " times the learning rate; it is finite and not below 0");
  if (!(c.clip_norm >= 0 && c.clip_value >= 0))
    fail(ErrorCode::invalid_argument,
         "gradients are clipped at a number above 0, or not, which is 0; got clip_norm = ", c.clip_norm,
         ", clip_value = ", c.clip_value);
  if (!(c.ema >= 0 && c.ema < 1)) fail(ErrorCode::invalid_argument, "ema is ", c.ema, "; it goes from 0 to below 1");
  if (c.checkpoints < 0)
    fail(ErrorCode::invalid_argument, "checkpoints is ", c.checkpoints, "; it counts parts of the forward pass");
  check_precision(c.precision);
  const HessianEstimate& h = c.optimizer.hessian;
  if (h.every < 1 || !(h.beta2 >= 0 && h.beta2 < 1))
    fail(ErrorCode::invalid_argument, "the Hessian is estimated every 1 or more steps, and beta2 goes from 0 to below ",
         "1; got every = ", h.every, ", beta2 = ", h.beta2);
}
void check_key_input(const Graph& loss, const std::string& name) {
  for (Ref r : loss.inputs())
    if (loss.node(r).name == name) {
      if (Type key{u32, {2}}; loss.type(r) != key)
        fail(ErrorCode::shape_mismatch, "the input '", name, "' is to get a key, ", key, ", and is ", loss.type(r));
      return;
    }
  fail(ErrorCode::not_found, "graph '", loss.name(), "' has no input '", name, "' for the key of a step");
}
void check_initial(const Graph& loss, const NamedTensors& initial) {
  for (Ref r : loss.params()) {
    const Node& param = loss.node(r);
    auto found = initial.find(param.name);
    if (found == initial.end())
      fail(ErrorCode::invalid_argument, "the param '", param.name, "' (", param.types[0], ") has no initial value");
    if (found->second.type() != param.types[0])
      fail(ErrorCode::shape_mismatch, "the param '", param.name, "' is ", param.types[0], ", its initial value ",
           found->second.type());
  }
  for (const auto& [name, value] : initial)
    if (std::none_of(loss.params().begin(), loss.params().end(),
                     [&, &wanted = name](Ref r) { return loss.node(r).name == wanted; }))
      fail(ErrorCode::not_found, "there is an initial value for '", name, "', which is no param of graph '",
           loss.name(), "'");
}
size_t bytes_of(std::span<const train::Placed> values) {
  size_t all = 0;
  for (const train::Placed& value : values) all += value.byte_count();
  return all;
}

}  // namespace

Graph mixed_precision(const Graph& loss, DType compute) {
  return compute == f32 ? loss : in_mixed_precision(loss, compute, MixedFor::training);
}

UpdateEligibility native_update_eligibility(const Device& device) {
  const auto backend = find_backend(device);
  return {device, false, backend ? backend->no_native_update() : text_of("this build has no backend for ", device)};
}

TrainingSession::TrainingSession(const Graph& loss, NamedTensors initial, TrainConfig config, const Session& device)
    : state_(new State{std::move(config), device, loss.name()}) {
  with_context(
      [&] { return text_of("training '", loss.name(), "'"); },
      [&] {
        State& s = *state_;
        check_config(s.config);
        s.layout = train::layout_of(loss, s.config);
        if (!s.config.key_input.empty()) check_key_input(loss, s.config.key_input);
        check_initial(loss, initial);
        for (size_t i = 0; i < s.layout.kept.size(); ++i) {
          const auto& [name, type] = s.layout.kept[i];
          bool is_state = i >= s.layout.trained.size() && i < s.layout.first_mean;
          bool is_mean = i >= s.layout.first_mean && i < s.layout.first_written;
          const std::string& param = is_mean ? s.layout.trained[i - s.layout.first_mean].name : name;
          s.kept.push_back(s.placed(is_state ? Tensor(type.dtype, shape_of(type.dims)) : initial.find(param)->second));
        }
        for (auto& [name, value] : initial)
          if (!s.layout.keeps(name)) s.fixed[name] = std::move(value);
        initial.clear();
        if (train::is_scaled(s.config)) s.scale = s.config.precision.loss_scale;
        s.losses.push_front(s.made_loss(loss));
        // What cannot be compiled is said now, not at the first step.
        s.compile_step();
        if (train::wants_curvature(s.layout)) s.curvature_graph();
      });
}
TrainingSession::~TrainingSession() = default;
TrainingSession::TrainingSession(TrainingSession&&) noexcept = default;
TrainingSession& TrainingSession::operator=(TrainingSession&&) noexcept = default;

StepResult TrainingSession::step(const std::vector<NamedTensor>& batch) {
  State& s = *state_;
  if (s.pending > 0)
    fail(ErrorCode::invalid_argument, "the gradients of ", s.pending, " batches wait; call step_accumulated() first");
  double rate = s.config.learning_rate.at(s.steps + 1);
  auto inputs = s.ordered(batch);
  StepResult r;
  if (s.config.fused) {
    r = s.fused_step(inputs, rate);
  } else {
    auto before = s.estimate_curvature(inputs);
    try {
      r = s.add_gradients(inputs);
    } catch (...) {
      s.restore_curvature(std::move(before));
      throw;
    }
    if (r.skipped) s.restore_curvature(std::move(before));
    else r.grad_norm = s.apply_sums(rate);
  }
  r.learning_rate = rate, r.step = s.steps, r.path = update_path();
  return r;
}
StepResult TrainingSession::accumulate(const std::vector<NamedTensor>& batch) {
  State& s = *state_;
  auto inputs = s.ordered(batch);
  std::vector<train::Placed> before;
  if (s.pending == 0) before = s.estimate_curvature(inputs);
  StepResult r;
  try {
    r = s.add_gradients(inputs);
  } catch (...) {
    s.restore_curvature(std::move(before));
    throw;
  }
  if (r.skipped) s.restore_curvature(std::move(before));
  r.learning_rate = s.config.learning_rate.at(s.steps + 1);
  r.step = s.steps, r.path = UpdatePath::gradient;
  return r;
}
int64_t TrainingSession::pending_accumulation() const { return state_->pending; }
NamedTensors TrainingSession::pending_gradients() const {
  const State& s = *state_;
  NamedTensors gradients;
  // The sums are there before the first batch, and stay where one was skipped.
  if (s.pending > 0)
    for (size_t i = 0; i < s.sums.size(); ++i) gradients.emplace(s.layout.trained[i].name, s.sums[i].to_host());
  return gradients;
}
int64_t TrainingSession::step_accumulated() {
  State& s = *state_;
  if (s.pending == 0) fail(ErrorCode::invalid_argument, "no gradients wait; call accumulate() first");
  int64_t count = s.pending;
  s.apply_sums(s.config.learning_rate.at(s.steps + 1));
  return count;
}

std::vector<Tensor> TrainingSession::evaluate(const std::vector<NamedTensor>& batch, bool averaged) {
  State& s = *state_;
  s.require_whole();
  const auto given = s.ordered(batch);
  std::vector<train::Placed> inputs(given.begin(), given.end());
  size_t first = averaged ? s.layout.first_mean : 0;
  if (averaged) s.require_means();
  for (size_t i = 0; i < s.layout.trained.size(); ++i) inputs.push_back(s.kept[first + i]);
  inputs.insert(inputs.end(), s.written().begin(), s.written().end());
  std::vector<Tensor> outputs;
  for (const train::Placed& value : s.run(s.forward_graph(), std::move(inputs))) outputs.push_back(value.to_host());
  return outputs;
}

void TrainingSession::set_loss(const Graph& loss) {
  State& s = *state_;
  for (size_t i = 0; i < s.losses.size(); ++i)
    if (s.losses[i].given == loss) {
      std::rotate(s.losses.begin(), s.losses.begin() + static_cast<std::ptrdiff_t>(i),
                  s.losses.begin() + static_cast<std::ptrdiff_t>(i) + 1);
      return;
    }
  with_context([&] { return text_of("training '", s.name, "' by the loss '", loss.name(), "' from now on"); },
               [&] {
                 auto layout = train::layout_of(loss, s.config);
                 auto same = [](const Signature::Entry& a, const Signature::Entry& b) {
                   return a.name == b.name && a.type == b.type;
                 };
                 const auto &now = s.layout.kept, &then = layout.kept;
                 auto [a, b] = std::mismatch(now.begin(), now.end(), then.begin(), then.end(), same);
                 auto shown = [](auto at, const auto& all) {
                   return at == all.end() ? std::string("nothing") : text_of("'", at->name, "' (", at->type, ")");
                 };
                 if (a != now.end() || b != then.end())
                   fail(ErrorCode::invalid_argument, "its params are not the session's: it has ", shown(b, then),
                        " where the session has ", shown(a, now));
                 for (Ref r : loss.params()) {
                   const Node& node = loss.node(r);
                   if (s.layout.keeps(node.name)) continue;
                   auto found = s.fixed.find(node.name);
                   if (found == s.fixed.end() || found->second.type() != node.types[0])
                     fail(ErrorCode::invalid_argument, "its param '", node.name, "' (", node.types[0],
                          ") is none of the session's");
                 }
                 if (!s.config.key_input.empty()) check_key_input(loss, s.config.key_input);
                 auto made = s.made_loss(loss);
                 s.losses.push_front(std::move(made));
                 try {
                   s.compile_step();
                 } catch (...) {
                   s.losses.pop_front();
                   throw;
                 }
                 constexpr size_t kMostLosses = 8;
                 if (s.losses.size() > kMostLosses) s.losses.pop_back();
               });
}
void TrainingSession::set_learning_rate(LearningRate rate) {
  check_rate(rate);
  state_->config.learning_rate = rate;
}

TrainingSession& TrainingSession::with_fused_optimizer(bool fused) {
  State& s = *state_;
  const bool before = std::exchange(s.config.fused, fused);
  try {
    with_context([&] { return text_of("training '", s.name, fused ? "' in one graph" : "' in two graphs"); },
                 [&] { s.compile_step(); });
  } catch (...) {
    s.config.fused = before;
    throw;
  }
  return *this;
}
TrainingSession& TrainingSession::with_update_path(UpdatePath path) {
  if (path != UpdatePath::native_update) return with_fused_optimizer(path == UpdatePath::fused);
  const UpdateEligibility native = eligibility();
  fail(ErrorCode::unsupported, "'", state_->name, "' cannot be updated by means of the device ", native.device, ": ",
       native.reason);
}
TrainingSession& TrainingSession::with_precision_policy(PrecisionPolicy policy) {
  State& s = *state_;
  check_precision(policy);
  if (s.pending > 0)
    fail(ErrorCode::invalid_argument, "the gradients of ", s.pending, " batches wait; call step_accumulated() first");
  const PrecisionPolicy before = std::exchange(s.config.precision, policy);
  auto losses = std::exchange(s.losses, {});
  try {
    with_context([&] { return "training '" + s.name + "' in another precision"; },
                 [&] {
                   s.losses.push_front(s.made_loss(losses.front().given));
                   s.compile_step();
                 });
  } catch (...) {
    s.config.precision = before, s.losses = std::move(losses);
    throw;
  }
  s.scale = train::is_scaled(s.config) ? policy.loss_scale : 1, s.since_overflow = 0;
  return *this;
}

Tensor TrainingSession::param(const std::string& name) const {
  const State& s = *state_;
  s.require_whole();
  for (size_t i = 0; i < s.layout.kept.size(); ++i)
    if ((i < s.layout.trained.size() || i >= s.layout.first_written) && s.layout.kept[i].name == name)
      return s.kept[i].to_host();
  if (auto found = s.fixed.find(name); found != s.fixed.end()) return found->second;
  fail(ErrorCode::not_found, "graph '", s.name, "' has no param '", name, "'");
}
NamedTensors TrainingSession::params() const {
  const State& s = *state_;
  s.require_whole();
  NamedTensors all = s.fixed;
  for (size_t i = 0; i < s.layout.kept.size(); ++i)
    if (i < s.layout.trained.size() || i >= s.layout.first_written) all[s.layout.kept[i].name] = s.kept[i].to_host();
  return all;
}
NamedTensors TrainingSession::averaged_params() const {
  const State& s = *state_;
  s.require_whole();
  s.require_means();
  NamedTensors means;
  for (size_t i = 0; i < s.layout.trained.size(); ++i)
    means[s.layout.trained[i].name] = s.kept[s.layout.first_mean + i].to_host();
  return means;
}
int64_t TrainingSession::steps() const { return state_->steps; }
size_t TrainingSession::output_count() const { return state_->loss().given.outputs().size() - 1; }
bool TrainingSession::fused_active() const { return state_->config.fused; }
UpdateEligibility TrainingSession::eligibility() const { return native_update_eligibility(state_->device.device()); }
const TrainConfig& TrainingSession::config() const { return state_->config; }
const DispatchReport& TrainingSession::report() const {
  return state_->config.fused ? state_->fused_graph().report() : state_->gradient_graph().report();
}
TrainingMemory TrainingSession::memory() const {
  State& s = *state_;
  TrainingMemory m;
  std::span<const train::Placed> kept = s.kept;
  m.params = bytes_of(s.trained()) + bytes_of(s.written());
  m.states = bytes_of(kept.first(s.layout.first_written)) - bytes_of(s.trained());
  m.gradients = bytes_of(s.sums), m.spare = s.spare_bytes;
  for (CompiledGraph* graph : s.all_compiled()) m.program += graph->memory_bytes();
  return m;
}
double TrainingSession::loss_scale() const { return state_->scale; }

}  // namespace rlx

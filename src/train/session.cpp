// Training sessions; see rlx/train.h. Each graph is compiled when it is first needed.
#include <charconv>
#include <cmath>
#include <sstream>

#include "rlx/element.h"
#include "train/finite.h"
#include "train/step_graph.h"

namespace rlx {

using train::Trained;

namespace {

Tensor scalar_tensor(DType dtype, double value) {
  Tensor t(dtype, {});
  if (is_float(dtype)) store<double>(t, 0, value);
  else store<int64_t>(t, 0, static_cast<int64_t>(value));
  return t;
}
double number(const Tensor& t) { return load_number(t, 0); }

}  // namespace

struct TrainingSession::State {
  Graph loss;
  TrainConfig config;
  Session device;
  std::vector<Trained> trained;
  std::vector<Signature::Entry> names;  // of the values that are kept
  NamedTensors fixed;                   // params that are not trained
  std::vector<Tensor> kept;             // trained params, states, means
  std::vector<Tensor> spare;            // what the next step writes into
  std::vector<Tensor> sums;             // of the gradients that wait
  int64_t steps = 0, pending = 0;
  std::optional<CompiledGraph> forward, gradients, update, fused;

  CompiledGraph& compiled(std::optional<CompiledGraph>& graph, const std::function<Graph()>& make) {
    if (!graph) {
      CompiledGraph made = device.compile(make(), config.compile);
      for (const auto& param : made.signature().params) made.set_param(param.name, fixed.find(param.name)->second);
      graph = std::move(made);
    }
    return *graph;
  }
  CompiledGraph& forward_graph() {
    return compiled(forward, [&] { return train::forward_graph(loss, trained); });
  }
  CompiledGraph& gradient_graph() {
    return compiled(gradients, [&] { return train::gradient_graph(loss, trained); });
  }
  CompiledGraph& update_graph() {
    return compiled(update, [&] { return train::update_graph(trained, config); });
  }
  CompiledGraph& fused_graph() {
    return compiled(fused, [&] { return train::fused_graph(loss, trained, config); });
  }

  /// The batch in the order of the loss graph's inputs.
  std::vector<Tensor> ordered(const std::vector<NamedTensor>& batch) const {
    std::vector<Tensor> tensors;
    for (Ref r : loss.inputs()) {
      const Node& input = loss.node(r);
      auto named = [&](const NamedTensor& t) { return t.first == input.name; };
      auto found = std::find_if(batch.begin(), batch.end(), named);
      if (found == batch.end())
        fail(ErrorCode::invalid_argument, "the batch has no '", input.name, "' (", input.types[0], ") for graph '",
             loss.name(), "'");
      tensors.push_back(found->second);
    }
    for (const auto& [name, tensor] : batch)
      if (std::none_of(loss.inputs().begin(), loss.inputs().end(), [&](Ref r) { return loss.node(r).name == name; }))
        fail(ErrorCode::not_found, "the batch has '", name, "', which is no input of graph '", loss.name(), "'");
    return tensors;
  }
  std::span<const Tensor> params() const { return std::span(kept).first(trained.size()); }
  size_t first_mean() const { return names.size() - (config.ema > 0 ? trained.size() : 0); }

  /// Whether a step may be made of these numbers; else which node made the first that is none.
  void require_finite(const Tensor& value, std::span<const Tensor> batch) const {
    if (std::isfinite(number(value))) return;
    fail(ErrorCode::invalid_argument, "the loss is ",
         std::isnan(number(value)) ? "nan"
         : number(value) > 0       ? "inf"
                                   : "-inf",
         " at step ", steps + 1, "; ", culprit(batch), ". Nothing was updated");
  }
  /// Runs the loss graph once more, node by node.
  std::string culprit(std::span<const Tensor> batch) const;

  StepResult result(std::span<const Tensor> outputs, double norm) const {
    StepResult r;
    r.loss = number(outputs[0]), r.grad_norm = norm;
    r.outputs.assign(outputs.begin() + 1, outputs.begin() + static_cast<std::ptrdiff_t>(loss.outputs().size()));
    return r;
  }
  /// What is kept becomes what the last outputs are; the old memory is written into next time.
  void advance(std::span<Tensor> outputs) {
    for (size_t i = 0; i < kept.size(); ++i) {
      std::swap(kept[i], outputs[i]);
      spare[i] = std::move(outputs[i]);
    }
    ++steps;
  }

  StepResult fused_step(const std::vector<Tensor>& batch, double rate) {
    std::vector<Tensor> inputs = batch;
    inputs.insert(inputs.end(), params().begin(), params().end());
    inputs.push_back(scalar_tensor(f32, rate));
    inputs.push_back(scalar_tensor(i32, static_cast<double>(steps + 1)));
    inputs.insert(inputs.end(), kept.begin() + static_cast<std::ptrdiff_t>(trained.size()), kept.end());
    size_t own = loss.outputs().size();
    std::vector<Tensor> outputs(own + 1);
    for (Tensor& t : spare) outputs.push_back(std::move(t));
    spare.assign(kept.size(), Tensor());
    fused_graph().run_into(inputs, outputs);
    require_finite(outputs[0], batch);
    inputs.clear();  // so that the old values are unshared
    StepResult r = result(outputs, number(outputs[own]));
    advance(std::span(outputs).subspan(own + 1));
    return r;
  }

  /// The gradients of a batch added to `sums`.
  StepResult add_gradients(const std::vector<Tensor>& batch) {
    std::vector<Tensor> inputs = batch;
    inputs.insert(inputs.end(), params().begin(), params().end());
    if (sums.empty())
      for (const Trained& t : trained) sums.push_back(Tensor(t.type.dtype, shape_of(t.type.dims)));
    inputs.insert(inputs.end(), sums.begin(), sums.end());
    auto outputs = gradient_graph().run_ordered(inputs);
    require_finite(outputs[0], batch);
    size_t own = loss.outputs().size();
    StepResult r = result(outputs, number(outputs[own]));
    std::move(outputs.begin() + static_cast<std::ptrdiff_t>(own) + 1, outputs.end(), sums.begin());
    ++pending;
    return r;
  }
  /// A step by the sums over `pending`; gives the norm of their mean.
  double apply_sums(double rate) {
    std::vector<Tensor> inputs = {scalar_tensor(f32, static_cast<double>(pending)), scalar_tensor(f32, rate),
                                  scalar_tensor(i32, static_cast<double>(steps + 1))};
    inputs.insert(inputs.end(), sums.begin(), sums.end());
    inputs.insert(inputs.end(), kept.begin(), kept.end());
    std::vector<Tensor> outputs(1);
    for (Tensor& t : spare) outputs.push_back(std::move(t));
    spare.assign(kept.size(), Tensor());
    update_graph().run_into(inputs, outputs);
    inputs.clear();
    double norm = number(outputs[0]);
    advance(std::span(outputs).subspan(1));
    sums.clear();
    pending = 0;
    return norm;
  }
};

std::string TrainingSession::State::culprit(std::span<const Tensor> batch) const {
  std::vector<Tensor> inputs(batch.begin(), batch.end());
  inputs.insert(inputs.end(), params().begin(), params().end());
  std::string found = train::first_not_finite(train::forward_graph(loss, trained), inputs, fixed);
  return found.empty() ? "computed again node by node, all numbers are finite" : found;
}

TrainingSession::TrainingSession(const Graph& loss, NamedTensors initial, TrainConfig config, const Session& device)
    : state_(new State{loss, std::move(config), device, {}, {}, {}, {}, {}, {}, 0, 0, {}, {}, {}, {}}) {
  with_context(
      [&] { return text_of("training '", loss.name(), "'"); },
      [&] {
        State& s = *state_;
        if (s.config.clip_norm < 0 || s.config.clip_value < 0)
          fail(ErrorCode::invalid_argument,
               "gradients are clipped at a positive number, got clip_norm = ", s.config.clip_norm,
               ", clip_value = ", s.config.clip_value);
        if (!(s.config.ema >= 0 && s.config.ema < 1))
          fail(ErrorCode::invalid_argument, "ema is ", s.config.ema, "; it goes from 0 to below 1");
        s.trained = train::trained_params(loss, s.config);
        s.names = train::kept_values(s.trained, s.config);
        for (Ref r : loss.params()) {
          const Node& param = loss.node(r);
          auto found = initial.find(param.name);
          if (found == initial.end())
            fail(ErrorCode::invalid_argument, "the param '", param.name, "' (", param.types[0],
                 ") has no initial value");
          if (found->second.type() != param.types[0])
            fail(ErrorCode::shape_mismatch, "the param '", param.name, "' is ", param.types[0], ", its initial value ",
                 found->second.type());
        }
        for (const auto& [name, value] : initial)
          if (std::none_of(loss.params().begin(), loss.params().end(),
                           [&](Ref r) { return loss.node(r).name == name; }))
            fail(ErrorCode::not_found, "there is an initial value for '", name, "', which is no param of graph '",
                 loss.name(), "'");
        for (size_t i = 0; i < s.names.size(); ++i) {
          const Type& type = s.names[i].type;
          bool is_state = i >= s.trained.size() && i < s.first_mean();
          size_t param = i < s.trained.size() ? i : i - s.first_mean();
          s.kept.push_back(is_state ? Tensor(type.dtype, shape_of(type.dims))
                                    : initial.find(s.trained[param].name)->second);
        }
        s.spare.assign(s.kept.size(), Tensor());
        for (auto& [name, value] : initial)
          if (std::none_of(s.trained.begin(), s.trained.end(), [&](const Trained& t) { return t.name == name; }))
            s.fixed[name] = std::move(value);
        // What cannot be compiled is said now, not at the first step.
        if (s.config.fused) s.fused_graph();
        else s.gradient_graph(), s.update_graph();
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
    r = s.add_gradients(inputs);
    r.grad_norm = s.apply_sums(rate);
  }
  r.learning_rate = rate, r.step = s.steps, r.path = update_path();
  return r;
}
StepResult TrainingSession::accumulate(const std::vector<NamedTensor>& batch) {
  StepResult r = state_->add_gradients(state_->ordered(batch));
  r.learning_rate = state_->config.learning_rate.at(state_->steps + 1);
  r.step = state_->steps, r.path = UpdatePath::gradient;
  return r;
}
int64_t TrainingSession::pending_accumulation() const { return state_->pending; }
int64_t TrainingSession::step_accumulated() {
  State& s = *state_;
  if (s.pending == 0) fail(ErrorCode::invalid_argument, "no gradients wait; call accumulate() first");
  int64_t count = s.pending;
  s.apply_sums(s.config.learning_rate.at(s.steps + 1));
  return count;
}

std::vector<Tensor> TrainingSession::evaluate(const std::vector<NamedTensor>& batch, bool averaged) {
  State& s = *state_;
  auto inputs = s.ordered(batch);
  if (averaged) {
    NamedTensors means = averaged_params();
    for (const Trained& t : s.trained) inputs.push_back(means.find(t.name)->second);
  } else {
    inputs.insert(inputs.end(), s.params().begin(), s.params().end());
  }
  return s.forward_graph().run_ordered(inputs);
}

Tensor TrainingSession::param(const std::string& name) const {
  const State& s = *state_;
  for (size_t i = 0; i < s.trained.size(); ++i)
    if (s.trained[i].name == name) return s.kept[i];
  if (auto found = s.fixed.find(name); found != s.fixed.end()) return found->second;
  fail(ErrorCode::not_found, "graph '", s.loss.name(), "' has no param '", name, "'");
}
NamedTensors TrainingSession::params() const {
  NamedTensors all = state_->fixed;
  for (size_t i = 0; i < state_->trained.size(); ++i) all[state_->trained[i].name] = state_->kept[i];
  return all;
}
NamedTensors TrainingSession::averaged_params() const {
  const State& s = *state_;
  if (s.config.ema == 0)
    fail(ErrorCode::invalid_argument, "this session keeps no moving mean: set `ema` in its config");
  NamedTensors means;
  for (size_t i = 0; i < s.trained.size(); ++i) means[s.trained[i].name] = s.kept[s.first_mean() + i];
  return means;
}
int64_t TrainingSession::steps() const { return state_->steps; }
bool TrainingSession::fused_active() const { return state_->config.fused; }
const TrainConfig& TrainingSession::config() const { return state_->config; }
const DispatchReport& TrainingSession::report() const {
  return state_->config.fused ? state_->fused_graph().report() : state_->gradient_graph().report();
}

// ---- checkpoints ----
namespace {

constexpr std::string_view kFormat = "rlx training 1", kNote = "note/";

/// By which rule each param steps, one a line.
std::string rules_of(const std::vector<Trained>& trained) {
  std::string text;
  for (const Trained& t : trained) {
    Attrs attrs = std::visit([](const auto& a) { return Attrs(a); }, t.rule);
    std::ostringstream line;
    print(line << t.name << ": " << op_of(t.rule).name << " ", attrs);
    text += text_of(line.str(), " at ", t.lr_scale, " times the rate\n");
  }
  return text;
}
Tensor owned(Tensor t) {
  t.mutable_data();  // what is borrowed is copied
  return t;
}
/// The first line in which two texts differ, of each.
std::pair<std::string, std::string> first_difference(const std::string& a, const std::string& b) {
  std::istringstream lines_a(a), lines_b(b);
  std::string one, other;
  do {
    if (!std::getline(lines_a, one)) one = "nothing";
    if (!std::getline(lines_b, other)) other = "nothing";
  } while (one == other && one != "nothing");
  return {one, other};
}

}  // namespace

void TrainingSession::save(const std::string& path, const Notes& notes) const {
  const State& s = *state_;
  if (s.pending > 0)
    fail(ErrorCode::invalid_argument, "the gradients of ", s.pending, " batches wait, and a checkpoint does not keep ",
         "them; call step_accumulated() first");
  NamedTensors tensors = s.fixed;
  for (size_t i = 0; i < s.names.size(); ++i) tensors[s.names[i].name] = s.kept[i];
  SafetensorsFile::Metadata metadata = {
      {"format", std::string(kFormat)}, {"steps", std::to_string(s.steps)}, {"rules", rules_of(s.trained)}};
  for (const auto& [name, text] : notes) metadata[std::string(kNote) + name] = text;
  write_safetensors(path, tensors, metadata);
}

TrainingSession::Notes TrainingSession::load(const std::string& path) {
  return with_context(
      [&] { return text_of("loading the checkpoint '", path, "'"); },
      [&] {
        State& s = *state_;
        auto file = SafetensorsFile::open(path);
        auto metadata = [&](const std::string& key) -> const std::string& {
          auto found = file.metadata().find(key);
          if (found == file.metadata().end())
            fail(ErrorCode::parse, "it has no '", key, "' in its metadata: no training session wrote it");
          return found->second;
        };
        if (metadata("format") != kFormat)
          fail(ErrorCode::parse, "its format is '", metadata("format"), "'; this is '", kFormat, "'");
        if (std::string rules = rules_of(s.trained); metadata("rules") != rules) {
          auto [theirs, ours] = first_difference(metadata("rules"), rules);
          fail(ErrorCode::invalid_argument, "it was trained as '", theirs, "', this session as '", ours, "'");
        }
        int64_t steps = 0;
        const std::string& text = metadata("steps");
        if (auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), steps);
            error != std::errc() || end != text.data() + text.size() || steps < 0)
          fail(ErrorCode::parse, "its number of steps is '", text.substr(0, 40), "'");
        // Copies: the file may be replaced by the next checkpoint.
        std::vector<Tensor> kept;
        for (const auto& [name, type] : s.names)
          kept.push_back(owned(file.tensor(name, type.dtype, shape_of(type.dims))));
        NamedTensors fixed;
        for (const auto& [name, value] : s.fixed) fixed[name] = owned(file.tensor(name, value.dtype(), value.shape()));
        for (const auto& entry : file.entries())
          if (!fixed.contains(entry.name) &&
              std::none_of(s.names.begin(), s.names.end(), [&](const auto& n) { return n.name == entry.name; }))
            fail(ErrorCode::invalid_argument, "it has '", entry.name, "', which this session has not");
        s.kept = std::move(kept), s.fixed = std::move(fixed), s.steps = steps;
        s.sums.clear(), s.pending = 0;
        for (auto* graph : {&s.forward, &s.gradients, &s.update, &s.fused})
          if (*graph)
            for (const auto& param : (*graph)->signature().params)
              (*graph)->set_param(param.name, s.fixed.find(param.name)->second);
        Notes notes;
        for (const auto& [key, value] : file.metadata())
          if (key.starts_with(kNote)) notes[key.substr(kNote.size())] = value;
        return notes;
      });
}

}  // namespace rlx

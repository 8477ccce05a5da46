// How a training session steps; see the header.
#include "train/session_state.h"

#include <cmath>
#include <iterator>

#include "ir/rewrite.h"
#include "passes/mixed_precision.h"
#include "reference/interpreter.h"
#include "rlx/element.h"
#include "runtime/tensor_on_device.h"
#include "train/curvature.h"
#include "train/finite.h"
#include "train/segments.h"

namespace rlx {
namespace {

constexpr double kLeastLossScale = 0x1p-40;  // gradients that overflow even then are infinite

Tensor scalar_tensor(DType dtype, double value) {
  Tensor t(dtype, {});
  if (is_float(dtype)) store<double>(t, 0, value);
  else store<int64_t>(t, 0, static_cast<int64_t>(value));
  return t;
}
double number(const Tensor& t) { return load_number(t, 0); }

/// Borrows, so that the owner may still be told that it is the only one.
Tensor view_of(const Tensor& t) { return Tensor::borrow(t.dtype(), t.shape(), t.bytes()); }

}  // namespace

TrainingLoss TrainingSession::State::made_loss(const Graph& given) const {
  DType compute = config.precision.compute;
  Graph computed = compute == f32 ? given : in_mixed_precision(given, compute, MixedFor::training);
  Graph learned = train::in_segments(computed, config.checkpoints);
  return {given, std::move(computed), std::move(learned)};
}

CompiledGraph& TrainingSession::State::compiled(std::optional<CompiledGraph>& graph, const std::function<Graph()>& make,
                                                bool updates) {
  if (graph) return *graph;
  Graph g = make();
  CompileOptions options = config.compile;
  for (Ref r : g.inputs())
    for (const Output& o : g.outputs())
      if (const std::string& input = g.node(r).name; updates && input == o.name) options.donate.insert(input);
  CompiledGraph made = device.compile(g, options);
  for (const auto& param : made.signature().params) made.set_param(param.name, fixed.find(param.name)->second);
  return graph.emplace(std::move(made));
}
CompiledGraph& TrainingSession::State::forward_graph() {
  return compiled(loss().forward, [&] { return train::forward_graph(loss().computed, layout); });
}
CompiledGraph& TrainingSession::State::gradient_graph() {
  return compiled(loss().gradients, [&] { return train::gradient_graph(loss().learned, layout, config); });
}
CompiledGraph& TrainingSession::State::update_graph() {
  return compiled(update, [&] { return train::update_graph(layout, config); });
}
CompiledGraph& TrainingSession::State::fused_graph() {
  return compiled(loss().fused, [&] { return train::fused_graph(loss().learned, layout, config); });
}
CompiledGraph& TrainingSession::State::curvature_graph() {
  // In the precision of the params: products of gradients with random vectors have no scale to save them. The old
  // curvature stays, for a step that is skipped.
  return compiled(
      loss().curvature, [&] { return train::curvature_graph(loss().given, layout, config.optimizer.hessian); }, false);
}
void TrainingSession::State::compile_step() {
  if (config.fused) fused_graph();
  else gradient_graph(), update_graph();
}
std::vector<CompiledGraph*> TrainingSession::State::all_compiled() {
  std::vector<CompiledGraph*> all;
  auto add = [&](std::optional<CompiledGraph>& g) {
    if (g) all.push_back(&*g);
  };
  for (TrainingLoss& l : losses) add(l.forward), add(l.gradients), add(l.fused), add(l.curvature);
  add(update);
  return all;
}
void TrainingSession::State::bind_fixed() {
  for (CompiledGraph* graph : all_compiled())
    for (const auto& param : graph->signature().params) graph->set_param(param.name, fixed.find(param.name)->second);
}

Tensor TrainingSession::State::key(int64_t step, int64_t part) const {
  Tensor key = Tensor::of<uint32_t>(
      {2}, {static_cast<uint32_t>(config.seed >> 32), static_cast<uint32_t>(config.seed & 0xffffffffu)});
  for (int64_t data : {step, part})
    key = run_op(op::fold_in, {}, std::vector{key, Tensor::scalar(static_cast<uint32_t>(data))})[0];
  return key;
}

std::vector<Tensor> TrainingSession::State::ordered(const std::vector<NamedTensor>& batch) const {
  const Graph& g = loss().given;
  std::vector<Tensor> tensors;
  for (Ref r : g.inputs()) {
    const Node& input = g.node(r);
    auto named = [&](const NamedTensor& t) { return t.first == input.name; };
    auto found = std::find_if(batch.begin(), batch.end(), named);
    if (found != batch.end()) tensors.push_back(found->second);
    else if (input.name == config.key_input) tensors.push_back(key(steps + 1, pending));
    else
      fail(ErrorCode::invalid_argument, "the batch has no '", input.name, "' (", input.types[0], ") for graph '",
           g.name(), "'");
  }
  for (size_t i = 0; i < batch.size(); ++i)
    for (size_t j = 0; j < i; ++j)
      if (batch[i].first == batch[j].first)
        fail(ErrorCode::invalid_argument, "the batch has '", batch[i].first, "' twice");
  for (const auto& [given, tensor] : batch)
    if (std::none_of(g.inputs().begin(), g.inputs().end(),
                     [&, &wanted = given](Ref r) { return g.node(r).name == wanted; }))
      fail(ErrorCode::not_found, "the batch has '", given, "', which is no input of graph '", g.name(), "'");
  solve_symbols(g, tensors);  // checks the types
  return tensors;
}

void TrainingSession::State::require_whole() const {
  if (is_damaged)
    fail(ErrorCode::invalid_argument,
         "an earlier step failed while it wrote, so that the params may be half updated; load a checkpoint");
}

void TrainingSession::State::require_means() const {
  if (!layout.has_means)
    fail(ErrorCode::invalid_argument, "this session keeps no moving mean: set `ema` in its config");
}
train::Placed TrainingSession::State::placed(Tensor value) const {
  if (has_own_memory) return device_put(value, device.device());
  return value;
}
PendingRun TrainingSession::State::submitted(const CompiledGraph& graph, std::span<const train::Placed> inputs) const {
  std::vector<DeviceTensor> given;
  for (const train::Placed& in : inputs)
    given.push_back(in.there.is_empty() ? device_put(in.host, device.device()) : in.there);
  return graph.submit(given);
}
std::vector<train::Placed> TrainingSession::State::run(const CompiledGraph& graph,
                                                       std::vector<train::Placed> inputs) const {
  if (has_own_memory) {
    const PendingRun run = submitted(graph, inputs);
    return {run.outputs().begin(), run.outputs().end()};
  }
  std::vector<Tensor> given;
  for (train::Placed& in : inputs) given.push_back(std::move(in.host));
  std::vector<Tensor> made = graph.run_ordered(given);
  return {std::make_move_iterator(made.begin()), std::make_move_iterator(made.end())};
}

std::vector<Tensor> TrainingSession::State::run_updating(CompiledGraph& graph, std::vector<train::Placed> inputs,
                                                         std::span<train::Placed* const> places) {
  require_whole();
  return has_own_memory ? run_updating_on_device(graph, std::move(inputs), places)
                        : run_updating_on_host(graph, std::move(inputs), places);
}

std::vector<Tensor> TrainingSession::State::run_updating_on_device(CompiledGraph& graph,
                                                                   std::vector<train::Placed> inputs,
                                                                   std::span<train::Placed* const> places) {
  for (train::Placed* place : places) inputs.push_back(*place);
  const size_t before = graph.signature().outputs.size() - places.size();
  const PendingRun run = submitted(graph, inputs);  // what cannot begin leaves the inputs as they are
  spare_bytes = 0;
  for (size_t i = 0; i < places.size(); ++i) {
    places[i]->there = run.outputs()[before + i];
    if (!graph.updates_in_place()) spare_bytes += places[i]->byte_count();
  }
  const auto doing = [&](size_t o) {
    return text_of("reading output '", graph.signature().outputs[o].name, "' of a step of '", name, "' on ",
                   device.device());
  };
  try {
    std::vector<Tensor> outputs;
    for (const auto& t : read_all(std::span(run.outputs()).first(before - 1), nullptr, doing))
      outputs.push_back(std::move(*t));
    return outputs;
  } catch (...) {
    is_damaged = true;  // the old values were given to the run, and nobody saw what became of them
    throw;
  }
}

std::vector<Tensor> TrainingSession::State::run_updating_on_host(CompiledGraph& graph,
                                                                 std::vector<train::Placed> inputs,
                                                                 std::span<train::Placed* const> places) {
  const size_t before = graph.signature().outputs.size() - places.size();
  // Where the device does not, the old values stay until the new ones are there.
  const bool in_place = graph.updates_in_place();
  std::vector<Tensor> given, outputs(before);
  for (train::Placed& in : inputs) given.push_back(std::move(in.host));
  std::vector<const std::byte*> where;
  for (train::Placed* place : places) {
    Tensor& value = place->host;
    where.push_back(value.data());
    given.push_back(in_place ? view_of(value) : value);
    outputs.push_back(in_place ? std::move(value) : Tensor());
  }
  auto take = [&] {
    for (size_t i = 0; i < places.size(); ++i) places[i]->host = std::move(outputs[before + i]);
  };
  try {
    graph.run_into(given, outputs);
  } catch (...) {
    if (in_place) take(), is_damaged = true;
    throw;
  }
  take();
  spare_bytes = 0;
  for (size_t i = 0; i < places.size(); ++i)
    if (places[i]->host.data() != where[i]) spare_bytes += places[i]->byte_count();
  outputs.resize(before - 1);
  return outputs;
}

void TrainingSession::State::fail_not_finite(std::string_view what, double value, std::span<const Tensor> batch) const {
  // Once more, node by node: forward, and if that finds nothing, forward and back.
  std::vector<Tensor> inputs(batch.begin(), batch.end()), params;
  for (const auto& part : {trained(), written()})
    for (const train::Placed& kept_value : part) params.push_back(kept_value.to_host());
  inputs.insert(inputs.end(), params.begin(), params.end());
  std::string found = train::first_not_finite(train::forward_graph(loss().computed, layout), 0, inputs, fixed);
  if (found.empty()) {
    inputs.assign(batch.begin(), batch.end());
    if (train::is_scaled(config)) inputs.push_back(scalar_tensor(f32, scale));
    inputs.insert(inputs.end(), params.begin(), params.end());
    for (const train::Trained& t : layout.trained) inputs.push_back(Tensor(t.type.dtype, shape_of(t.type.dims)));
    const size_t norm = loss().given.outputs().size();
    found = train::first_not_finite(train::gradient_graph(loss().computed, layout, config), norm, inputs, fixed);
  }
  fail(ErrorCode::invalid_argument, what, " is ", train::name_of_not_finite(value), " at step ", steps + 1, "; ",
       found.empty() ? "computed again node by node, all numbers are finite" : found, ". Nothing was updated");
}

bool TrainingSession::State::must_skip(const StepResult& r, std::span<const Tensor> batch) {
  if (!std::isfinite(r.loss)) fail_not_finite("the loss", r.loss, batch);
  if (std::isfinite(r.grad_norm)) return false;
  if (!train::is_scaled(config) || scale * config.precision.backoff < kLeastLossScale)
    fail_not_finite("the gradients' norm", r.grad_norm, batch);
  scale *= config.precision.backoff, since_overflow = 0;
  return true;
}
void TrainingSession::State::note_good_step() {
  ++steps;
  if (!train::is_scaled(config) || ++since_overflow < config.precision.growth_interval) return;
  double grown = scale * config.precision.growth;
  if (std::isfinite(static_cast<float>(grown))) scale = grown;
  since_overflow = 0;
}

StepResult TrainingSession::State::result(std::span<const Tensor> outputs, size_t own) const {
  StepResult r;
  r.loss = number(outputs[0]), r.grad_norm = number(outputs[own]), r.loss_scale = scale;
  r.outputs.assign(outputs.begin() + 1, outputs.begin() + static_cast<std::ptrdiff_t>(own));
  return r;
}

std::vector<train::Placed> TrainingSession::State::estimate_curvature(const std::vector<Tensor>& batch) {
  auto places = train::curvature_states(layout);
  if (places.empty() || steps % config.optimizer.hessian.every != 0) return {};
  std::vector<train::Placed> inputs(batch.begin(), batch.end()), before;
  inputs.push_back(key(steps + 1, 0xffffffff));
  inputs.insert(inputs.end(), trained().begin(), trained().end());
  inputs.insert(inputs.end(), written().begin(), written().end());
  for (size_t p : places) inputs.push_back(kept[p]), before.push_back(kept[p]);
  auto now = run(curvature_graph(), std::move(inputs));
  for (size_t i = 0; i < places.size(); ++i) kept[places[i]] = std::move(now[i]);
  return before;
}
void TrainingSession::State::restore_curvature(std::vector<train::Placed> before) {
  auto places = train::curvature_states(layout);
  for (size_t i = 0; i < before.size(); ++i) kept[places[i]] = std::move(before[i]);
}

StepResult TrainingSession::State::fused_step(const std::vector<Tensor>& batch, double rate) {
  auto before = estimate_curvature(batch);
  try {
    std::vector<train::Placed> inputs(batch.begin(), batch.end());
    if (train::is_scaled(config)) inputs.push_back(scalar_tensor(f32, scale));
    inputs.push_back(scalar_tensor(f32, rate));
    inputs.push_back(scalar_tensor(i32, static_cast<double>(steps + 1)));
    std::vector<train::Placed*> places;
    for (train::Placed& value : kept) places.push_back(&value);
    auto outputs = run_updating(fused_graph(), std::move(inputs), places);
    StepResult r = result(outputs, loss().given.outputs().size());
    r.skipped = must_skip(r, batch);
    if (r.skipped) restore_curvature(std::move(before));
    else note_good_step();
    return r;
  } catch (...) {
    restore_curvature(std::move(before));
    throw;
  }
}

StepResult TrainingSession::State::add_gradients(const std::vector<Tensor>& batch) {
  std::vector<train::Placed> inputs(batch.begin(), batch.end());
  if (train::is_scaled(config)) inputs.push_back(scalar_tensor(f32, scale));
  inputs.insert(inputs.end(), trained().begin(), trained().end());
  if (sums.empty())
    for (const train::Trained& t : layout.trained) sums.push_back(placed(Tensor(t.type.dtype, shape_of(t.type.dims))));
  std::vector<train::Placed*> places;
  for (size_t w = layout.first_written; w < kept.size(); ++w) places.push_back(&kept[w]);
  for (train::Placed& sum : sums) places.push_back(&sum);
  auto outputs = run_updating(gradient_graph(), std::move(inputs), places);
  StepResult r = result(outputs, loss().given.outputs().size());
  r.skipped = must_skip(r, batch);
  if (!r.skipped) ++pending;
  return r;
}

double TrainingSession::State::apply_sums(double rate) {
  std::vector<train::Placed> inputs = {scalar_tensor(f32, static_cast<double>(pending)), scalar_tensor(f32, rate),
                                       scalar_tensor(i32, static_cast<double>(steps + 1))};
  inputs.insert(inputs.end(), sums.begin(), sums.end());
  std::vector<train::Placed*> places;
  for (size_t i = 0; i < layout.first_written; ++i) places.push_back(&kept[i]);
  auto outputs = run_updating(update_graph(), std::move(inputs), places);
  double norm = number(outputs[0]);
  if (!std::isfinite(norm))
    fail(ErrorCode::invalid_argument, "the norm of the mean of ", pending, " gradients is ",
         train::name_of_not_finite(norm), " at step ", steps + 1,
         ", though each has a finite one. Nothing was updated");
  sums.clear(), pending = 0;
  note_good_step();
  return norm;
}

}  // namespace rlx

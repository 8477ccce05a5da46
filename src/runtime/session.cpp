// Sessions and compiled graphs; see the header.
#include "rlx/session.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <mutex>

#include "backends/registry.h"
#include "compile/split_compile.h"
#include "ir/leaves.h"
#include "runtime/artifact.h"
#include "runtime/compiled_state.h"
#include "runtime/program_cache.h"
#include "runtime/tensor_on_device.h"

namespace rlx {

Signature signature_of(const Graph& g) {
  Signature s;
  for (Ref r : g.inputs()) s.inputs.push_back({g.node(r).name, g.type(r)});
  for (Ref r : g.params()) s.params.push_back({g.node(r).name, g.type(r)});
  for (const Output& o : g.outputs()) s.outputs.push_back({o.name, g.type(o.ref)});
  s.modes.resize(s.inputs.size(), ArgumentMode::read);
  s.is_update.resize(s.outputs.size());
  return s;
}
std::vector<Layer> layers_of(const Graph& g) {
  std::vector<Layer> layers;
  for (const Node& node : g.nodes()) {
    if (node.name.empty() || node.op == &op::input || node.op == &op::param) continue;
    auto found = std::find_if(layers.begin(), layers.end(), [&](const Layer& l) { return l.name == node.name; });
    if (found == layers.end()) found = layers.insert(layers.end(), {node.name, {}});
    found->ops.emplace_back(node.op->name);
  }
  return layers;
}

void CompiledGraph::State::compile() {
  if (compiled.load(std::memory_order_acquire)) return;
  std::scoped_lock lock(compiling);
  if (compiled.load(std::memory_order_relaxed)) return;
  if (!program) program = cache->find_or_make(graph, backend, options);
  LoadOptions load;
  load.threads = most_threads;
  load.exact = options.accuracy == Accuracy::exact;
  load.row_relative = options.accuracy == Accuracy::row_relative;
  load.batch_invariant = options.batch_invariant;
  load.int8 = options.compute == Compute::as_i8;
  load.narrow = options.narrow;
  load.bounds = options.bounds;
  for (const auto& input : signature.inputs) load.donated.push_back(options.donate.contains(input.name));
  if (!options.cache_dir.empty()) load.keep_in = (std::filesystem::path(options.cache_dir) / program->key).string();
  executable = program->program->load(load);
  on_host = dynamic_cast<HostExecutable*>(executable.get());
  on_device = dynamic_cast<DeviceExecutable*>(executable.get());
  memory = backend->memory();
  if (!on_host && (!on_device || !memory))
    fail(ErrorCode::internal, "the backend of ", device,
         " gives executables that run neither in the host's memory nor in its own");
  updates_in_place = backend->target().updates_in_place && program->report.count(Verdict::interpreted) == 0 &&
                     program->program->updates_in_place(options.donate);
  try {
    for (const auto& [name, value] : waiting) bind(name, value);
  } catch (...) {
    on_host = nullptr, on_device = nullptr;
    executable.reset();  // the next try begins anew, with the params that are bound by then
    throw;
  }
  waiting.clear();
  compiled.store(true, std::memory_order_release);
}

void CompiledGraph::State::bind(const std::string& name, const std::variant<Tensor, DeviceTensor>& value) {
  if (on_host) {
    const auto* tensor = std::get_if<Tensor>(&value);
    return on_host->bind(name, tensor ? *tensor : std::get<DeviceTensor>(value).to_host());
  }
  const auto* there = std::get_if<DeviceTensor>(&value);
  if (!there && on_device->bind_from_host(name, std::get<Tensor>(value))) return;
  const std::string doing = text_of("binding param '", name, "' of '", graph.name(), "' on ", device);
  const DeviceTensor tensor = there ? *there : put_on_device(std::get<Tensor>(value), device, nullptr, doing);
  TensorOnDevice& t = *tensor.on_device();
  std::scoped_lock lock(t.mutex);
  with_context(doing, [&] { t.require_there(); });
  t.is_param = true;
  on_device->bind(name, t.argument(), t.ready);
}

namespace {

template <class Entries>
const Signature::Entry& find_entry(const Entries& entries, const std::string& name, std::string_view what,
                                   const std::string& graph) {
  for (const auto& entry : entries)
    if (entry.name == name) return entry;
  std::string list;
  size_t shown = 0;
  for (const auto& entry : entries) {
    if (++shown > 12) {
      list += ", ...";
      break;
    }
    list += (list.empty() ? "" : ", ") + entry.name;
  }
  fail(ErrorCode::not_found, "graph '", graph, "' has no ", what, " '", name, "'; it has ",
       list.empty() ? "none" : list);
}

void check_options(const CompileOptions& options, const Signature& signature, const std::string& graph) {
  for (const std::string& name : options.donate) find_entry(signature.inputs, name, "input", graph);
  for (const auto* names : {&options.force_common, &options.force_native})
    for (const std::string& name : *names) find_op(name);
}

/// What becomes of each input, which is donated or not; pairs what is updated.
void set_modes(CompiledGraph::State& state) {
  auto& [inputs, params, outputs, modes, is_update] = state.signature;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!state.options.donate.contains(inputs[i].name)) continue;
    modes[i] = ArgumentMode::donated;
    for (size_t o = 0; o < outputs.size(); ++o)
      if (outputs[o].name == inputs[i].name && outputs[o].type == inputs[i].type) {
        modes[i] = ArgumentMode::update, is_update[o] = true;
        state.pairs.push_back({i, o});
        break;
      }
  }
  for (size_t i = 0; i < inputs.size(); ++i)
    if (modes[i] != ArgumentMode::update) state.free_inputs.push_back(i);
  for (size_t o = 0; o < outputs.size(); ++o)
    if (!is_update[o]) state.free_outputs.push_back(o);
}

}  // namespace

namespace {

void set_any_param(CompiledGraph::State& state, const std::string& name, std::variant<Tensor, DeviceTensor> value) {
  const auto& entry = find_entry(state.signature.params, name, "param", state.graph.name());
  if (const Type given = std::visit([](const auto& v) { return v.type(); }, value); given != entry.type)
    fail(ErrorCode::shape_mismatch, "param '", name, "' is ", entry.type, ", got ", given);
  if (state.executable) state.bind(name, value);
  else state.waiting.insert_or_assign(name, std::move(value));
  state.unbound.erase(name);
  if (state.options.mode == CompileMode::aot && state.unbound.empty()) state.executable->prepare();
}

}  // namespace

void CompiledGraph::set_param(const std::string& name, Tensor value) { set_any_param(*state_, name, std::move(value)); }
void CompiledGraph::set_param(const std::string& name, const DeviceTensor& value) {
  if (value.device() != state_->device)
    fail(ErrorCode::invalid_argument, "param '", name, "' is on ", value.device(), "; '", state_->graph.name(),
         "' was compiled for ", state_->device);
  state_->compile();  // the elements are taken now: a later write does not change the param
  set_any_param(*state_, name, value);
}
void CompiledGraph::set_params(const std::map<std::string, Tensor, std::less<>>& values) {
  for (const auto& [name, value] : values) set_param(name, value);
}
bool CompiledGraph::all_params_bound() const { return state_->unbound.empty(); }

Shape CompiledGraph::param_shape(const std::string& name) const {
  return shape_of(find_entry(state_->signature.params, name, "param", state_->graph.name()).type.dims);
}
Shape CompiledGraph::input_shape(const std::string& name) const {
  return shape_of(find_entry(state_->signature.inputs, name, "input", state_->graph.name()).type.dims);
}

std::vector<Tensor> CompiledGraph::ordered(const std::vector<NamedTensor>& inputs, bool without_state) const {
  const auto& entries = state_->signature.inputs;
  std::vector<Tensor> result;
  result.reserve(entries.size());
  for (size_t i = 0; i < entries.size(); ++i) {
    const auto& entry = entries[i];
    if (without_state && state_->signature.modes[i] == ArgumentMode::update) {
      for (const auto& [name, tensor] : inputs)
        if (name == entry.name)
          fail(ErrorCode::invalid_argument, "input '", name, "' of '", state_->graph.name(),
               "' is in the state: it is not given as well");
      continue;
    }
    const Tensor* found = nullptr;
    for (const auto& [name, tensor] : inputs)
      if (name == entry.name) {
        if (found) fail(ErrorCode::invalid_argument, "input '", name, "' was given twice");
        found = &tensor;
      }
    if (!found) {
      // A name that there is not is what went wrong more often than a forgotten input.
      for (const auto& [name, tensor] : inputs) find_entry(entries, name, "input", state_->graph.name());
      fail(ErrorCode::invalid_argument, "input '", entry.name, "' (", entry.type, ") of '", state_->graph.name(),
           "' was not given");
    }
    result.push_back(*found);
  }
  if (inputs.size() > result.size())
    for (const auto& [name, tensor] : inputs) find_entry(entries, name, "input", state_->graph.name());
  return result;
}

std::vector<Tensor> CompiledGraph::run(const std::vector<NamedTensor>& inputs) const {
  return run_ordered(ordered(inputs));
}
std::vector<Tensor> CompiledGraph::run_ordered(Tensors inputs) const {
  std::vector<Tensor> outputs(state_->signature.outputs.size());
  run_into(inputs, outputs);
  return outputs;
}
void CompiledGraph::run_into(Tensors inputs, std::span<Tensor> outputs) const {
  state_->begin_run();
  if (outputs.size() != state_->signature.outputs.size())
    fail(ErrorCode::invalid_argument, "graph '", state_->graph.name(), "' has ", state_->signature.outputs.size(),
         " outputs, got room for ", outputs.size());
  if (!state_->on_host) {
    if (!ran_from_host(*state_, inputs, outputs, {}, nullptr, nullptr)) run_on_device(state_, inputs, outputs, nullptr);
    return;
  }
  state_->bounds.check(state_->graph, inputs);
  state_->on_host->run(inputs, outputs, {state_->threads.load(std::memory_order_relaxed), nullptr});
}
void CompiledGraph::run_into_memory(Tensors inputs, std::span<const std::span<std::byte>> memory) const {
  state_->begin_run();
  if (memory.size() != state_->signature.outputs.size())
    fail(ErrorCode::invalid_argument, "graph '", state_->graph.name(), "' has ", state_->signature.outputs.size(),
         " outputs, got memory for ", memory.size());
  RunOptions options{state_->threads.load(std::memory_order_relaxed)};
  bool in_place = true;  // all of it starts where an element may
  for (size_t o = 0; o < memory.size(); ++o) {
    DType t = state_->signature.outputs[o].type.dtype;
    size_t wanted = is_byte_sized(t) ? std::min<size_t>(byte_size(t), 8) : 1;
    in_place &= reinterpret_cast<uintptr_t>(memory[o].data()) % wanted == 0;
  }
  if (in_place && !memory.empty() && !state_->on_host && ran_from_host(*state_, inputs, {}, memory, nullptr, nullptr))
    return;
  if (in_place && !memory.empty() && state_->on_host) {
    options.memory = memory;
    state_->bounds.check(state_->graph, inputs);
    return state_->on_host->run(inputs, {}, options);
  }
  std::vector<Tensor> outputs(memory.size());
  run_into(inputs, outputs);
  for (size_t o = 0; o < memory.size(); ++o) {
    if (memory[o].size() != outputs[o].byte_count())
      fail(ErrorCode::shape_mismatch, "output ", o, " of '", state_->graph.name(), "' is ", outputs[o].type(), ", ",
           outputs[o].byte_count(), " bytes; there is room for ", memory[o].size());
    if (!memory[o].empty()) std::memcpy(memory[o].data(), outputs[o].data(), memory[o].size());
  }
}

Profile timed_profile(std::vector<StepTime>& times, const std::function<std::shared_ptr<RunRecord>()>& run) {
  const auto begin = std::chrono::steady_clock::now();
  const auto record = run();
  const auto end = std::chrono::steady_clock::now();
  Profile profile = record->profile();
  profile.total_us = std::chrono::duration<double, std::micro>(end - begin).count();
  for (StepTime& t : times)
    profile.steps.push_back(
        {std::move(t.op), std::move(t.node), std::move(t.kernel), t.start_us + record->run_start_us(), t.duration_us});
  return profile;
}

Profile CompiledGraph::profile(const std::vector<NamedTensor>& inputs) const {
  state_->compile();
  std::vector<StepTime> times;
  std::vector<Tensor> outputs(state_->signature.outputs.size());
  const auto given = ordered(inputs);
  run_into(given, outputs);  // prepares this shape; not timed
  return timed_profile(times, [&] {
    if (!state_->on_host) return run_on_device(state_, given, outputs, &times);
    auto record = std::make_shared<RunRecord>();
    RunOptions how{state_->threads.load(), &times};
    how.observer = record;
    state_->on_host->run(given, outputs, how);
    return record;
  });
}

const DispatchReport& CompiledGraph::report() const {
  state_->compile();
  return state_->program->report;
}
PlacementReport CompiledGraph::placement() const {
  state_->compile();
  return state_->executable->placement();
}
const Graph& CompiledGraph::lowered() const {
  state_->compile();
  return state_->program->program->graph();
}
const Signature& CompiledGraph::signature() const { return state_->signature; }
bool CompiledGraph::updates_in_place() const {
  state_->compile();
  return state_->updates_in_place;
}
bool CompiledGraph::is_compiled() const {
  state_->compile();
  return state_->on_device && state_->on_device->is_compiled();
}
std::vector<Layer> CompiledGraph::layers() const { return layers_of(state_->graph); }
ExecutionConfig CompiledGraph::config() const { return config_of(state_->graph, *state_->backend, state_->options); }
void CompiledGraph::set_threads(int threads) {
  if (threads < 1 || threads > state_->most_threads)
    fail(ErrorCode::invalid_argument, "threads must be 1 to ", state_->most_threads,
         ", which the session was made with; got ", threads);
  state_->threads = threads;
}
int CompiledGraph::threads() const { return state_->threads; }
void CompiledGraph::save(const std::string& path, const std::map<std::string, Tensor, std::less<>>& params) const {
  state_->compile();
  for (const auto& [name, value] : params)
    if (const Type& type = find_entry(state_->signature.params, name, "param", state_->graph.name()).type;
        value.type() != type)
      fail(ErrorCode::shape_mismatch, "param '", name, "' is ", type, ", got ", value.type());
  Artifact artifact = artifact_of(state_->graph, *state_->program->program,
                                  *backend_for(state_->program->report, state_->backend, state_->options.isa),
                                  state_->signature, state_->options, state_->program->report);
  artifact.params = params;
  write_artifact(path, artifact);
}
size_t CompiledGraph::memory_bytes() const {
  state_->compile();
  return state_->executable->memory_bytes();
}

// ---- sessions ----
struct Session::State {
  Device device;
  int threads;
  bool narrow;
  std::shared_ptr<const Backend> backend;
  std::shared_ptr<ProgramCache> cache = std::make_shared<ProgramCache>();
};

Session::Session(Device device, SessionOptions options) {
  auto backend = backend_of(device);
  if (auto why = backend->unavailable(); !why.empty())
    fail(ErrorCode::not_found, "device '", device, "' is not available: ", why);
  if (options.threads < 0 || options.threads > 256)
    fail(ErrorCode::invalid_argument, "threads must be 0 (as many as there are) to 256, got ", options.threads);
  const int threads = options.threads > 0 ? options.threads : backend->threads();
  state_ = std::make_shared<State>(State{std::move(device), threads, options.narrow, std::move(backend)});
}
Device Session::device() const { return state_->device; }
int Session::threads() const { return state_->threads; }

/// Checks the options, and does what they ask to be done at once.
CompiledGraph Session::made(std::shared_ptr<CompiledGraph::State> state) const {
  check_options(state->options, state->signature, state->graph.name());
  state->bounds = ExtentBounds(state->graph, state->options.bounds);
  set_modes(*state);
  for (const auto& param : state->signature.params) state->unbound.insert(param.name);
  if (state->options.mode != CompileMode::lazy) state->compile();
  if (state->options.mode == CompileMode::aot && state->unbound.empty()) state->executable->prepare();
  return CompiledGraph(std::move(state));
}

CompiledGraph Session::compile(const Graph& g, CompileOptions options) const {
  return with_context([&] { return text_of("compiling '", g.name(), "' for ", state_->device); },
                      [&] {
                        options.narrow |= state_->narrow;
                        auto backend = state_->backend;
                        if (!options.isa.empty()) {
                          std::vector<Device> devices = devices_besides(state_->device, options);
                          devices.insert(devices.begin(), state_->device);
                          require_instruction_set(std::move(devices), options.isa);
                          backend = backend_with(state_->device, options.isa);
                        }
                        return made(std::shared_ptr<CompiledGraph::State>(new CompiledGraph::State{
                            g, std::move(options), state_->device, state_->threads, state_->threads, signature_of(g),
                            state_->cache, std::move(backend)}));
                      });
}

CompiledGraph Session::load(const std::string& path) const {
  return with_context([&] { return text_of("loading '", path, "' on ", state_->device); },
                      [&] {
                        Artifact artifact = read_artifact(path);
                        const std::string isa = artifact.info.options.isa;
                        const auto backend = isa.empty() ? state_->backend : backend_with(state_->device, isa);
                        auto program = program_of(artifact, *backend_for(artifact.info.report, backend, isa));
                        Graph source = artifact.source_graph();
                        const Signature signature = signature_of(source);
                        CompileOptions options = artifact.info.options;
                        options.cache_dir = CompileOptions::from_environment().cache_dir;
                        std::shared_ptr<CompiledGraph::State> state(new CompiledGraph::State{
                            std::move(source), std::move(options), state_->device, state_->threads, state_->threads,
                            signature, state_->cache, backend});
                        state->program = std::make_shared<const CachedProgram>(
                            CachedProgram{std::move(program), std::move(artifact.info.report),
                                          config_of(state->graph, *state->backend, state->options).cache_key()});
                        CompiledGraph loaded = made(std::move(state));
                        for (auto& [name, value] : artifact.params) loaded.set_param(name, std::move(value));
                        return loaded;
                      });
}

}  // namespace rlx

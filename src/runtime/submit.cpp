// Runs that go on beside their callers, and runs on devices with memory of their own.
#include <algorithm>
#include <cstring>
#include <utility>

#include "base/event_source.h"
#include "ir/rewrite.h"
#include "runtime/background.h"
#include "runtime/compiled_state.h"
#include "runtime/graph_state.h"
#include "runtime/tensor_on_device.h"

namespace rlx {
namespace {

using SharedTensor = std::shared_ptr<TensorOnDevice>;
using State = CompiledGraph::State;

/// A run on a device that computes in the host's memory: what a thread of the run time needs for it. The tensors are
/// taken when it starts: until then earlier runs may still write them.
struct HostRun {
  std::shared_ptr<State> graph;
  std::vector<SharedTensor> inputs, outputs;
  std::shared_ptr<CancelFlag> cancel;
  std::shared_ptr<RunRecord> record;
  int threads;
  EventSource source;

  void fail_with(std::exception_ptr error) noexcept {
    drop();
    source.fail(std::move(error));
  }
  /// Lets go of the tensors before the event ends, so that whoever waited for it finds them unshared.
  void drop() noexcept { inputs.clear(), outputs.clear(); }

  void put_results(std::vector<Tensor> results) {
    for (size_t o = 0; o < outputs.size(); ++o) {
      std::scoped_lock lock(outputs[o]->mutex);
      outputs[o]->host = std::move(results[o]);
    }
  }
  std::string doing() const { return text_of("running '", graph->graph.name(), "' on ", graph->device); }

  void run(const std::shared_ptr<HostRun>& self) noexcept {
    try {
      if (is_cancelled(cancel.get())) fail(ErrorCode::cancelled, graph->run_text(), " was cancelled before it began");
      source.begin(background_thread());
      std::vector<Tensor> given, results(outputs.size());
      for (size_t i = 0; i < inputs.size(); ++i) {
        std::scoped_lock lock(inputs[i]->mutex);
        given.push_back(graph->is_donated(i) ? std::move(inputs[i]->host) : inputs[i]->host);
        if (graph->is_donated(i)) inputs[i]->host = Tensor();
      }
      RunOptions options{threads};
      options.cancel = cancel.get();
      options.observer = record;
      const auto done = [self](std::vector<Tensor> made, std::exception_ptr error) {
        if (error) return self->fail_with(error);
        self->finish(std::move(made));
      };
      if (graph->on_host->begin(given, options, done)) return;
      if (graph->updates_in_place)
        for (const State::Pair& pair : graph->pairs) {
          // The output is handed the memory, so that it may be told that it alone has it.
          results[pair.output] = std::move(given[pair.input]);
          Tensor& old = results[pair.output];
          given[pair.input] = Tensor::borrow(old.dtype(), old.shape(), old.bytes());
        }
      std::vector<const std::byte*> places;
      for (const Tensor& t : results) places.push_back(t.element_count() ? t.data() : nullptr);
      with_context([&] { return doing(); }, [&] { graph->on_host->run(given, results, options); });
      for (size_t o = 0; o < results.size(); ++o)  // who found its memory shared or borrowed wrote elsewhere
        if (places[o] && places[o] != results[o].data()) record->count(&Transfers::donated_copies);
      given.clear();
      finish(std::move(results));
    } catch (...) {
      fail_with(std::current_exception());
    }
  }
  void finish(std::vector<Tensor> results) noexcept {
    try {
      put_results(std::move(results));
    } catch (...) {
      return fail_with(std::current_exception());
    }
    drop();
    source.finish();
  }
};

std::string feeding_text(const State& state, size_t input) {
  // One more than the graph has is refused when the run is begun.
  const bool has_name = input < state.signature.inputs.size();
  return text_of("feeding input '", has_name ? state.signature.inputs[input].name : text_of(input), "' of ",
                 state.run_text());
}
std::string reading_text(const State& state, size_t output) {
  return text_of("reading output '", state.signature.outputs[output].name, "' of ", state.run_text());
}

/// The tensors of a submission, locked in an order that is the same for every thread.
class Locked {
 public:
  explicit Locked(std::vector<TensorOnDevice*> tensors) {
    std::sort(tensors.begin(), tensors.end());
    tensors.erase(std::unique(tensors.begin(), tensors.end()), tensors.end());
    for (TensorOnDevice* t : tensors) locks_.emplace_back(t->mutex);
  }

 private:
  std::vector<std::unique_lock<std::mutex>> locks_;
};

/// The types of the outputs for inputs of these types; fails naming the input that does not fit.
std::vector<Type> types_of_outputs(const State& state, std::span<const DeviceTensor> inputs) {
  const Graph& g = state.graph;
  std::vector<Type> given;
  for (const DeviceTensor& t : inputs) given.push_back(t.type());
  state.bounds.check(g, given);
  const Bindings bindings = solve_symbols(g, given);
  std::vector<Type> types = g.output_types();
  for (Type& t : types)
    for (Dim& d : t.dims) d = d.bound(bindings);
  return types;
}

/// Inputs of the graph on its device, all or those at `positions`.
std::vector<DeviceTensor> fed(const State& state, Tensors inputs, RunRecord& record,
                              std::span<const size_t> positions = {}) {
  std::vector<DeviceTensor> given;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const std::string doing = feeding_text(state, i < positions.size() ? positions[i] : i);
    given.push_back(put_on_device(inputs[i], state.device, &record, doing));
  }
  return given;
}

void check_places(const State& state, std::span<const DeviceTensor> inputs) {
  for (size_t i = 0; i < inputs.size(); ++i) {
    const std::string& name = state.signature.inputs[i].name;
    if (inputs[i].device() != state.device)
      fail(ErrorCode::invalid_argument, "input '", name, "' is on ", inputs[i].device(), "; '", state.graph.name(),
           "' was compiled for ", state.device);
    for (size_t k = 0; k < inputs.size() && state.is_donated(i); ++k)
      if (k != i && inputs[k].on_device() == inputs[i].on_device())
        fail(ErrorCode::invalid_argument, "input '", name, "' is donated, and its tensor is input '",
             state.signature.inputs[k].name, "' as well");
  }
}

/// What a tensor's user waits for before it may read, or (`writes`) overwrite it. With its lock.
void add_events(const TensorOnDevice& t, bool writes, std::vector<Event>& after) {
  if (!t.ready.is_done() || t.ready.error()) after.push_back(t.ready);
  if (!writes) return;
  for (const Event& reader : t.readers)
    if (!reader.is_done()) after.push_back(after_end(reader));
}

/// Fails if a param that a run reads is not bound: behind the launch it would be too late for what is donated.
void require_params(const State& state) {
  if (state.unbound.empty()) return;
  const Graph& g = state.program->program->graph();
  for (Ref r : g.params())
    if (state.unbound.contains(g.node(r).name))
      fail(ErrorCode::invalid_argument, "param '", g.node(r).name, "' (", g.type(r), ") of '", state.graph.name(),
           "' is not bound; bind it with set_param before the first run");
}

/// What is noted of the inputs once the run has begun. All memory is taken before: a run that has begun is noted.
class Marks {
 public:
  Marks(const State& state, std::span<TensorOnDevice* const> inputs) : inputs_(inputs), why_gone_(inputs.size()) {
    for (size_t i = 0; i < inputs.size(); ++i) {
      std::vector<Event>& readers = inputs[i]->readers;
      std::erase_if(readers, [](const Event& e) { return e.is_done(); });
      readers.reserve(readers.size() + inputs.size());  // one tensor may be several inputs
      if (state.is_donated(i))
        why_gone_[i] =
            text_of("it was donated to ", state.run_text(), " as input '", state.signature.inputs[i].name, "'");
    }
  }
  void set(const Event& run) noexcept {
    for (size_t i = 0; i < inputs_.size(); ++i) {
      TensorOnDevice& t = *inputs_[i];
      if (!why_gone_[i].empty()) {
        t.gone.swap(why_gone_[i]);
        t.buffer = {};
        t.readers.clear();
      }
      t.readers.push_back(run);  // of a donated one too: who writes it anew waits until the run has taken the elements
    }
  }

 private:
  std::span<TensorOnDevice* const> inputs_;
  std::vector<std::string> why_gone_;
};

/// Begins the run on the device, whose tensors are locked: gives the outputs their memory.
Event launched(const State& state, std::span<TensorOnDevice* const> given, std::span<const SharedTensor> outputs,
               const LaunchOptions& options, std::vector<Event> after, RunRecord& record) {
  std::vector<DeviceArgument> from, to;
  for (size_t i = 0; i < given.size(); ++i) {
    from.push_back(given[i]->argument());
    if (!state.is_donated(i) || !given[i]->is_param) continue;
    // Another graph reads it as a param: what this run may overwrite is a copy.
    Buffer copy = with_context(
        [&] {
          return text_of("copying input '", state.signature.inputs[i].name,
                         "', which is donated and a param elsewhere");
        },
        [&] { return new_buffer(*state.memory, state.device, from[i].buffer.bytes); });
    after.push_back(state.memory->copy(copy, from[i].buffer, std::span(&given[i]->ready, 1)));
    ++state.memory->counts().donated_copies;
    record.count(&Transfers::donated_copies);
    record.add_work(after.back());
    from[i].buffer = std::move(copy);
  }
  if (state.updates_in_place)
    for (const State::Pair& pair : state.pairs) outputs[pair.output]->buffer = from[pair.input].buffer;
  for (size_t o = 0; o < outputs.size(); ++o) {
    TensorOnDevice& t = *outputs[o];
    if (!t.buffer.block)
      with_context(
          [&] {
            return text_of("making room for output '", state.signature.outputs[o].name, "' of ", state.run_text());
          },
          [&] { t.buffer = new_buffer(*state.memory, state.device, byte_count(t.dtype, t.shape)); });
    to.push_back(t.argument());
  }
  return state.on_device->launch(from, to, options, after);
}

std::shared_ptr<PendingRun::State> begun(const std::shared_ptr<State>& state, std::span<const DeviceTensor> inputs,
                                         std::shared_ptr<RunRecord> record, std::vector<StepTime>* profile = nullptr) {
  state->compile();
  const std::vector<Type> types = types_of_outputs(*state, inputs);
  check_places(*state, inputs);
  require_params(*state);
  std::vector<TensorOnDevice*> given;
  for (const DeviceTensor& t : inputs) given.push_back(t.on_device().get());
  const int threads = state->threads.load(std::memory_order_relaxed);
  std::vector<SharedTensor> outputs;
  for (const Type& type : types)
    outputs.push_back(std::make_shared<TensorOnDevice>(state->device, state->backend, type.dtype, shape_of(type.dims)));
  auto run = std::make_shared<PendingRun::State>();
  run->cancel = std::make_shared<CancelFlag>(false);
  run->record = std::move(record);
  run->graph = state;
  for (const SharedTensor& t : outputs) run->outputs.emplace_back(t);

  std::shared_ptr<HostRun> host_run;
  std::vector<Event> after;
  {
    Locked locked(given);
    for (size_t i = 0; i < given.size(); ++i) {
      with_context([&] { return feeding_text(*state, i); }, [&] { given[i]->require_there(); });
      add_events(*given[i], state->is_donated(i), after);
    }
    Marks marks(*state, given);
    if (state->on_host) {
      EventSource source(state->device.name(), state->run_text());
      run->event = source.event();
      host_run.reset(new HostRun{state, {}, outputs, run->cancel, run->record, threads, std::move(source)});
      for (const DeviceTensor& t : inputs) host_run->inputs.push_back(t.on_device());
    } else {
      const LaunchOptions how{threads, run->cancel, profile, run->record};
      run->event = launched(*state, given, outputs, how, after, *run->record);
    }
    marks.set(run->event);
  }
  for (const SharedTensor& t : outputs) t->ready = run->event;
  run->record->set_run(run->event);
  if (host_run)
    EventSource::when_all_done(std::move(after), [host_run](std::exception_ptr error) {
      if (error) return host_run->fail_with(error);
      try {
        run_in_background([host_run] { host_run->run(host_run); }, host_run->cancel);
      } catch (...) {
        host_run->fail_with(std::current_exception());
      }
    });
  return run;
}

}  // namespace

std::shared_ptr<PendingRun::State> submit_with_state(const std::shared_ptr<State>& state,
                                                     std::span<const DeviceTensor> inputs, GraphState::Impl& kept,
                                                     std::shared_ptr<RunRecord> record, std::vector<StepTime>* steps) {
  if (inputs.size() != state->free_inputs.size())
    fail(ErrorCode::invalid_argument, "graph '", state->graph.name(), "' has ", state->free_inputs.size(),
         " inputs that are not in its state, got ", inputs.size());
  std::scoped_lock lock(kept.mutex);
  kept.fit(*state);
  kept.require_whole();
  std::vector<DeviceTensor> all(state->signature.inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) all[state->free_inputs[i]] = inputs[i];
  for (size_t p = 0; p < state->pairs.size(); ++p) all[state->pairs[p].input] = DeviceTensor(kept.tensor_of(p));
  auto run = begun(state, all, std::move(record), steps);
  std::vector<DeviceTensor> outputs;
  for (size_t o : state->free_outputs) outputs.push_back(run->outputs[o]);
  for (size_t p = 0; p < state->pairs.size(); ++p) kept.tensor_of(p) = run->outputs[state->pairs[p].output].on_device();
  run->outputs = std::move(outputs), run->positions = state->free_outputs;
  return run;
}

Event PendingRun::event() const { return state_->event; }
const std::vector<DeviceTensor>& PendingRun::outputs() const { return state_->outputs; }
std::vector<Tensor> PendingRun::get() const {
  std::vector<Tensor> results;
  if (state_->outputs.empty()) wait();
  const auto doing = [this](size_t o) { return reading_text(*state_->graph, state_->position(o)); };
  for (const auto& t : read_all(state_->outputs, state_->record.get(), doing)) results.push_back(std::move(*t));
  return results;
}
Profile PendingRun::profile() const {
  for (bool has_ended = is_done(); !has_ended;) try {
      wait();
      has_ended = true;
    } catch (...) {  // what is thrown has ended it
      has_ended = true;
    }
  return state_->record->profile();
}
void PendingRun::cancel() const { state_->cancel->store(true, std::memory_order_relaxed); }

PendingRun CompiledGraph::submit(std::span<const DeviceTensor> inputs) const {
  return PendingRun(begun(state_, inputs, std::make_shared<RunRecord>()));
}

PendingRun CompiledGraph::run_async(const std::vector<NamedTensor>& inputs) const {
  state_->compile();
  auto record = std::make_shared<RunRecord>();
  return PendingRun(begun(state_, fed(*state_, ordered(inputs), *record), record));
}

PendingRun CompiledGraph::run_async(const std::vector<NamedTensor>& inputs, GraphState& state) const {
  state_->compile();
  auto record = std::make_shared<RunRecord>();
  const std::vector<DeviceTensor> given = fed(*state_, ordered(inputs, true), *record, state_->free_inputs);
  return PendingRun(submit_with_state(state_, given, state.impl(), record));
}

// ---- runs that the graph remembers ----
void CommittedRuns::FirstError::include(const Committed& run) {
  if (const std::exception_ptr e = run.event.error(); e && (!error || run.number < number))
    error = e, number = run.number;
}
void CommittedRuns::remove_ended() {
  std::erase_if(running_, [this](const Committed& run) {
    if (!run.event.is_done()) return false;
    first_.include(run);
    return true;
  });
  is_any_running_.store(!running_.empty() || !taken_.empty(), std::memory_order_release);
}
void CommittedRuns::add(std::shared_ptr<PendingRun::State> run) {
  std::scoped_lock lock(mutex_);
  running_.push_back({run->event, next_++});
  last_ = std::move(run);
  remove_ended();
}
void CommittedRuns::wait_for(const std::vector<Committed>& runs) {
  for (const Committed& run : runs) try {
      run.event.wait();
    } catch (...) {  // sync_pending throws it
    }
}
void CommittedRuns::wait_for_each() {
  if (background_thread() > 0) return;
  std::vector<Committed> running;
  {
    std::scoped_lock lock(mutex_);
    running = running_;
    running.insert(running.end(), taken_.begin(), taken_.end());
  }
  wait_for(running);
  std::scoped_lock lock(mutex_);
  remove_ended();
}
std::pair<std::shared_ptr<PendingRun::State>, std::exception_ptr> CommittedRuns::take() {
  if (background_thread() > 0)
    fail(ErrorCode::invalid_argument,
         "sync_pending was called by a function that runs call when they end, on the thread ",
         "that the runs it waits for may need; call it from another thread");
  std::vector<Committed> taken;
  std::shared_ptr<PendingRun::State> last;
  FirstError first;
  {
    std::scoped_lock lock(mutex_);
    taken = std::exchange(running_, {}), last = std::exchange(last_, nullptr), first = std::exchange(first_, {});
    taken_.insert(taken_.end(), taken.begin(), taken.end());
  }
  wait_for(taken);
  for (const Committed& run : taken) first.include(run);
  std::scoped_lock lock(mutex_);
  std::erase_if(taken_, [&](const Committed& run) {
    return std::any_of(taken.begin(), taken.end(), [&](const Committed& r) { return r.number == run.number; });
  });
  remove_ended();
  return {std::move(last), first.error};
}

void CompiledGraph::commit_no_wait(const std::vector<NamedTensor>& inputs) const {
  state_->compile();
  const auto record = std::make_shared<RunRecord>();
  auto run = begun(state_, fed(*state_, ordered(inputs), *record), record);
  run->graph.reset();
  state_->committed.add(std::move(run));
}
void CompiledGraph::commit_no_wait(const std::vector<NamedTensor>& inputs, GraphState& state) const {
  state_->compile();
  const auto record = std::make_shared<RunRecord>();
  const std::vector<DeviceTensor> given = fed(*state_, ordered(inputs, true), *record, state_->free_inputs);
  auto run = submit_with_state(state_, given, state.impl(), record);
  run->graph.reset();
  state_->committed.add(std::move(run));
}
std::vector<Tensor> CompiledGraph::sync_pending() const {
  const auto [last, error] = state_->committed.take();
  if (error) std::rethrow_exception(error);
  if (!last) return {};
  last->graph = state_;
  return PendingRun(last).get();
}

bool ran_from_host(const State& state, Tensors inputs, std::span<Tensor> outputs,
                   std::span<const std::span<std::byte>> memory, std::vector<StepTime>* steps,
                   const std::shared_ptr<RunRecord>& record) {
  state.bounds.check(state.graph, inputs);
  RunOptions options{state.threads.load(std::memory_order_relaxed), steps};
  options.memory = memory;
  options.observer = record;
  if (!state.on_device->run_from_host(inputs, outputs, options)) return false;
  TransferCounts& counts = state.memory->counts();
  const auto count = [&](std::atomic<uint64_t> TransferCounts::*of_all, uint64_t Transfers::*of_run, uint64_t n) {
    counts.*of_all += n;
    if (record) record->count(of_run, n);
  };
  uint64_t to_device = 0, to_host = 0;
  for (const Tensor& t : inputs) to_device += t.byte_count();
  for (const Tensor& t : outputs) to_host += t.byte_count();
  for (const auto& bytes : memory) to_host += bytes.size();
  count(&TransferCounts::copies_to_device, &Transfers::copies_to_device, inputs.size());
  count(&TransferCounts::bytes_to_device, &Transfers::bytes_to_device, to_device);
  count(&TransferCounts::copies_to_host, &Transfers::copies_to_host, outputs.size() + memory.size());
  count(&TransferCounts::bytes_to_host, &Transfers::bytes_to_host, to_host);
  count(&TransferCounts::host_waits, &Transfers::host_waits, 1);
  return true;
}

std::shared_ptr<RunRecord> run_on_device(const std::shared_ptr<State>& state, Tensors inputs, std::span<Tensor> outputs,
                                         std::vector<StepTime>* steps, GraphState::Impl* kept) {
  auto record = std::make_shared<RunRecord>();
  if (!kept && steps && ran_from_host(*state, inputs, outputs, {}, steps, record)) return record;
  const auto given = kept ? fed(*state, inputs, *record, state->free_inputs) : fed(*state, inputs, *record);
  const PendingRun run =
      PendingRun(kept ? submit_with_state(state, given, *kept, record, steps) : begun(state, given, record, steps));
  std::vector<std::shared_ptr<Tensor>> results;
  try {
    // What is read has waited for the run: the host waits once for each output.
    results = read_all(run.outputs(), record.get(),
                       [&](size_t o) { return reading_text(*state, kept ? state->free_outputs[o] : o); });
    if (results.empty()) {
      count_wait(*state->backend, record.get());
      run.wait();
    }
  } catch (...) {
    // The run writes to `steps`, which are the caller's.
    run.cancel();
    while (!run.is_done()) try {
        run.wait();
      } catch (...) {  // what is going out already
      }
    throw;
  }
  for (size_t o = 0; o < outputs.size(); ++o) {
    Tensor& out = outputs[o];
    Tensor& made = *results[o];
    if (out.type() == made.type() && out.is_unshared() && out.byte_count())
      std::memcpy(out.mutable_data(), made.data(), out.byte_count());
    else out = std::move(made);
  }
  return record;
}

}  // namespace rlx

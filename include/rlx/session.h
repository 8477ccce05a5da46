// Compiling a graph once, binding its params once, and running it many times.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <utility>

#include "rlx/compile.h"
#include "rlx/device_tensor.h"
#include "rlx/state.h"
#include "rlx/tensor.h"

namespace rlx {

/// The times of the steps of a run, and what it copied.
struct Profile {
  struct Step {
    std::string op, node, kernel;
    double start_us = 0, duration_us = 0;
  };
  /// What the device's queues did for the run: copies and the launch. Work on different queues may overlap. Empty where
  /// the device computes in the host's memory while its caller waits.
  struct Work {
    std::string name;
    int queue = 0;
    double start_us = 0, duration_us = 0;
  };
  std::vector<Step> steps = {};
  std::vector<Work> work = {};
  Transfers transfers = {};
  double total_us = 0;
  /// When the run began, which the other times count from.
  std::chrono::steady_clock::time_point began = {};

  /// A table of the time per op, the largest first, and what was copied, if anything was.
  std::string table() const;
  /// A trace in the Trace Event Format (complete events), which Perfetto and chrome://tracing open.
  std::string perfetto_json() const;
  /// Writes `perfetto_json()`; fails if the file cannot be written.
  void write_perfetto(const std::string& path) const;
};
/// One trace of several runs, on one clock: runs that overlap in time do so in the trace.
std::string perfetto_json(std::span<const Profile> runs);

/// What a run does with an input.
enum class ArgumentMode {
  read,     ///< the input stays as it is
  update,   ///< the input was donated and becomes the output of its name and type, in the same buffer
  donated,  ///< the input was donated and is gone once the run has begun
};
constexpr std::array<std::string_view, 3> names_of(ArgumentMode) { return {"read", "update", "donated"}; }

/// The inputs, params and outputs of a graph.
struct Signature {
  struct Entry {
    std::string name;
    Type type;
  };
  std::vector<Entry> inputs, params, outputs;
  /// What a run does with each input. It is `read`, unless the input was donated when the graph was compiled.
  std::vector<ArgumentMode> modes = {};
  /// Of each output, whether it is the new value of an input of mode `update`: a GraphState has these.
  std::vector<bool> is_update = {};
};
Signature signature_of(const Graph& g);
/// A part of a model: a scope, and the ops in it with how many nodes each has.
struct Layer {
  std::string name;
  std::vector<std::string> ops;
};
std::vector<Layer> layers_of(const Graph& g);

using NamedTensor = std::pair<std::string, Tensor>;

/// A run that goes on while its caller does other things. Copies stand for the same run. Destroying them neither
/// cancels the run nor waits for it.
class PendingRun {
 public:
  /// An event that is done when the run ends. If the run fails, the event fails with the same error.
  Event event() const;
  bool is_done() const { return event().is_done(); }
  void wait() const { event().wait(); }
  /// Waits until the deadline at most. False if the run is still going on then; it is not cancelled (see `cancel`).
  bool wait_until(std::chrono::steady_clock::time_point deadline) const { return event().wait_until(deadline); }
  template <class Rep, class Period>
  bool wait_for(std::chrono::duration<Rep, Period> time) const {
    return event().wait_for(time);
  }
  /// The results in the order of the graph's outputs, on the device. They may be passed to the next run before this one
  /// ends.
  const std::vector<DeviceTensor>& outputs() const;
  /// Waits for the run and returns the results on the host. Throws the error that ended the run, if any.
  std::vector<Tensor> get() const;
  /// What the device did for the run and when, and what was copied for it so far. Waits for the run; does not throw
  /// what ended it. Without steps: those are CompiledGraph::profile's.
  Profile profile() const;
  /// Asks the run to stop. It does so before it begins, before its next step or before the next trip of a loop, and
  /// then fails with ErrorCode::cancelled. What already runs on an accelerator is not interrupted.
  void cancel() const;

  struct State;  ///< used by the library only, as is the constructor
  explicit PendingRun(std::shared_ptr<const State> state) : state_(std::move(state)) {}

 private:
  std::shared_ptr<const State> state_;
};

/// A graph that is compiled for a device. Copies share it. `run` may be called from several threads at once, but not
/// while a param is bound.
class CompiledGraph {
 public:
  /// Binds a param. The tensor is shared, not copied; its type must be that of the param.
  void set_param(const std::string& name, Tensor value);
  /// Binds a param to the present elements of a tensor on the graph's device. Writing to the tensor later does not
  /// change the param.
  void set_param(const std::string& name, const DeviceTensor& value);
  void set_params(const std::map<std::string, Tensor, std::less<>>& values);
  /// Binds from elements in row-major order; T must be the C++ type of the param's dtype.
  template <class T>
  void set_param_typed(const std::string& name, std::span<const T> values) {
    set_param(name, Tensor::of<T>(param_shape(name), values));
  }
  bool all_params_bound() const;

  /// Runs with inputs by name, in any order. The results are in the order of the graph's outputs. Fails if an input is
  /// missing, unknown or of the wrong type, and names it.
  std::vector<Tensor> run(std::initializer_list<NamedTensor> inputs) const {
    return run(std::vector<NamedTensor>(inputs));
  }
  std::vector<Tensor> run(const std::vector<NamedTensor>& inputs) const;
  /// Begins a run and returns. The run takes place on a thread of RLX if the device computes in the host's memory, else
  /// in the device's own queues. It keeps its inputs alive; borrowed elements without an owner are copied. Params may
  /// not be bound until the run has ended; the graph itself may be destroyed. Errors that are known at once (names,
  /// types, no memory) are thrown here, those of the run itself when its end is waited for.
  PendingRun run_async(const std::vector<NamedTensor>& inputs) const;
  /// Begins a run as run_async does, but the graph keeps its handle. Each call that runs the graph and waits (`run`,
  /// `run_into`, `profile` ...) first waits for the committed runs. Their errors are thrown by sync_pending alone.
  void commit_no_wait(const std::vector<NamedTensor>& inputs) const;
  void commit_no_wait(const std::vector<NamedTensor>& inputs, GraphState& state) const;
  /// Waits for all runs that were committed since the last call, and returns the results of the last one; empty if
  /// there was none. If a run failed, it throws the first error, and no results are returned.
  std::vector<Tensor> sync_pending() const;
  /// Begins a run with tensors on the graph's device, in the order of the graph's inputs. It starts when they are
  /// ready; the order of several runs follows only from what they read and write. A donated input is gone as soon as
  /// this returns. Fails if a tensor is gone or on another device.
  PendingRun submit(std::span<const DeviceTensor> inputs) const;
  /// Runs with inputs in the order of the graph's inputs, so that no names are looked up.
  std::vector<Tensor> run_ordered(Tensors inputs) const;
  /// Runs, and writes the results into those of `outputs` whose types fit and whose memory nothing else shares: for
  /// these nothing is allocated.
  void run_into(Tensors inputs, std::span<Tensor> outputs) const;
  /// Runs, and writes each output, dense and row-major, to memory of the caller, which must overlap neither an input
  /// nor another output. Fails if the memory has not the size of the output. Nothing is allocated, unless memory does
  /// not start at a multiple of an element's size: such an output is computed elsewhere and copied.
  void run_into_memory(Tensors inputs, std::span<const std::span<std::byte>> memory) const;
  /// Runs on elements: every input and output has the dtype of T and a static shape.
  template <class T>
  std::vector<std::vector<T>> run_typed(const std::vector<std::pair<std::string, std::span<const T>>>& inputs) const {
    std::vector<NamedTensor> tensors;
    for (const auto& [name, values] : inputs) tensors.emplace_back(name, Tensor::of<T>(input_shape(name), values));
    std::vector<std::vector<T>> results;
    for (const Tensor& t : run(tensors)) results.emplace_back(t.values<T>().begin(), t.values<T>().end());
    return results;
  }
  /// Runs once and measures each step.
  Profile profile(const std::vector<NamedTensor>& inputs) const;

  /// A state for this graph: with these values by the names of inputs, and zeros for the others. `extents` are numbers
  /// for the symbols in the types of the state's tensors that no value gives. Fails if the graph updates no input, for
  /// a name or a symbol that is none of those, a value of another type, or a symbol without a number.
  GraphState new_state(const std::map<std::string, Tensor, std::less<>>& values = {},
                       const Bindings& extents = {}) const;
  /// The state that GraphState::save wrote. Fails, naming the tensor, unless the file has just the tensors of a state
  /// of this graph.
  GraphState load_state(const std::string& path) const;
  /// A copy of `from`, which has to fit this graph, with other extents: caches that grow, or shrink. `extents` are
  /// numbers for the symbols in the types of the state's tensors. An element has the value that `from` has at the same
  /// indices, and is zero where `from` has none; on a device with memory of its own the elements go through the host.
  /// Waits for the runs with `from`. Fails if `from` is torn (a run left it half updated), for a symbol without a
  /// number or one that the state has not, and as unsupported where a tensor of elements smaller than a byte would
  /// change.
  GraphState resized_state(const GraphState& from, const Bindings& extents) const;
  /// Runs with a state, and leaves the new values in it. `inputs` are those that are not in the state, by name and in
  /// any order; the results are the outputs that are not in it, in the order of the graph. Fails, naming what does not
  /// fit, for a state of another device or of a graph that updates other inputs.
  std::vector<Tensor> run(const std::vector<NamedTensor>& inputs, GraphState& state) const;
  /// The same with inputs in the order of the graph.
  std::vector<Tensor> run_ordered(Tensors inputs, GraphState& state) const;
  /// The same as run_into: for results that fit nothing is allocated.
  void run_into(Tensors inputs, std::span<Tensor> outputs, GraphState& state) const;
  /// Begins a run with a state and returns, as the other run_async does. Runs with one state follow one another in the
  /// order in which they were begun; after one that failed, those behind it fail with the same error.
  PendingRun run_async(const std::vector<NamedTensor>& inputs, GraphState& state) const;
  /// Runs once with a state, which is updated, and measures each step. Updates that were not made in place are counted
  /// as `transfers.donated_copies`.
  Profile profile(const std::vector<NamedTensor>& inputs, GraphState& state) const;

  const DispatchReport& report() const;
  /// On which of the device's processors each operation runs. For Device::coreml this is what MLComputePlan says on
  /// Apple's systems (macOS 14.4, iOS 17.4 and later); elsewhere it is a prediction, and is marked as one. All params
  /// must be bound. Fails for devices with one processor.
  PlacementReport placement() const;
  const Signature& signature() const;
  /// Whether a donated input and the output of its name share their memory, where nothing reads the old value later. A
  /// run that fails may leave such an input partly overwritten.
  bool updates_in_place() const;
  /// Whether runs replay functions that the device has traced once: on mlx in its mode `compiled`, where the graph is
  /// one such function, or several with control flow between them (what reads params alone is built in each run).
  /// False in its other modes, and on devices that trace nothing. Compiles the graph, if that was put off.
  bool is_compiled() const;
  std::vector<Layer> layers() const;
  ExecutionConfig config() const;
  /// Sets how many threads a run may use, at most as many as the session has. Without this call it is the session's
  /// number.
  void set_threads(int threads);
  int threads() const;
  /// Writes it to a file (rlx/artifact.h) that Session::load runs again, in this process or another, without the
  /// compiler: the program, the graph that it was made from, the options and the report. `params` are the values that
  /// the file carries, by name and of the declared types; those that it does not carry are bound after it was loaded.
  /// The file appears complete or not at all. Fails for a name that is no param.
  void save(const std::string& path, const std::map<std::string, Tensor, std::less<>>& params = {}) const;
  /// The bytes of packed weights and arenas. The params themselves are not counted.
  size_t memory_bytes() const;
  /// The graph as it was given to the backend, for inspection.
  const Graph& lowered() const;

  struct State;  ///< used by the library only

 private:
  friend class Session;
  explicit CompiledGraph(std::shared_ptr<State> state) : state_(std::move(state)) {}
  Shape param_shape(const std::string& name) const;
  Shape input_shape(const std::string& name) const;
  std::vector<Tensor> ordered(const std::vector<NamedTensor>& inputs, bool without_state = false) const;
  std::shared_ptr<State> state_;
};

struct SessionOptions {
  int threads = 0;      ///< 0: set_thread_pool()'s, else the process's, or half if `rlx calibrate` found that enough
  bool narrow = false;  ///< every compile has CompileOptions::narrow
};

/// A device, and the programs that were compiled for it. Equal graphs that are compiled with equal options share a
/// program.
class Session {
 public:
  /// Fails if the device is not available, and says why.
  explicit Session(Device device = Device::from_environment(), SessionOptions options = {});
  CompiledGraph compile(const Graph& g, CompileOptions options = CompileOptions::from_environment()) const;
  /// The compiled graph of a file that CompiledGraph::save or `rlx compile` wrote, with the params bound whose values
  /// it carries. No pass is run. Fails, saying what was expected, what was found and what to do, for a file that is
  /// damaged or of another version of RLX, of another device or machine, or whose ops or registered kernels are not
  /// here.
  CompiledGraph load(const std::string& path) const;
  Device device() const;
  int threads() const;

 private:
  CompiledGraph made(std::shared_ptr<CompiledGraph::State> state) const;
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace rlx

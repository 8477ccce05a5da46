// Compile once, bind params once, run many times.
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
#include "rlx/tensor.h"

namespace rlx {

/// Times of a run, step by step, and what it copied.
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

  /// Time per op, largest first, and what was copied, if anything was.
  std::string table() const;
  /// A trace that Perfetto (or chrome://tracing) opens: the Trace Event Format, complete events.
  std::string perfetto_json() const;
  /// Writes `perfetto_json()`; fails if the file cannot be written.
  void write_perfetto(const std::string& path) const;
};
/// One trace of several runs, on one clock: runs that overlap in time do so in the trace.
std::string perfetto_json(std::span<const Profile> runs);

/// What a run does with an input.
enum class ArgumentMode {
  read,     ///< it stays as it is
  update,   ///< it was donated, and becomes the output of its name and type: one buffer, in and out
  donated,  ///< it was donated, and is gone once the run has begun
};
constexpr std::array<std::string_view, 3> names_of(ArgumentMode) { return {"read", "update", "donated"}; }

/// What a graph takes and gives: for whoever binds, feeds or inspects it.
struct Signature {
  struct Entry {
    std::string name;
    Type type;
  };
  std::vector<Entry> inputs, params, outputs;
  /// What a run does with each input: `read` for all, unless some were donated when the graph was compiled.
  std::vector<ArgumentMode> modes = {};
};
Signature signature_of(const Graph& g);
/// The parts of a model by name: each scope with how many nodes it has and which ops.
struct Layer {
  std::string name;
  std::vector<std::string> ops;
};
std::vector<Layer> layers_of(const Graph& g);

using NamedTensor = std::pair<std::string, Tensor>;

/// A run that goes on beside its caller. Copies are the same run; dropping them neither cancels it nor waits for it.
class PendingRun {
 public:
  /// Ends with the run; fails with what ended it.
  Event event() const;
  bool is_done() const { return event().is_done(); }
  void wait() const { event().wait(); }
  /// False if the run is still going on at the deadline; see `cancel`.
  bool wait_until(std::chrono::steady_clock::time_point deadline) const { return event().wait_until(deadline); }
  template <class Rep, class Period>
  bool wait_for(std::chrono::duration<Rep, Period> time) const {
    return event().wait_for(time);
  }
  /// The results in the order of the graph's outputs, on the device. They can be handed to the next run at once.
  const std::vector<DeviceTensor>& outputs() const;
  /// The results on the host; waits for the run and throws what ended it.
  std::vector<Tensor> get() const;
  /// What the device did for the run and when, and what was copied for it so far. Waits for the run; does not throw
  /// what ended it. Without steps: those are CompiledGraph::profile's.
  Profile profile() const;
  /// Asks the run to stop: it does so before its next step or trip of a loop, or before it begins, and then fails with
  /// ErrorCode::cancelled. What is running on an accelerator is let run.
  void cancel() const;

  struct State;  ///< for the library, as is the constructor
  explicit PendingRun(std::shared_ptr<const State> state) : state_(std::move(state)) {}

 private:
  std::shared_ptr<const State> state_;
};

/// A graph on a device. Copies share it. `run` may be called from several threads at once; binding may not overlap it.
class CompiledGraph {
 public:
  /// Binds a param. Shares the tensor; the type must be the declared one.
  void set_param(const std::string& name, Tensor value);
  /// Binds a param to a tensor on the graph's device, and keeps its present elements: what is written to
  /// the tensor later changes nothing here.
  void set_param(const std::string& name, const DeviceTensor& value);
  void set_params(const std::map<std::string, Tensor, std::less<>>& values);
  /// Binds from elements in row-major order; T must be the C++ type of the param's dtype.
  template <class T>
  void set_param_typed(const std::string& name, std::span<const T> values) {
    set_param(name, Tensor::of<T>(param_shape(name), values));
  }
  bool all_params_bound() const;

  /// Runs with inputs by name, in any order. The results stand in the order of the graph's outputs. Fails naming what
  /// is missing, unknown, or of the wrong type.
  std::vector<Tensor> run(std::initializer_list<NamedTensor> inputs) const {
    return run(std::vector<NamedTensor>(inputs));
  }
  std::vector<Tensor> run(const std::vector<NamedTensor>& inputs) const;
  /// Begins a run and returns: on a thread of RLX where the device computes in the host's memory, in the device's own
  /// queues elsewhere. Keeps what it was given, and copies borrowed elements without an owner; bind no param until the
  /// run has ended. The graph itself may be dropped. What is known at once fails here (names, types, no memory); what
  /// goes wrong in the run, when its end is waited for.
  PendingRun run_async(const std::vector<NamedTensor>& inputs) const;
  /// The same for tensors on the graph's device, in the order of its inputs: the run starts when they are ready, in an
  /// order with other runs that follows from what they read and write alone. A donated input is gone as soon as this
  /// returns. Fails for a tensor that is gone or on another device.
  PendingRun submit(std::span<const DeviceTensor> inputs) const;
  /// The same in the order of the graph's inputs, without looking up names.
  std::vector<Tensor> run_ordered(Tensors inputs) const;
  /// Writes into `outputs` where their types fit and nothing else shares them, so that nothing is allocated.
  void run_into(Tensors inputs, std::span<Tensor> outputs) const;
  /// Writes each output, dense and row-major, to memory of the caller that overlaps neither an input nor another
  /// output. Fails if the size is not the output's. Nothing is allocated, but for memory that does not start at a
  /// multiple of an element's bytes, which is copied to.
  void run_into_memory(Tensors inputs, std::span<const std::span<std::byte>> memory) const;
  /// Elements in, elements out: every input and output has the dtype of T and a static shape.
  template <class T>
  std::vector<std::vector<T>> run_typed(const std::vector<std::pair<std::string, std::span<const T>>>& inputs) const {
    std::vector<NamedTensor> tensors;
    for (const auto& [name, values] : inputs) tensors.emplace_back(name, Tensor::of<T>(input_shape(name), values));
    std::vector<std::vector<T>> results;
    for (const Tensor& t : run(tensors)) results.emplace_back(t.values<T>().begin(), t.values<T>().end());
    return results;
  }
  /// One run, timed step by step.
  Profile profile(const std::vector<NamedTensor>& inputs) const;

  const DispatchReport& report() const;
  /// On which of the device's processors each operation runs: for Device::coreml what MLComputePlan says on Apple's
  /// systems (macOS 14.4, iOS 17.4 and later), and a prediction, named so, elsewhere. All params are bound. Fails for
  /// devices with one processor.
  PlacementReport placement() const;
  const Signature& signature() const;
  /// Whether the memory of a donated input becomes that of the output of its name here, where nothing reads the old
  /// value later. A run that fails may leave such an input half written.
  bool updates_in_place() const;
  std::vector<Layer> layers() const;
  ExecutionConfig config() const;
  /// Threads that a run may use; the session's number unless changed. At most what the session was made with.
  void set_threads(int threads);
  int threads() const;
  /// Bytes held: packed weights and arenas, not the params themselves.
  size_t memory_bytes() const;
  /// The graph as it was lowered, for inspection.
  const Graph& lowered() const;

  struct State;  ///< for the library

 private:
  friend class Session;
  explicit CompiledGraph(std::shared_ptr<State> state) : state_(std::move(state)) {}
  Shape param_shape(const std::string& name) const;
  Shape input_shape(const std::string& name) const;
  std::vector<Tensor> ordered(const std::vector<NamedTensor>& inputs) const;
  std::shared_ptr<State> state_;
};

struct SessionOptions {
  int threads = 0;  ///< 0: as many as the process may use, or fewer where `rlx calibrate` found that no more help
};

/// A device and the programs compiled for it. Equal graphs compiled with equal options share one program.
class Session {
 public:
  /// Fails if the device is not available here, saying why.
  explicit Session(Device device = Device::from_environment(), SessionOptions options = {});
  CompiledGraph compile(const Graph& g, CompileOptions options = CompileOptions::from_environment()) const;
  Device device() const;
  int threads() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace rlx

// Compile once, bind params once, run many times.
#pragma once

#include <functional>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "rlx/compile.h"
#include "rlx/tensor.h"

namespace rlx {

/// Times of a run, step by step.
struct Profile {
  struct Step {
    std::string op, node, kernel;
    double start_us = 0, duration_us = 0;
  };
  std::vector<Step> steps;
  double total_us = 0;

  /// Time per op, largest first.
  std::string table() const;
  /// A trace that Perfetto (or chrome://tracing) opens: the Trace Event Format, complete events.
  std::string perfetto_json() const;
  /// Writes `perfetto_json()`; fails if the file cannot be written.
  void write_perfetto(const std::string& path) const;
};

/// What a graph takes and gives: for whoever binds, feeds or inspects it.
struct Signature {
  struct Entry {
    std::string name;
    Type type;
  };
  std::vector<Entry> inputs, params, outputs;
};
Signature signature_of(const Graph& g);
/// The parts of a model by name: each scope with how many nodes it has and which ops.
struct Layer {
  std::string name;
  std::vector<std::string> ops;
};
std::vector<Layer> layers_of(const Graph& g);

using NamedTensor = std::pair<std::string, Tensor>;

/// A graph on a device. Copies share it. `run` may be called from several threads at once; binding may not overlap it.
class CompiledGraph {
 public:
  /// Binds a param. Shares the tensor; the type must be the declared one.
  void set_param(const std::string& name, Tensor value);
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
  /// Begins a run and returns: CoreML.framework's own background prediction where that runs the graph, a thread of its
  /// own on any other device. The future gives what `run` gives, or throws what went wrong; names that are missing or
  /// unknown fail here. Neither inputs nor params may change until then; the graph itself may be
  /// dropped. A future of a thread waits for it when it is dropped, as std::async's does.
  std::future<std::vector<Tensor>> run_async(const std::vector<NamedTensor>& inputs) const;
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

 private:
  friend class Session;
  struct State;
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

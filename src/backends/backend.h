// What a device is to the compiler: claims, a lowering, and, where the device is present, something that runs.
// `backends/null` is the smallest one; copy it to begin another.
#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <string>

#include "passes/legalize.h"

namespace rlx {

/// How long each step of a run took.
struct StepTime {
  std::string op, node, kernel;
  double start_us = 0, duration_us = 0;  ///< since the run began
};

struct RunOptions {
  int threads = 1;                           ///< how many threads this run may use
  std::vector<StepTime>* profile = nullptr;  ///< if given, the steps' times are added to it
  /// If not empty: memory for each output, dense, that overlaps nothing else; the tensors are left alone.
  std::span<const std::span<std::byte>> memory = {};
};

/// A program on its device. `run` may be called from several threads at once.
class Executable {
 public:
  virtual ~Executable() = default;
  /// Binds a param. Not while a run is under way.
  virtual void bind(const std::string& name, Tensor value) = 0;
  /// `inputs` in the order of the graph. An output that already has the right type and is not shared is written in
  /// place; any other is replaced. Fails if a param is not bound, or an input does not fit its type, or the memory for
  /// an output is not of its size.
  virtual void run(Tensors inputs, std::span<Tensor> outputs, const RunOptions& options) = 0;
  /// What becomes of a run that was begun: its outputs, or what went wrong.
  using Done = std::function<void(std::vector<Tensor> outputs, std::exception_ptr error)>;
  /// Begins a run in the background and returns: `done` is called once, on any thread, also if this object is gone by
  /// then. False, and nothing was begun, where the device has no such runs of its own. Fails as `run` does where that
  /// is known at once.
  virtual bool begin(Tensors, const RunOptions&, Done) { return false; }
  /// On which processor of the device each operation runs. Fails where there is but one.
  virtual PlacementReport placement() {
    fail(ErrorCode::unsupported, "this device does not choose among processors: its report says what runs where");
  }
  /// Does now what the first run would: packs weights and, if no shape is symbolic, plans memory. All params are bound.
  virtual void prepare() = 0;
  /// Bytes that the executable holds: packed weights and arenas.
  virtual size_t memory_bytes() const = 0;
};

struct LoadOptions {
  int threads = 1;            ///< the most that a run will use
  std::vector<bool> donated;  ///< inputs that a run may overwrite
  /// How names of files begin in which the executable may keep what the next process would make again; empty: none.
  std::string keep_in = {};
  /// Of products of f32, as CompileOptions::accuracy and batch_invariant ask for them.
  bool exact = false, row_relative = false, batch_invariant = false;
};

/// A legal graph, lowered: it can be written to disk, and loaded where the device is.
class Program {
 public:
  virtual ~Program() = default;
  virtual const Graph& graph() const = 0;
  virtual std::unique_ptr<Executable> load(const LoadOptions& options) const = 0;
};

class Backend {
 public:
  virtual ~Backend() = default;
  /// As devices are spelled: "cpu".
  virtual std::string name() const = 0;
  /// What it is here: the processor, the instruction set, the libraries.
  virtual std::string description() const = 0;
  /// How many threads a run may sensibly use.
  virtual int threads() const { return 1; }
  /// Empty, or why nothing can run here.
  virtual std::string unavailable() const = 0;
  /// Whether it computes faster than the processor that this program runs on.
  virtual bool accelerates() const { return false; }
  /// What the compiler has to know: what is claimed, liked, and done before it is lowered.
  virtual Target target() const = 0;
  /// What the claims of `target()` depend on beside the build: other kernels, another number, and no program is shared.
  virtual size_t claims_hash() const { return 0; }
  /// Why training does not go through an update of the device's own, but by gradients and an update in one graph.
  virtual std::string no_native_update() const {
    return text_of(name(), " runs compiled graphs and has no trainer of its own; the update is compiled with them");
  }
  /// `legal` holds only what `target()` takes.
  virtual std::unique_ptr<Program> lower(Graph legal) const = 0;
};

}  // namespace rlx

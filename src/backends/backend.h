// What a device is to the compiler: claims, a lowering, and, where the device is present, something that runs.
// `backends/null` is the smallest one; copy it to begin another.
//
// A device is one of two kinds. One computes in the host's memory while its caller waits: its programs give a
// HostExecutable. The other has memory and queues of its own: `Backend::memory` is there, and its programs
// give a DeviceExecutable. What the one kind lacks of the other (runs in the background, tensors of the host) the
// runtime adds (src/runtime), for all backends alike.
#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <set>
#include <string>

#include "backends/device_memory.h"
#include "base/cancel_flag.h"
#include "passes/legalize.h"
#include "plan/launch.h"
#include "rlx/io.h"

namespace rlx {

/// What a run says of itself, also if it fails.
struct RunNotes {
  bool has_begun = true;  ///< false if it failed before it wrote to any output
  /// Donated inputs with an output of their name that was not written where they lie, but elsewhere or after a copy.
  uint64_t updates_elsewhere = 0;
};

/// Told what a run does beside what its caller sees, by executables that move values between devices. Any thread may
/// tell it.
class RunObserver {
 public:
  virtual ~RunObserver() = default;
  virtual void moved(const Transfers& what) = 0;
  virtual void worked(const Event& event) = 0;
};

struct RunOptions {
  int threads = 1;                           ///< how many threads this run may use
  std::vector<StepTime>* profile = nullptr;  ///< if given, the steps' times are added to it
  /// If not empty: memory for each output, dense; the tensors are left alone. It overlaps nothing else, but for the
  /// donated input of its name, if they are the same bytes.
  std::span<const std::span<std::byte>> memory = {};
  /// If given, looked at before each step and each trip of a loop; the run then fails with ErrorCode::cancelled.
  const CancelFlag* cancel = nullptr;
  /// If given, filled in by executables that update in place; others leave it alone.
  RunNotes* notes = nullptr;
  std::shared_ptr<RunObserver> observer = {};  ///< if given, told of copies between devices
};

/// A program on its device. It may be used by several threads at once.
class Executable {
 public:
  virtual ~Executable() = default;
  /// On which processor of the device each operation runs. Fails where there is but one.
  virtual PlacementReport placement() {
    fail(ErrorCode::unsupported, "this device does not choose among processors: its report says what runs where");
  }
  /// Does now what the first run would: packs weights and, if no shape is symbolic, plans memory. All params are bound.
  virtual void prepare() = 0;
  /// Bytes that the executable holds: packed weights and arenas.
  virtual size_t memory_bytes() const = 0;
};

/// One that computes in the host's memory, while its caller waits.
class HostExecutable : public Executable {
 public:
  /// Binds a param. Not while a run is under way.
  virtual void bind(const std::string& name, Tensor value) = 0;
  /// `inputs` in the order of the graph. An output that already has the right type and is not shared is written in
  /// place; any other is replaced. Fails if a param is not bound, or an input does not fit its type, or the memory for
  /// an output is not of its size.
  virtual void run(Tensors inputs, std::span<Tensor> outputs, const RunOptions& options) = 0;
  /// Called once at a run's end, with its outputs or its error.
  using Done = std::function<void(std::vector<Tensor> outputs, std::exception_ptr error)>;
  /// Begins a run in the background and returns: `done` is called once, on any thread, also if this object is gone by
  /// then. False, and nothing was begun, where the device has no such runs of its own: the runtime has threads for
  /// that. Fails as `run` does where that is known at once.
  virtual bool begin(Tensors, const RunOptions&, Done) { return false; }
};

/// Dense elements in a device's memory, and what they are.
struct DeviceArgument {
  Buffer buffer;
  DType dtype = f32;
  Shape shape;
};

/// How a launch runs.
struct LaunchOptions {
  int threads = 1;
  std::shared_ptr<CancelFlag> cancel = {};     ///< if given, looked at before the launch and, where it can be, in it
  std::vector<StepTime>* profile = nullptr;    ///< if given, lives until the launch has ended
  std::shared_ptr<RunObserver> observer = {};  ///< if given, told of copies between devices
};

/// One on a device with memory and an order of its own.
class DeviceExecutable : public Executable {
 public:
  /// Binds a param to elements on the device, which are whole once `after` has ended and then stay as they are. Not
  /// while a run is under way.
  virtual void bind(const std::string& name, DeviceArgument value, const Event& after) = 0;
  /// Binds a param to elements of the host, if the executable itself knows where they are needed: on which of several
  /// devices. False, and nothing was done, for all others: the runtime brings the elements to the device first.
  virtual bool bind_from_host(const std::string& /*name*/, const Tensor& /*value*/) { return false; }
  /// Begins a run and returns the event of its end: it starts when those of `after` have ended, and fails with the
  /// first cause if one of them failed. Inputs in the order of the graph, of its types; every output has memory. Where
  /// the target updates in place, an input that is donated may lie in the buffer of the output of its name, and only
  /// there. Keeps all blocks until the run has ended.
  virtual Event launch(std::span<const DeviceArgument> inputs, std::span<const DeviceArgument> outputs,
                       const LaunchOptions& options, std::span<const Event> after) = 0;
  /// Runs with tensors of the host, as HostExecutable::run does, where that is less work for the device than copies
  /// and a launch; what is donated is left alone. False, and nothing was done, for all others.
  virtual bool run_from_host(Tensors, std::span<Tensor>, const RunOptions&) { return false; }
  /// Whether runs replay functions that the device traced once (CompiledGraph::is_compiled).
  virtual bool is_compiled() const { return false; }
};

struct LoadOptions {
  int threads = 1;            ///< the most that a run will use
  std::vector<bool> donated;  ///< inputs that a run may overwrite
  /// How names of files begin in which the executable may keep what the next process would make again; empty: none.
  std::string keep_in = {};
  /// Of products of f32, as CompileOptions::accuracy and batch_invariant ask for them.
  bool exact = false, row_relative = false, batch_invariant = false;
  bool int8 = false;     ///< CompileOptions::compute is as_i8: products that the passes left may round x, too
  bool narrow = false;   ///< CompileOptions::narrow
  Bindings bounds = {};  ///< CompileOptions::bounds; no run exceeds them
};

/// A program as files hold it, in a form that its backend knows by name.
struct Payload {
  std::string form;      ///< "graph": the legal graph, as a GraphFile (ir/text.h); else a backend's own
  std::string text;      ///< any bytes
  NamedTensors tensors;  ///< which the text names
};
constexpr const char* kGraphForm = "graph";

/// A legal graph, lowered: it can be written to disk (`payload`, `Backend::read`), and loaded where the device is.
class Program {
 public:
  virtual ~Program() = default;
  virtual const Graph& graph() const = 0;
  /// What `Backend::read` makes the same program from, in another process: the legal graph, where a backend has nothing
  /// that takes more work to make.
  virtual Payload payload() const;
  virtual std::unique_ptr<Executable> load(const LoadOptions& options) const = 0;
  /// Whether every input of these names that is donated and the output of its name are one buffer, where the device
  /// updates in place at all.
  virtual bool updates_in_place(const std::set<std::string>& /*donated*/) const { return true; }
  /// Kernels from outside the library that run nodes of it, as Backend::registered_kernels says of its graph.
  virtual std::vector<std::string> registered_kernels(const class Backend& backend) const;
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
  /// This device, held to the instruction set of that name (CompileOptions::isa): its targets, its programs and what
  /// these make. Fails for a name that is none, or a set that the processor lacks. Null where a device does not compute
  /// by the processor's instructions: there is nothing to hold it to.
  virtual std::shared_ptr<const Backend> with_instruction_set(const std::string& /*name*/) const { return nullptr; }
  /// Whether it computes faster than the processor that this program runs on.
  virtual bool accelerates() const { return false; }
  /// What the compiler has to know: what is claimed, liked, and done before it is lowered.
  virtual Target target() const = 0;
  /// A hash of what `target()`'s claims depend on besides the build; programs are shared only where it is equal.
  virtual size_t claims_hash() const { return 0; }
  /// Why training does not go through an update of the device's own, but by gradients and an update in one graph.
  virtual std::string no_native_update() const {
    return text_of(name(), " runs compiled graphs and has no trainer of its own; the update is compiled with them");
  }
  /// What its programs depend on besides the library and this device's name: the instruction set, the system's
  /// libraries. A program that was written where a fact was another one is not read.
  virtual std::vector<TargetFact> facts() const { return {}; }
  /// Kernels from outside the library, each as "op by 'name'", sorted: those that run nodes of `program`, or all if
  /// that is null. A program that was written where others run it is not read.
  virtual std::vector<std::string> registered_kernels(const Graph*) const { return {}; }
  /// `legal` holds only what `target()` takes.
  virtual std::unique_ptr<Program> lower(Graph legal) const = 0;
  /// The program that gave `payload`, or one like it. The bytes may be anybody's: fails where they are no program whose
  /// nodes `target()` takes. As it stands here, of the form "graph".
  virtual std::unique_ptr<Program> read(const Payload& payload) const;
  /// Whether a run that was cancelled stops at its next trip of a loop; where not, it runs to its end.
  virtual bool cancels_loops() const { return true; }
  /// The device's memory; null where that is the host's own, and its executables are HostExecutables.
  virtual std::shared_ptr<DeviceMemory> memory() const { return nullptr; }
  /// Whether `memory()` is not null, for a device that need not be opened to say it.
  virtual bool has_own_memory() const { return memory() != nullptr; }
  /// `memory()->about()`, for a device that need not be opened to say it.
  virtual Memory about_memory() const {
    const auto own = memory();
    return own ? own->about() : Memory{};
  }
};

/// Loads a program of a device that computes in the host's memory; fails for any other.
std::unique_ptr<HostExecutable> load_on_host(const Program& program, const LoadOptions& options);

}  // namespace rlx

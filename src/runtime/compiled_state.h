// The state that the copies of a CompiledGraph share, and that of a PendingRun.
#pragma once

#include <atomic>
#include <exception>
#include <mutex>
#include <set>
#include <utility>
#include <variant>
#include <vector>

#include "rlx/session.h"
#include "runtime/extent_bounds.h"
#include "runtime/program_cache.h"
#include "runtime/tensor_on_device.h"

namespace rlx {

/// Runs that CompiledGraph::commit_no_wait began.
class CommittedRuns {
 public:
  /// `run->graph` is null: the graph owns this list, and a run that owned the graph would keep both for ever.
  void add(std::shared_ptr<PendingRun::State> run);
  /// Waits until all have ended, and ignores their errors. Returns at once on a thread that runs are given to: runs
  /// that have not begun may be waiting for this thread.
  void wait() {
    if (is_any_running_.load(std::memory_order_acquire)) wait_for_each();
  }
  /// Waits for the runs so far, and removes them. Returns what sync_pending does: the last one, or null, and the error
  /// of the first one that failed, in the order in which they were committed. Throws invalid_argument where wait()
  /// returns at once.
  std::pair<std::shared_ptr<PendingRun::State>, std::exception_ptr> take();

 private:
  struct Committed {
    Event event;
    uint64_t number;  ///< in the order of commits
  };
  struct FirstError {
    std::exception_ptr error;
    uint64_t number = 0;  ///< of the run that failed
    void include(const Committed& run);
  };
  static void wait_for(const std::vector<Committed>& runs);
  void wait_for_each();
  /// Removes runs that have ended. With the lock.
  void remove_ended();
  std::mutex mutex_;
  std::vector<Committed> running_, taken_;  // taken_: of calls of take() that have not returned
  uint64_t next_ = 0;
  std::shared_ptr<PendingRun::State> last_;
  FirstError first_;  // of runs that were removed
  std::atomic<bool> is_any_running_ = false;
};

struct CompiledGraph::State {
  Graph graph;  // as the user gave it
  CompileOptions options;
  Device device;
  int most_threads;
  std::atomic<int> threads;
  Signature signature;
  std::shared_ptr<ProgramCache> cache;
  std::shared_ptr<const Backend> backend;

  // These are made in compile(), or at the first use if the graph is compiled lazily. std::call_once would not do:
  // compiling may throw and be tried again, and after a throw the thread sanitizer's call_once waits for ever.
  std::mutex compiling = {};
  std::atomic<bool> compiled = {};
  std::shared_ptr<const CachedProgram> program = {};
  std::unique_ptr<Executable> executable = {};
  HostExecutable* on_host = nullptr;          // the executable, if it computes in the host's memory
  DeviceExecutable* on_device = nullptr;      // the executable, if it does not
  std::shared_ptr<DeviceMemory> memory = {};  // the device's own memory; null if `on_host` is set
  bool updates_in_place = false;
  /// A donated input and the output of its name and type. They share a buffer if the device updates in place.
  struct Pair {
    size_t input, output;
  };
  std::vector<Pair> pairs = {};
  std::vector<size_t> free_inputs = {}, free_outputs = {};  // those that are in no pair
  ExtentBounds bounds = {};
  const uint64_t number = next_number();  // no other one in this process has it
  std::set<std::string> unbound = {};     // the names of params that are not bound yet
  /// Params that were bound before the graph was compiled.
  std::map<std::string, std::variant<Tensor, DeviceTensor>> waiting = {};
  CommittedRuns committed = {};

  void compile();
  /// Before a run whose caller waits for it.
  void begin_run() {
    compile();
    committed.wait();
  }
  /// Binds a param of the executable. Its type has been checked.
  void bind(const std::string& name, const std::variant<Tensor, DeviceTensor>& value);
  bool is_donated(size_t input) const { return signature.modes[input] != ArgumentMode::read; }
  static uint64_t next_number() {
    static std::atomic<uint64_t> last = 0;
    return ++last;
  }
  /// "the run of 'g' on cpu".
  std::string run_text() const { return text_of("the run of '", graph.name(), "' on ", device); }
};

/// What the copies of a PendingRun share.
struct PendingRun::State {
  Event event;
  std::vector<DeviceTensor> outputs;
  std::vector<size_t> positions = {};  // of `outputs` among the graph's; empty: they are all of them
  std::shared_ptr<CancelFlag> cancel;
  std::shared_ptr<RunRecord> record;
  std::shared_ptr<const CompiledGraph::State> graph;

  size_t position(size_t output) const { return positions.empty() ? output : positions[output]; }
};

/// CompiledGraph::run_into for a device with memory of its own that did not run from the host's: copies the inputs
/// there, runs, and copies the results back. With `kept`, inputs and outputs are those that are not in it. Steps are
/// timed if there is room for their times.
std::shared_ptr<RunRecord> run_on_device(const std::shared_ptr<CompiledGraph::State>& state, Tensors inputs,
                                         std::span<Tensor> outputs, std::vector<StepTime>* steps,
                                         GraphState::Impl* kept = nullptr);
/// Calls `run`, which runs the graph once, and makes a profile of it. `run` adds the times of steps to `times`, counted
/// from when the device began; in the profile they count from the beginning of the call.
Profile timed_profile(std::vector<StepTime>& times, const std::function<std::shared_ptr<RunRecord>()>& run);
/// Begins a run with a state. `inputs` are on the graph's device and are those that the state does not have; the state
/// has the new values at once, which are ready when the run ends.
std::shared_ptr<PendingRun::State> submit_with_state(const std::shared_ptr<CompiledGraph::State>& state,
                                                     std::span<const DeviceTensor> inputs, GraphState::Impl& kept,
                                                     std::shared_ptr<RunRecord> record,
                                                     std::vector<StepTime>* steps = nullptr);
/// DeviceExecutable::run_from_host, whose copies are counted, in `record` too unless that is null. `outputs` or
/// `memory` is empty.
bool ran_from_host(const CompiledGraph::State& state, Tensors inputs, std::span<Tensor> outputs,
                   std::span<const std::span<std::byte>> memory, std::vector<StepTime>* steps,
                   const std::shared_ptr<RunRecord>& record);

}  // namespace rlx

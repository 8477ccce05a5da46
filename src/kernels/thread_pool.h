// The process's threads: one pool that every kernel shares. A call takes idle workers, runs its parts on them and
// on the calling thread, and gives them back; how many threads a call may use is the caller's choice, each time.
// Products split their work here (gemm.h); nothing else in RLX starts threads for arithmetic.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <type_traits>

namespace rlx::kernels {

/// A reference to something callable with a part number, or with a part number and a slot; it does not own it and
/// never allocates. The callable must not throw: kernels are noexcept.
class PartFunction {
 public:
  template <class Callable>
  requires(!std::is_same_v<std::remove_cvref_t<Callable>, PartFunction>) PartFunction(Callable&& callable)
  noexcept  // implicit, so that a lambda can be passed
      : object_(const_cast<void*>(static_cast<const void*>(std::addressof(callable)))),
        call_([](void* object, int64_t part, [[maybe_unused]] int slot) noexcept {
          auto& function = *static_cast<std::remove_reference_t<Callable>*>(object);
          if constexpr (std::is_invocable_v<Callable&, int64_t, int>) function(part, slot);
          else function(part);
        }) {}

  void operator()(int64_t part, int slot) const noexcept { call_(object_, part, slot); }

 private:
  void* object_;
  void (*call_)(void*, int64_t, int) noexcept;
};

class ThreadPool {
 public:
  /// More threads than this are never started, whatever width is asked for.
  static constexpr int kMaxWorkers = 255;

  /// The pool of the process. It has no threads before a call asks for a width of two, and lives until the end.
  static ThreadPool& shared();
  /// Processors that this process may run on (its affinity mask): a sensible width.
  static int hardware_threads();

  /// Calls fn(part) or fn(part, slot) once for each part in [0, parts), on the calling thread and at most width - 1
  /// others, and returns when all have returned. `slot` is below max(width, 1) and tells the threads of one call
  /// apart: a place in scratch memory. Slot t begins with the t-th share of the parts, so that equal calls find
  /// their data in the same core's cache, and then helps the others.
  ///
  /// Never blocks for want of workers: those that are busy with another caller are done without. A call from
  /// inside a part runs inline. If a thread cannot be started, the call has fewer.
  void parallel_for(int width, int64_t parts, PartFunction fn) noexcept;

  /// Workers started so far.
  int workers() const { return started_.load(std::memory_order_acquire); }

  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

 private:
  struct Worker;
  struct Job;
  ThreadPool() = default;
  ~ThreadPool() = delete;  // workers are detached and use it until the process ends

  void start_workers(int count) noexcept;
  static void work(Worker& worker) noexcept;

  std::mutex starting_;
  std::atomic<int> started_{0};
  std::atomic<bool> refused_{false};  ///< the system would not start another thread
  std::atomic<Worker*> workers_[kMaxWorkers] = {};
};

}  // namespace rlx::kernels

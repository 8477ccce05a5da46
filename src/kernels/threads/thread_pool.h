// The process's worker threads: one pool that all kernels share. A call claims idle workers, runs its tasks on them and
// on the calling thread, and releases them; each call says how many threads it may use at most. Nothing else in RLX
// starts threads for arithmetic.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <type_traits>

namespace rlx::kernels {

/// A non-owning reference to a callable of a task number, or of a task number and a slot (see parallel_for). It never
/// allocates. The callable must not throw, because kernels are noexcept.
class TaskFunction {
 public:
  template <class Callable>
  requires(!std::is_same_v<std::remove_cvref_t<Callable>, TaskFunction>) TaskFunction(Callable&& callable)
  noexcept  // the conversion is implicit, so that a lambda can be passed
      : object_(const_cast<void*>(static_cast<const void*>(std::addressof(callable)))),
        call_([](void* object, int64_t task, [[maybe_unused]] int slot) noexcept {
          auto& function = *static_cast<std::remove_reference_t<Callable>*>(object);
          if constexpr (std::is_invocable_v<Callable&, int64_t, int>) function(task, slot);
          else function(task);
        }) {}

  void operator()(int64_t task, int slot) const noexcept { call_(object_, task, slot); }

 private:
  void* object_;
  void (*call_)(void*, int64_t, int) noexcept;
};

class ThreadPool {
 public:
  /// The pool never starts more workers than this, whatever width is requested.
  static constexpr int kMaxWorkers = 255;

  /// The pool of the process. It starts no threads before the first call with a width of two or more, and is never
  /// destroyed.
  static ThreadPool& shared();
  /// The number of processors that this process may use (processor_count.h): a sensible default for `width`.
  static int hardware_threads();

  /// Calls fn(task) or fn(task, slot) once for each task in [0, tasks), on the calling thread and at most width - 1
  /// workers, and returns when all calls have returned. `slot` is below max(width, 1) and numbers the threads of this
  /// call, as an index into per-thread scratch memory. Slot t begins with the t-th contiguous share of the tasks, so
  /// that repeated calls find their data in the same core's cache, and then takes tasks from the other shares.
  ///
  /// The call never waits for workers: it uses those that are idle. A call from inside a task runs all its tasks on its
  /// own thread. If the system refuses to start a thread, the call uses fewer.
  void parallel_for(int width, int64_t tasks, TaskFunction fn) noexcept;

  /// The number of workers started so far.
  int workers() const { return started_.load(std::memory_order_acquire); }

  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

 private:
  struct Worker;
  struct Job;
  ThreadPool() = default;
  ~ThreadPool() = delete;  // workers are detached, and use the pool until the process ends

  void start_workers(int count) noexcept;
  static void work(Worker& worker) noexcept;

  std::mutex starting_;
  std::atomic<int> started_{0};
  std::atomic<bool> refused_{false};  ///< the system refused to start another thread
  std::atomic<Worker*> workers_[kMaxWorkers] = {};
};

}  // namespace rlx::kernels

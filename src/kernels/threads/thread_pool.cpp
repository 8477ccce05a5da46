// How a caller and its workers synchronize. Each worker has one atomic word, `state`: a ticket (the job's number) and a
// phase.
//
//   idle ──caller──> claimed ──caller──> posted ──worker──> running ──worker──> idle (same ticket)
//                                           └─────caller, which did the work itself──────┘
//
// A caller claims idle workers and never waits for others, so callers cannot block each other. When no task is left to
// take, the caller revokes the jobs that no worker has begun, and waits only for workers that are running. The job is
// on the caller's stack, so a worker must not access it after storing `idle`. Workers are never destroyed, so a caller
// may wait on their `state`.
//
// A worker that the system has put on the caller's own processor does not get to run: neither thread sleeps, and it
// takes the system milliseconds to see that another processor is idle. So a caller that revokes the job of such a
// worker moves it to another processor.
#include "kernels/threads/thread_pool.h"

#include <algorithm>
#include <cfenv>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <new>
#include <system_error>
#include <thread>
#include <utility>

#include "base/static_tls.h"
#include "kernels/conv/onednn.h"
#include "kernels/threads/external_pool.h"
#include "kernels/threads/processor_count.h"
#include "kernels/vector/instruction_set.h"

#if defined(__linux__)
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif
#if defined(__x86_64__) || defined(__i386__)
#include <immintrin.h>
#endif

namespace rlx::kernels {
namespace {

// A worker polls this long for its next job before it sleeps: longer than the serial work between the kernels of a run
// (a wake-up costs some 5 to 50 us), and short enough that an idle process uses almost no processor time.
constexpr std::chrono::microseconds kWorkerSpin{60};
// A caller polls this long for workers that still run a task; then it sleeps until they are done.
constexpr std::chrono::microseconds kCallerSpin{200};

constexpr uint32_t kIdle = 0, kClaimed = 1, kPosted = 2, kRunning = 3, kPhase = 3, kTicket = 4;

RLX_STATIC_TLS thread_local bool inside_task = false;

void relax() {
#if defined(__x86_64__) || defined(__i386__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Polls until `ready()` or until `limit` has passed. Reads the clock only every 32 polls, because that is slow.
template <class Ready>
bool spin_until(Ready ready, std::chrono::microseconds limit) {
  for (int i = 0; i < 32; ++i) {
    if (ready()) return true;
    relax();
  }
  auto end = std::chrono::steady_clock::now() + limit;
  do {
    for (int i = 0; i < 32; ++i) {
      if (ready()) return true;
      relax();
    }
  } while (std::chrono::steady_clock::now() < end);
  return ready();
}

// The processor that this thread runs on; -1 on systems where a thread's processor cannot be chosen.
int processor() {
#if defined(__linux__)
  return sched_getcpu();
#else
  return -1;
#endif
}

// The range of tasks that one thread begins with. Threads that have finished their own share take tasks from it.
struct alignas(64) Share {
  std::atomic<int64_t> next;
  int64_t end;
};

// Memory for the shares of one call. Only those in use are constructed: clearing all would cost each call too much.
struct Shares {
  alignas(Share) std::byte storage[sizeof(Share) * (ThreadPool::kMaxWorkers + 1)];

  Share* divide(int64_t tasks, int64_t threads) {
    Share* shares = reinterpret_cast<Share*>(storage);
    int64_t begin = 0;
    for (int64_t t = 0; t < threads; ++t) {
      int64_t end = begin + tasks / threads + (t < tasks % threads ? 1 : 0);
      new (&shares[t]) Share{begin, end};
      begin = end;
    }
    return shares;
  }
};

}  // namespace

struct ThreadPool::Job {
  TaskFunction fn;
  Share* shares;
  int threads;
  const InstructionSetLimit* limit;  ///< of the caller

  void run(int self) noexcept {
    for (int i = 0; i < threads; ++i) {
      Share& share = shares[self + i < threads ? self + i : self + i - threads];
      // An ordinary load first: an exhausted share is only read, so that its cache line stays shared between the cores.
      while (share.next.load(std::memory_order_relaxed) < share.end) {
        int64_t task = share.next.fetch_add(1, std::memory_order_relaxed);
        if (task >= share.end) break;
        fn(task, self);
      }
    }
  }
};

struct alignas(64) ThreadPool::Worker {
  std::atomic<uint32_t> state{kIdle};
  std::atomic<bool> asleep{false};      ///< the worker waits on `job_posted`
  std::atomic<int> callers_waiting{0};  ///< callers that wait on `job_done`
  int share = 0;                        ///< index of its share; written while claimed, read while running
  Job* job = nullptr;
  std::atomic<int> processor{-1};  ///< the processor it last noticed to run on; -1: unknown
  std::mutex mutex;
  std::condition_variable job_posted, job_done;
#if defined(__linux__)
  std::atomic<pid_t> thread{0};
#endif

  /// Called by the worker's thread when it starts: records its system thread id for move_away_from.
  void set_thread() noexcept {
#if defined(__linux__)
    thread.store(static_cast<pid_t>(syscall(SYS_gettid)));
#endif
  }
  /// Moves the worker to any other processor that it may use, by narrowing its affinity mask for a moment.
  void move_away_from([[maybe_unused]] int taken) noexcept {
    processor.store(-1, std::memory_order_relaxed);  // until the worker looks again
#if defined(__linux__)
    const pid_t id = thread.load();
    cpu_set_t allowed;
    if (id == 0 || sched_getaffinity(id, sizeof allowed, &allowed) != 0) return;
    cpu_set_t others = allowed;
    CPU_CLR(static_cast<size_t>(taken), &others);
    if (CPU_COUNT(&others) == 0) return;
    sched_setaffinity(id, sizeof others, &others);
    sched_setaffinity(id, sizeof allowed, &allowed);
#endif
  }
};

ThreadPool& ThreadPool::shared() {
  static ThreadPool* pool = new ThreadPool;  // never destroyed: see ~ThreadPool
  return *pool;
}

int ThreadPool::hardware_threads() { return processor_count(); }

void ThreadPool::start_workers(int count) noexcept {
  std::lock_guard lock(starting_);
  for (int i = started_.load(std::memory_order_relaxed); i < count; ++i) {
    Worker* worker = nullptr;
    try {
      worker = new Worker;
      worker->processor.store(processor(),
                              std::memory_order_relaxed);  // threads often start on the processor that created them
      std::thread([worker] { work(*worker); }).detach();
    } catch (const std::exception&) {  // out of threads or memory: use those there are, and do not try again
      delete worker;
      refused_.store(true, std::memory_order_relaxed);
      return;
    }
    workers_[i].store(worker, std::memory_order_release);
    started_.store(i + 1, std::memory_order_release);
  }
}

void ThreadPool::work(Worker& worker) noexcept {
  use_one_openmp_thread();
  inside_task = true;
  worker.set_thread();
  for (;;) {
    worker.processor.store(processor(), std::memory_order_relaxed);
    uint32_t seen = 0;
    auto posted = [&] {
      seen = worker.state.load();
      return (seen & kPhase) == kPosted;
    };
    if (!spin_until(posted, kWorkerSpin)) {
      std::unique_lock lock(worker.mutex);
      // Sequentially consistent on both sides: either the worker sees the job, or its caller sees that the worker
      // sleeps.
      worker.asleep.store(true);
      while (!posted()) worker.job_posted.wait(lock);
      worker.asleep.store(false);
    }
    if (!worker.state.compare_exchange_strong(seen, (seen & ~kPhase) | kRunning)) continue;  // revoked
    {
      const InstructionSetScope as_caller(worker.job->limit);
      worker.job->run(worker.share);
    }
    worker.state.store((seen & ~kPhase) | kIdle);
    if (worker.callers_waiting.load() > 0) {
      { std::lock_guard lock(worker.mutex); }
      worker.job_done.notify_all();
    }
  }
}

void ThreadPool::parallel_for(int width, int64_t tasks, TaskFunction fn) noexcept {
  int wanted = static_cast<int>(std::min<int64_t>({width, tasks, kMaxWorkers + 1}));
  if (wanted <= 1 || inside_task) {
    bool outer = std::exchange(inside_task, true);
    for (int64_t task = 0; task < tasks; ++task) fn(task, 0);
    inside_task = outer;
    return;
  }
  Shares shares;
  if (ThreadPoolInterface* pool = external_pool()) {
    Job job{fn, shares.divide(tasks, wanted), wanted, InstructionSetScope::current()};
    // The program's threads may round otherwise, or flush subnormals: all slots compute as the caller does.
    std::fenv_t of_caller;
    std::fegetenv(&of_caller);
    return run_on(*pool, wanted, [&](int64_t slot) {
      std::fenv_t own;
      std::fegetenv(&own);
      std::fesetenv(&of_caller);
      const SingleThreadedOpenMp single;
      const InstructionSetScope as_caller(job.limit);
      const bool outer = std::exchange(inside_task, true);
      job.run(static_cast<int>(slot));
      inside_task = outer;
      std::fesetenv(&own);
    });
  }
  if (started_.load(std::memory_order_acquire) < wanted - 1 && !refused_.load(std::memory_order_relaxed))
    start_workers(wanted - 1);

  struct Claim {
    Worker* worker;
    uint32_t ticket;
  };
  Claim claims[kMaxWorkers];
  int claimed = 0;
  int available = started_.load(std::memory_order_acquire);
  for (int i = 0; i < available && claimed < wanted - 1; ++i) {
    Worker* worker = workers_[i].load(std::memory_order_acquire);
    uint32_t state = worker->state.load(std::memory_order_relaxed);
    uint32_t ticket = (state & ~kPhase) + kTicket;  // wraps around after 2^30 jobs, harmlessly
    if ((state & kPhase) == kIdle && worker->state.compare_exchange_strong(state, ticket | kClaimed))
      claims[claimed++] = {worker, ticket};
  }

  Job job{fn, shares.divide(tasks, claimed + 1), claimed + 1, InstructionSetScope::current()};
  for (int i = 0; i < claimed; ++i) {
    Worker& worker = *claims[i].worker;
    worker.job = &job;
    worker.share = i + 1;
    worker.state.store(claims[i].ticket | kPosted);
    if (worker.asleep.load()) {
      { std::lock_guard lock(worker.mutex); }
      worker.job_posted.notify_one();
    }
  }

  inside_task = true;
  job.run(0);
  inside_task = false;

  for (int i = 0; i < claimed; ++i) {
    Worker& worker = *claims[i].worker;
    uint32_t posted = claims[i].ticket | kPosted, running = claims[i].ticket | kRunning;
    // Revokes the job of a worker that has not begun: no task is left for it.
    if (worker.state.compare_exchange_strong(posted, claims[i].ticket | kIdle)) {
      const int seen = worker.processor.load(std::memory_order_relaxed);
      if (seen >= 0 && seen == processor()) worker.move_away_from(seen);
      continue;
    }
    auto done = [&] { return worker.state.load() != running; };
    if (spin_until(done, kCallerSpin)) continue;
    std::unique_lock lock(worker.mutex);
    worker.callers_waiting.fetch_add(1);
    while (!done()) worker.job_done.wait(lock);
    worker.callers_waiting.fetch_sub(1);
  }
}

}  // namespace rlx::kernels

// How a call and its workers meet. Each worker has one word, `state`: a ticket and a phase.
//
//   idle ──caller──> claimed ──caller──> posted ──worker──> running ──worker──> idle (same ticket)
//                                           └──────caller, who did the work himself──────┘
//
// A caller claims workers that are idle and never waits for others, so callers cannot block each other. When he
// has run out of parts to take, he takes back what no worker has begun and waits only for those that run. The job
// is on the caller's stack: a worker's last touch of it comes before it stores `idle`. Workers are never
// destroyed, so a caller may wait on their words.
//
// A worker that waits on the caller's own processor never begins: both run all the time, and it takes the system
// milliseconds to see that another processor is idle. So a caller that had to take its work back sends it away.
#include "kernels/thread_pool.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <new>
#include <system_error>
#include <thread>
#include <utility>

#include "kernels/onednn.h"

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

// A worker looks for its next job this long before it sleeps: longer than the serial pieces between the kernels
// of a run (a wake-up costs some 5 to 50 us), and short enough that an idle process uses no processor.
constexpr std::chrono::microseconds kWorkerSpin{60};
// A caller polls this long for workers that still run a part; then it sleeps until they are done.
constexpr std::chrono::microseconds kCallerSpin{200};

constexpr uint32_t kIdle = 0, kClaimed = 1, kPosted = 2, kRunning = 3, kPhase = 3, kTicket = 4;

thread_local bool inside_part = false;

void relax() {
#if defined(__x86_64__) || defined(__i386__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Polls until `ready()` or until `limit` has passed; the clock is read once in a while only.
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

// The processor that this thread is on; -1 where it cannot be chosen.
int processor() {
#if defined(__linux__)
  return sched_getcpu();
#else
  return -1;
#endif
}

// The parts that one thread begins with; others take from it when they have finished theirs.
struct alignas(64) Share {
  std::atomic<int64_t> next;
  int64_t end;
};

}  // namespace

struct ThreadPool::Job {
  PartFunction fn;
  Share* shares;
  int threads;

  void run(int self) noexcept {
    for (int i = 0; i < threads; ++i) {
      Share& share = shares[self + i < threads ? self + i : self + i - threads];
      // The load first: a share that is used up is only read, and does not travel between the cores.
      while (share.next.load(std::memory_order_relaxed) < share.end) {
        int64_t part = share.next.fetch_add(1, std::memory_order_relaxed);
        if (part >= share.end) break;
        fn(part, self);
      }
    }
  }
};

struct alignas(64) ThreadPool::Worker {
  std::atomic<uint32_t> state{kIdle};
  std::atomic<bool> asleep{false};      ///< the worker waits on `job_posted`
  std::atomic<int> callers_waiting{0};  ///< callers that wait on `job_done`
  int share = 0;                        ///< written while claimed, read while running
  Job* job = nullptr;
  std::atomic<int> processor{-1};  ///< where it was seen last
  std::mutex mutex;
  std::condition_variable job_posted, job_done;
#if defined(__linux__)
  std::atomic<pid_t> thread{0};
#endif

  /// Notes as what the system knows this thread.
  void arrive() noexcept {
#if defined(__linux__)
    thread.store(static_cast<pid_t>(syscall(SYS_gettid)));
#endif
  }
  /// To any processor that it may use but this one; where it goes then is the system's choice again.
  void leave([[maybe_unused]] int taken) noexcept {
    processor.store(-1, std::memory_order_relaxed);  // until it is seen again
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

int ThreadPool::hardware_threads() {
#if defined(__linux__)
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) return std::max(1, CPU_COUNT(&set));
#endif
  return static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
}

void ThreadPool::start_workers(int count) noexcept {
  std::lock_guard lock(starting_);
  for (int i = started_.load(std::memory_order_relaxed); i < count; ++i) {
    Worker* worker = nullptr;
    try {
      worker = new Worker;
      worker->processor.store(processor(), std::memory_order_relaxed);  // threads often begin where they were made
      std::thread([worker] { work(*worker); }).detach();
    } catch (const std::exception&) {  // out of threads or memory: go on with those there are, and do not ask again
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
  inside_part = true;
  worker.arrive();
  for (;;) {
    worker.processor.store(processor(), std::memory_order_relaxed);
    uint32_t seen = 0;
    auto posted = [&] {
      seen = worker.state.load();
      return (seen & kPhase) == kPosted;
    };
    if (!spin_until(posted, kWorkerSpin)) {
      std::unique_lock lock(worker.mutex);
      // Sequentially consistent on both sides: either we see the job, or its caller sees that we sleep.
      worker.asleep.store(true);
      while (!posted()) worker.job_posted.wait(lock);
      worker.asleep.store(false);
    }
    if (!worker.state.compare_exchange_strong(seen, (seen & ~kPhase) | kRunning)) continue;  // taken back
    worker.job->run(worker.share);
    worker.state.store((seen & ~kPhase) | kIdle);
    if (worker.callers_waiting.load() > 0) {
      { std::lock_guard lock(worker.mutex); }
      worker.job_done.notify_all();
    }
  }
}

void ThreadPool::parallel_for(int width, int64_t parts, PartFunction fn) noexcept {
  int wanted = static_cast<int>(std::min<int64_t>({width, parts, kMaxWorkers + 1}));
  if (wanted <= 1 || inside_part) {
    bool outer = std::exchange(inside_part, true);
    for (int64_t part = 0; part < parts; ++part) fn(part, 0);
    inside_part = outer;
    return;
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

  // Only the shares in use are made: a call must not pay for clearing an array of kMaxWorkers.
  alignas(Share) std::byte storage[sizeof(Share) * (kMaxWorkers + 1)];
  Share* shares = reinterpret_cast<Share*>(storage);
  int64_t threads = claimed + 1, begin = 0;
  for (int64_t t = 0; t < threads; ++t) {
    int64_t end = begin + parts / threads + (t < parts % threads ? 1 : 0);
    new (&shares[t]) Share{begin, end};
    begin = end;
  }
  Job job{fn, shares, claimed + 1};
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

  inside_part = true;
  job.run(0);
  inside_part = false;

  for (int i = 0; i < claimed; ++i) {
    Worker& worker = *claims[i].worker;
    uint32_t posted = claims[i].ticket | kPosted, running = claims[i].ticket | kRunning;
    // Nothing is left to do for a worker that has not begun: it need not even wake up.
    if (worker.state.compare_exchange_strong(posted, claims[i].ticket | kIdle)) {
      const int seen = worker.processor.load(std::memory_order_relaxed);
      if (seen >= 0 && seen == processor()) worker.leave(seen);
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

// See the header. A pool is the program's own code. All that is assumed of it is that it begins no call after its
// parallel_for() has returned.
#include "kernels/threads/external_pool.h"

#include <atomic>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>

#include "base/log.h"

namespace rlx::kernels {
namespace {

std::atomic<ThreadPoolInterface*> in_use{nullptr};
std::atomic<bool> has_warned{false};  // of the pool in use

void warn_once(const char* what) noexcept {
  if (has_warned.exchange(true)) return;
  try {
    log_message(LogLevel::warning, "the thread pool that was given to set_thread_pool() failed in parallel_for: ", what,
                "; what it left out is computed on the calling thread. This is said once for each pool");
  } catch (...) {  // there is no memory to say it: the results are right all the same
  }
}

struct Slots {
  TaskFunction run;
  int count;
  std::atomic<int> ended{0};
  std::atomic<bool> begun[ThreadPool::kMaxWorkers + 1] = {};

  void call(int64_t slot) noexcept {
    if (slot < 0 || slot >= count || begun[slot].exchange(true)) return;
    run(slot, 0);
    ended.fetch_add(1);
  }
};

}  // namespace

ThreadPoolInterface* external_pool() noexcept { return in_use.load(std::memory_order_acquire); }

void run_on(ThreadPoolInterface& pool, int slots, TaskFunction run) noexcept {
  Slots all{run, slots};
  try {
    pool.parallel_for(
        slots, [](void* context, int64_t slot) { static_cast<Slots*>(context)->call(slot); }, &all);
  } catch (const std::exception& e) {
    warn_once(e.what());
  } catch (...) {
    warn_once("an exception of another type than std::exception");
  }
  for (int slot = 0; slot < slots; ++slot) all.call(slot);
  while (all.ended.load() < slots) std::this_thread::yield();  // it returned before its calls did
}

}  // namespace rlx::kernels

namespace rlx {

void set_thread_pool(std::shared_ptr<ThreadPoolInterface> pool) {
  static std::mutex mutex;
  static auto& owned = *new std::shared_ptr<ThreadPoolInterface>;  // never destroyed: see the header
  std::lock_guard lock(mutex);
  kernels::has_warned.store(false);
  kernels::in_use.store(pool.get(), std::memory_order_release);
  std::swap(owned, pool);  // the pool before ends with `pool`, after the lock
}

}  // namespace rlx

// The thread pool of the program's own, if it gave one (rlx/thread_pool.h). ThreadPool computes on it in place of its
// workers; nothing else knows of it but the default number of threads.
#pragma once

#include "kernels/threads/thread_pool.h"
#include "rlx/thread_pool.h"

namespace rlx::kernels {

/// Null: there is none, and ThreadPool has workers of its own. Stays valid until set_thread_pool() is called again,
/// which the program does while nothing else is in RLX.
ThreadPoolInterface* external_pool() noexcept;

/// Calls run(slot) once for each slot in [0, slots) and returns when all calls have returned: on `pool`, and on the
/// calling thread what the pool leaves out. At most ThreadPool::kMaxWorkers + 1 slots.
void run_on(ThreadPoolInterface& pool, int slots, TaskFunction run) noexcept;

}  // namespace rlx::kernels

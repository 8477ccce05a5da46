// The program's own thread pool, if it gave one (rlx/thread_pool.h). Users: ThreadPool, which runs tasks on it;
// cpu.cpp, for the default number of threads; measure_machine.cpp, which measures RLX's own workers alone.
#pragma once

#include "kernels/threads/thread_pool.h"
#include "rlx/thread_pool.h"

namespace rlx::kernels {

/// The pool, or null if the program gave none. The pointer is valid until the next call of set_thread_pool(), which the
/// program makes while no other thread is in a function of RLX.
ThreadPoolInterface* external_pool() noexcept;

/// Calls run(slot) once for each slot in [0, slots) on `pool`, and returns when all calls have returned. Slots that the
/// pool leaves out, as when it throws, run on the calling thread. `slots` is at most ThreadPool::kMaxWorkers + 1.
void run_on(ThreadPoolInterface& pool, int slots, TaskFunction run) noexcept;

}  // namespace rlx::kernels

// A program that has a thread pool of its own lends it to RLX, so that the two do not compete for the processors. If it
// lends none, RLX starts workers of its own, at most one fewer than the threads of the widest session.
#pragma once

#include <cstdint>
#include <memory>

namespace rlx {

/// What RLX asks of a thread pool. It is called from every thread that runs, compiles or binds, from several at once.
class ThreadPoolInterface {
 public:
  virtual ~ThreadPoolInterface() = default;

  /// How many threads compute at a time at most, the one that calls parallel_for included. A session whose
  /// SessionOptions::threads is 0 takes this number, at least 1 and at most 256.
  virtual int threads() const = 0;

  /// Calls task(context, i) once for each i in [0, count), on any threads and in any order. `count` is at most the
  /// number of threads of the session that computes.
  ///
  /// - It returns, or throws, when all calls that it began have returned, and none may begin after that.
  /// - The calling thread makes those calls that no other thread has begun, and does not wait for a thread to become
  ///   free. While it waits it runs nothing but these calls, as it may hold locks of RLX (oneTBB:
  ///   tbb::this_task_arena::isolate). Else a pool whose threads all run RLX would stand still.
  /// - The calls may be made one after the other on one thread: none waits for another one.
  ///
  /// Calls that a pool leaves out, also by throwing, are made on the calling thread, and the first failure of a pool is
  /// logged as a warning. A second call with an index is ignored.
  virtual void parallel_for(int64_t count, void (*task)(void* context, int64_t index), void* context) = 0;
};

/// Makes RLX divide its work among the threads of `pool`, or among its own workers again if `pool` is null. For one
/// number of threads the results are the same, bit by bit. The program calls this while no other thread is in a
/// function of RLX and no run goes on in the background. Sessions that exist keep their number of threads. RLX releases
/// the previous pool but never the last one, which runs may use until the process ends. A process that was forked gives
/// a pool of its own before it runs anything.
void set_thread_pool(std::shared_ptr<ThreadPoolInterface> pool);

}  // namespace rlx

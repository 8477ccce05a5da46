// Threads of the program's own: a program that has a thread pool lets RLX compute on it, so that the two do not compete
// for the processors. Without one RLX starts workers of its own, one fewer than the threads of the widest session.
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
  /// What a pool leaves out is computed on the calling thread; an index that it repeats is ignored.
  virtual void parallel_for(int64_t count, void (*task)(void* context, int64_t index), void* context) = 0;
};

/// From now on what RLX divides among threads of the processor is divided among those of `pool`, with the same results
/// for a number of threads, bit by bit. Null: among RLX's own workers, as in the beginning. To be called while no other
/// thread is in a function of RLX and no run goes on in the background. Sessions that exist keep their number of
/// threads. The pool before is let go of; the last one is never destroyed, as runs may use it until the process ends. A
/// process that is forked gives a pool of its own before it runs anything.
void set_thread_pool(std::shared_ptr<ThreadPoolInterface> pool);

}  // namespace rlx

// Threads of the program's own: a program that has a thread pool lets RLX compute on it, so that the two do not compete
// for the processors. Without one RLX starts workers of its own, of which there are as many as the widest session asks.
#pragma once

#include <cstdint>
#include <memory>

namespace rlx {

/// What RLX asks of a thread pool. It is called from every thread that runs, compiles or binds, from several at once.
class ThreadPoolInterface {
 public:
  virtual ~ThreadPoolInterface() = default;

  /// How many threads compute at a time at most, the one that calls parallel_for included: the number of a session
  /// whose SessionOptions::threads is 0. Less than 1 counts as 1.
  virtual int threads() const = 0;

  /// Calls task(context, i) once for each i in [0, count), on any threads and in any order, and returns when all calls
  /// have returned. `count` is at most the number of threads of the session that computes. The calls may run one after
  /// the other: none waits for another one, none blocks, none throws. What a pool that fails leaves out, by an
  /// exception or otherwise, is computed on the calling thread; an index that it repeats is ignored. Nothing may be
  /// called after it has returned.
  virtual void parallel_for(int64_t count, void (*task)(void* context, int64_t index), void* context) = 0;
};

/// From now on everything on the processor is computed by `pool`, and results stay what they are for a number of
/// threads, bit by bit. Null: by RLX's own workers, as in the beginning. To be called while nothing runs, compiles or
/// binds. Sessions that exist keep their number of threads.
void set_thread_pool(std::shared_ptr<ThreadPoolInterface> pool);

}  // namespace rlx

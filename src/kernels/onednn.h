// Keeps oneDNN's OpenMP runtime to one thread. Threads are ours (thread_pool.h); oneDNN is called single-threaded
// inside them. Without RLX_HAS_ONEDNN these do nothing. Neighbour: onednn_engine.h, for those that call oneDNN.
#pragma once

namespace rlx::kernels {

/// From now on OpenMP regions that this thread opens have one thread. For threads that are ours.
void use_one_openmp_thread() noexcept;

/// The same for a scope, on a thread that belongs to the user: its setting is put back at the end.
class SingleThreadedOpenMp {
 public:
  SingleThreadedOpenMp() noexcept;
  ~SingleThreadedOpenMp();
  SingleThreadedOpenMp(const SingleThreadedOpenMp&) = delete;
  SingleThreadedOpenMp& operator=(const SingleThreadedOpenMp&) = delete;

 private:
  [[maybe_unused]] int before_ = 0;  // without oneDNN nothing is set back
};

}  // namespace rlx::kernels

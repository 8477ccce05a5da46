// Limits oneDNN to one thread per call. RLX splits work over its own threads (kernels/threads/thread_pool.h), each of
// which calls oneDNN for its share; oneDNN would otherwise start a team of OpenMP threads inside each of these calls.
// Every file may include this header: in a build without oneDNN (no RLX_HAS_ONEDNN) its functions do nothing and
// has_onednn() is false. Neighbour: onednn_engine.h, only for files that call oneDNN.
#pragma once

namespace rlx::kernels {

/// True if this build contains oneDNN, and the calling thread is not held to fewer instructions than the process
/// (kernels/vector/instruction_set.h): oneDNN takes one limit for all.
bool has_onednn() noexcept;

/// Sets the number of OpenMP threads of the calling thread to 1 for good. Each thread of our pool calls it when it
/// starts.
void use_one_openmp_thread() noexcept;

/// Sets it to 1 while the object lives and then restores the previous number: for threads that belong to the user.
class SingleThreadedOpenMp {
 public:
  SingleThreadedOpenMp() noexcept;
  ~SingleThreadedOpenMp();
  SingleThreadedOpenMp(const SingleThreadedOpenMp&) = delete;
  SingleThreadedOpenMp& operator=(const SingleThreadedOpenMp&) = delete;

 private:
  [[maybe_unused]] int before_ = 0;  ///< the previous number; unused without oneDNN
};

}  // namespace rlx::kernels

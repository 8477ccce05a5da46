// Objects that own threads, one for each process: a child of fork has the memory of its parent's, but none of the
// threads.
#pragma once

#include <unistd.h>

#include <atomic>

namespace rlx {

/// The process's T, made at the first call; a child of fork gets one of its own. Never destroyed: its threads use it
/// until the process ends.
template <class T>
T& per_process() {
  struct Made {
    T object;
    const pid_t process = getpid();
  };
  static std::atomic<Made*> current{nullptr};
  Made* there = current.load(std::memory_order_acquire);
  if (there && there->process == getpid()) return there->object;
  auto* made = new Made;
  if (current.compare_exchange_strong(there, made, std::memory_order_acq_rel)) return made->object;
  delete made;  // another thread was first
  return there->object;
}

}  // namespace rlx

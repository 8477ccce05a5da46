// Threads on which runs go on beside their callers, for devices that have no order of work of their own.
#pragma once

#include <functional>
#include <memory>

#include "base/cancel_flag.h"

namespace rlx {

/// Calls `work`, which does not throw, on a thread of the runtime, and returns. If none is idle a thread is started, up
/// to two per processor (and four at least); beyond that work waits. When the process ends, work that has not begun is
/// dropped, and the rest is cancelled and waited for. On a thread of the runtime itself, `work` is called at once.
/// Fails with out_of_memory if the system gives no first thread.
void run_in_background(std::function<void()> work, std::shared_ptr<CancelFlag> cancel);
/// The number of this thread among those threads, from 1; 0 for any other.
int background_thread();

}  // namespace rlx

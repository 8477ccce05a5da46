// Threads on which runs go on beside their callers, for devices that have no order of work of their own.
#pragma once

#include <functional>
#include <memory>

#include "base/cancel_flag.h"

namespace rlx {

/// Calls `work`, which does not throw, on a thread of the run time, and returns. A thread is started while there are
/// fewer than twice as many as the process has processors and none is idle; beyond that work waits for one. When the
/// process ends, work that has not begun is dropped, and `cancel` is set of the rest, which is waited for: it uses what
/// is destroyed next. Fails with out_of_memory if the system gives no first thread.
void run_in_background(std::function<void()> work, std::shared_ptr<CancelFlag> cancel);

}  // namespace rlx

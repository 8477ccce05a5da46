// Whether a run is to stop: set by whoever cancels it, read by whoever runs it. Never taken back.
#pragma once

#include <atomic>

namespace rlx {

using CancelFlag = std::atomic<bool>;

inline bool is_cancelled(const CancelFlag* flag) { return flag && flag->load(std::memory_order_relaxed); }

}  // namespace rlx

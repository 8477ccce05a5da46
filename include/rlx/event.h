// The end of work that goes on in the background: a copy, a run.
#pragma once

#include <chrono>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>

namespace rlx {

/// A piece of work that a device has done, and when.
struct DeviceWork {
  std::string name;  ///< "a run of 'g'", "a copy of 12 bytes to the device"
  int queue = 0;     ///< which of the device's queues did it: what one queue does does not overlap
  std::chrono::steady_clock::time_point start = {}, end = {};
};

/// The end of some work on a device. It is pending, done, or failed with the first cause. Copies are the same event.
/// Any thread may query it and wait for it. Every event ends, even if its device is lost or its work is dropped.
class Event {
 public:
  /// An event that is done.
  Event() = default;

  /// Whether the work has ended, successfully or not.
  bool is_done() const noexcept;
  /// Returns when the work has ended. If it failed, throws its error: an rlx::Error, or std::bad_alloc.
  void wait() const;
  /// False if the work is still going on at the deadline; it goes on nevertheless. Throws as `wait` does.
  bool wait_until(std::chrono::steady_clock::time_point deadline) const;
  template <class Rep, class Period>
  bool wait_for(std::chrono::duration<Rep, Period> time) const {
    using std::chrono::steady_clock;
    const auto now = steady_clock::now();
    if (time >= std::chrono::hours(24 * 365)) return wait_until(steady_clock::time_point::max());  // no sum overflows
    return wait_until(now + std::chrono::duration_cast<std::chrono::nanoseconds>(time));
  }
  /// The error of the work; null while it goes on, and if it was successful.
  std::exception_ptr error() const noexcept;
  /// Calls `f` with `error()` once the work has ended, even if it has already: on a thread of RLX that serves nothing
  /// else, one call after another. Fails with out_of_memory if the system gives no such thread. What `f` throws is
  /// written to the error stream; calls that have not begun when the process ends are dropped.
  void on_done(std::function<void(std::exception_ptr error)> f) const;
  /// What was done, once it has ended; nothing before, for work that never began, and where the device does not say.
  std::optional<DeviceWork> work() const;
  /// The name of the device that the work is on; empty for an event that was done from the beginning.
  std::string device() const;

  struct State;

 private:
  friend class EventSource;
  explicit Event(std::shared_ptr<State> state) : state_(std::move(state)) {}
  std::shared_ptr<State> state_;  // null: done, and well
};

/// Waits until all of the events have ended. Then throws the error of the first one in the list that failed, if any.
void wait_for_all(std::span<const Event> events);

}  // namespace rlx

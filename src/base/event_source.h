// The other end of an event: whoever does the work says here that it has ended.
#pragma once

#include <atomic>
#include <vector>

#include "rlx/event.h"

namespace rlx {

/// Ends one event, once; later calls are ignored, so that a lost device and the work itself need not agree on who says
/// it. Copies end the same event. When the last copy goes and nobody has ended it, it fails: nothing waits for ever.
class EventSource {
 public:
  /// `device`: its name. `work`: what ends, as an error would call it ("a run of 'g'").
  EventSource(const std::string& device, std::string work);

  Event event() const;
  /// Notes that the work begins now, on a queue of the device; for Event::work.
  void begin(int queue) const noexcept;
  void finish() const noexcept;
  void fail(std::exception_ptr error) const noexcept;

  /// Calls `f` with the first cause once the event has ended: at once if it has, else on the thread that ends it. For
  /// what continues on a device: `f` must not throw, wait, or call code from outside the library.
  static void when_done(const Event& event, std::function<void(std::exception_ptr)> f);
  /// The same once all of them have ended, with the error of the first in the list that failed.
  static void when_all_done(std::vector<Event> events, std::function<void(std::exception_ptr)> f);

 private:
  struct Owner;
  std::shared_ptr<Owner> owner_;
};

/// Throws a copy of an rlx::Error, so that several threads that rethrow one cause do not write to the same text (a
/// class derived from it becomes an rlx::Error); any other exception as it is.
[[noreturn]] void rethrow_copy(const std::exception_ptr& error);

}  // namespace rlx

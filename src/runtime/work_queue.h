// The order of work of a device that has none of its own: threads that take work once the events before it have ended.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <random>
#include <span>
#include <thread>
#include <vector>

#include "base/cancel_flag.h"
#include "base/event_source.h"

namespace rlx {

class WorkQueue {
 public:
  /// `delays`: each piece of work may wait a little before it begins, and any that is ready may be the next.
  WorkQueue(std::string device, size_t threads, bool delays);
  ~WorkQueue();
  /// Ends what is under way; what has not begun fails, and so does what is added from then on.
  void close();

  /// Calls `work` on a thread of the queue once all of `after` have ended well; the event ends with it, and fails with
  /// what it throws, or with the first cause of what it waited for.
  /// `cancel`, if given, is set of work that is under way when the queue closes, so that it ends.
  Event add(std::string name, std::function<void()> work, std::span<const Event> after,
            std::shared_ptr<CancelFlag> cancel = {});
  /// Whether the queue is closing: stalled work must end.
  bool is_closing() const;
  /// Whether this is one of the threads of any queue.
  static bool is_own_thread();

 private:
  struct Work {
    std::string name;
    std::function<void()> run;
    EventSource source;
    std::shared_ptr<CancelFlag> cancel;
  };
  /// Outlives the queue, for work that waits for other devices' events.
  struct Shared {
    std::mutex mutex;
    std::condition_variable changed;
    std::vector<std::shared_ptr<Work>> ready, under_way;
    bool is_closed = false;
  };
  void serve(size_t thread);

  const std::string device_;
  const bool delays_;
  const int process_;  // a child of fork has none of the threads
  const std::shared_ptr<Shared> shared_ = std::make_shared<Shared>();
  std::vector<std::thread> threads_;
};

}  // namespace rlx

// Events and what ends them; see rlx/event.h and base/event_source.h.
#include "rlx/event.h"

#include <condition_variable>
#include <deque>
#include <iostream>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "base/event_source.h"
#include "rlx/error.h"

namespace rlx {

struct Event::State {
  std::string device, work;
  std::mutex mutex;
  std::condition_variable changed;
  std::atomic<bool> is_done{false};
  std::exception_ptr error;                                        // fixed once is_done is true
  std::vector<std::function<void(std::exception_ptr)>> next = {};  // called when it ends

  void end(std::exception_ptr with) noexcept {
    std::vector<std::function<void(std::exception_ptr)>> calls;
    {
      std::scoped_lock lock(mutex);
      if (is_done.load(std::memory_order_relaxed)) return;
      error = std::move(with);
      is_done.store(true, std::memory_order_release);
      calls.swap(next);
    }
    changed.notify_all();
    call_in_turn(std::move(calls), error);
  }

  /// Calls them behind those that this thread is already calling: the end of one event may end the next, and a chain of
  /// ten thousand that fail must not be as many calls within each other.
  static void call_in_turn(std::vector<std::function<void(std::exception_ptr)>> calls,
                           const std::exception_ptr& error) {
    using Call = std::pair<std::function<void(std::exception_ptr)>, std::exception_ptr>;
    thread_local std::deque<Call>* waiting = nullptr;
    if (calls.empty()) return;
    if (waiting) {
      for (auto& call : calls) waiting->emplace_back(std::move(call), error);
      return;
    }
    std::deque<Call> own;
    waiting = &own;
    for (auto& call : calls) own.emplace_back(std::move(call), error);
    while (!own.empty()) {
      const Call call = std::move(own.front());
      own.pop_front();
      call.first(call.second);
    }
    waiting = nullptr;
  }
};

namespace {

/// Runs the callbacks of users, one after another, on one thread. It lives until the process ends.
class CallbackThread {
 public:
  static CallbackThread& shared() {
    static auto* one = new CallbackThread;  // never destroyed: an event may end while the process does
    return *one;
  }
  void post(std::function<void()> call) {
    {
      std::scoped_lock lock(mutex_);
      calls_.push_back(std::move(call));
    }
    changed_.notify_one();
  }
  /// Fails if the system gives no thread; then nothing may be posted.
  void start() {
    std::scoped_lock lock(mutex_);
    if (is_started_) return;
    try {
      std::thread([this] { work(); }).detach();
    } catch (const std::system_error& e) {
      fail(ErrorCode::out_of_memory, "there is no thread for functions that are called when an event ends: ", e.what());
    }
    is_started_ = true;
  }

 private:
  [[noreturn]] void work() noexcept {
    for (;;) {
      std::function<void()> call;
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [this] { return !calls_.empty(); });
        call = std::move(calls_.front());
        calls_.pop_front();
      }
      try {
        call();
      } catch (const std::exception& e) {
        std::cerr << "rlx: a function that was called when an event ended threw: " << e.what() << '\n';
      } catch (...) {
        std::cerr << "rlx: a function that was called when an event ended threw what is no std::exception\n";
      }
    }
  }
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> calls_;
  bool is_started_ = false;
};

}  // namespace

void rethrow_copy(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const Error& e) {
    throw Error(e);
  }
}

bool Event::is_done() const noexcept { return !state_ || state_->is_done.load(std::memory_order_acquire); }

void Event::wait() const {
  if (!state_) return;
  if (!is_done()) {
    std::unique_lock lock(state_->mutex);
    state_->changed.wait(lock, [this] { return is_done(); });
  }
  if (state_->error) rethrow_copy(state_->error);
}

bool Event::wait_until(std::chrono::steady_clock::time_point deadline) const {
  if (!state_) return true;
  if (deadline == std::chrono::steady_clock::time_point::max()) {
    wait();
    return true;
  }
  if (!is_done()) {
    std::unique_lock lock(state_->mutex);
    if (!state_->changed.wait_until(lock, deadline, [this] { return is_done(); })) return false;
  }
  if (state_->error) rethrow_copy(state_->error);
  return true;
}

std::exception_ptr Event::error() const noexcept { return state_ && is_done() ? state_->error : nullptr; }

void Event::on_done(std::function<void(std::exception_ptr)> f) const {
  if (!f) fail(ErrorCode::invalid_argument, "on_done was given no function");
  CallbackThread::shared().start();  // while there is a caller who can be told
  EventSource::when_done(*this, [f = std::move(f)](std::exception_ptr error) {
    CallbackThread::shared().post([f, error = std::move(error)] { f(error); });
  });
}

std::string Event::device() const { return state_ ? state_->device : std::string(); }

void wait_for_all(std::span<const Event> events) {
  std::exception_ptr first;
  for (const Event& event : events) try {
      event.wait();
    } catch (...) {
      if (!first) first = std::current_exception();
    }
  if (first) std::rethrow_exception(first);
}

struct EventSource::Owner {
  std::shared_ptr<Event::State> state = std::make_shared<Event::State>();
  ~Owner() {
    if (!state->is_done.load(std::memory_order_acquire))
      state->end(std::make_exception_ptr(
          Error(ErrorCode::internal, text_of(state->work, " on ", state->device, " was dropped before it had ended"))));
  }
};

EventSource::EventSource(const std::string& device, std::string work) : owner_(std::make_shared<Owner>()) {
  owner_->state->device = device;
  owner_->state->work = std::move(work);
}
Event EventSource::event() const { return Event(owner_->state); }
void EventSource::finish() const noexcept { owner_->state->end(nullptr); }
void EventSource::fail(std::exception_ptr error) const noexcept { owner_->state->end(std::move(error)); }

void EventSource::when_done(const Event& event, std::function<void(std::exception_ptr)> f) {
  if (event.state_) {
    std::scoped_lock lock(event.state_->mutex);
    if (!event.state_->is_done.load(std::memory_order_relaxed)) {
      event.state_->next.push_back(std::move(f));
      return;
    }
  }
  f(event.error());
}

void EventSource::when_all_done(std::vector<Event> events, std::function<void(std::exception_ptr)> f) {
  std::erase_if(events, [](const Event& e) { return e.is_done() && !e.error(); });
  if (events.empty()) return f(nullptr);
  struct Waiting {
    std::vector<Event> events;
    std::function<void(std::exception_ptr)> f;
    std::atomic<size_t> left;
  };
  std::shared_ptr<Waiting> waiting(new Waiting{std::move(events), std::move(f), {0}});
  waiting->left = waiting->events.size();
  for (const Event& event : waiting->events)
    when_done(event, [waiting](std::exception_ptr) {
      if (waiting->left.fetch_sub(1) > 1) return;
      std::exception_ptr first;
      for (const Event& each : waiting->events)
        if (!first) first = each.error();
      waiting->f(first);
    });
}

}  // namespace rlx

// Events and what ends them; see rlx/event.h and base/event_source.h.
#include "rlx/event.h"

#include <condition_variable>
#include <cstdlib>
#include <list>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "base/event_source.h"
#include "base/log.h"
#include "base/per_process.h"
#include "rlx/error.h"

namespace rlx {

namespace {

/// What is called when an event ends. A list of them is spliced from place to place, so that ending allocates nothing:
/// it must not fail.
struct Call {
  std::function<void(std::exception_ptr)> f;
  std::exception_ptr error = {};
};

/// Calls them behind those that this thread is already calling: the end of one event may end the next, and a chain of
/// ten thousand that fail must not be as many calls within each other.
void call_in_turn(std::list<Call> calls) noexcept {
  thread_local std::list<Call>* waiting = nullptr;
  if (waiting) return waiting->splice(waiting->end(), calls);
  waiting = &calls;
  while (!calls.empty()) {
    std::list<Call> one;
    one.splice(one.begin(), calls, calls.begin());
    one.front().f(one.front().error);
  }
  waiting = nullptr;
}

}  // namespace

struct Event::State {
  std::string device, work;
  std::mutex mutex;
  std::condition_variable changed;
  std::atomic<bool> is_done{false};
  std::exception_ptr error;   // fixed once is_done is true
  std::list<Call> next = {};  // called when it ends
  // Fixed once is_done is true; no queue: it never began, or nobody said so.
  std::optional<int> queue = {};
  std::chrono::steady_clock::time_point began = {}, ended = {};

  void end(std::exception_ptr with) noexcept {
    std::list<Call> calls;
    {
      std::scoped_lock lock(mutex);
      if (is_done.load(std::memory_order_relaxed)) return;
      error = std::move(with);
      if (queue) ended = std::chrono::steady_clock::now();
      is_done.store(true, std::memory_order_release);
      calls.splice(calls.begin(), next);
    }
    changed.notify_all();
    for (Call& call : calls) call.error = error;
    call_in_turn(std::move(calls));
  }
};

namespace {

/// A copy of an rlx::Error, so that several threads that rethrow one cause do not write to the same text.
std::exception_ptr copy_of(const std::exception_ptr& error) {
  if (!error) return nullptr;
  try {
    std::rethrow_exception(error);
  } catch (const Error& e) {
    return std::make_exception_ptr(Error(e));
  } catch (...) {
    return std::current_exception();
  }
}

/// Runs the callbacks of users, one after another, on one thread.
class CallbackThread {
 public:
  static CallbackThread& shared() { return per_process<CallbackThread>(); }
  /// Fails if the system gives no thread; then nothing may be posted.
  void start() {
    std::scoped_lock lock(mutex_);
    if (is_started_) return;
    try {
      thread_ = std::thread([this] { work(); });
    } catch (const std::system_error& e) {
      fail(ErrorCode::out_of_memory, "there is no thread for functions that are called when an event ends: ", e.what());
    }
    is_started_ = true;
    std::atexit([] { shared().close(); });
  }
  /// Takes the one call of the list, and allocates nothing.
  void post(std::list<Call>& call) noexcept {
    {
      std::scoped_lock lock(mutex_);
      if (is_closing_) return;
      calls_.splice(calls_.end(), call);
    }
    changed_.notify_one();
  }

 private:
  /// When the process ends: what a call uses is destroyed next, so the one under way is waited for, and no other
  /// begins.
  void close() {
    std::list<Call> dropped;
    {
      std::scoped_lock lock(mutex_);
      if (!is_started_) return;
      is_closing_ = true;
      dropped.splice(dropped.begin(), calls_);
    }
    changed_.notify_all();
    if (thread_.get_id() == std::this_thread::get_id()) thread_.detach();  // a call ends the process
    else if (thread_.joinable()) thread_.join();
  }
  void work() noexcept {
    for (;;) {
      std::list<Call> one;
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [this] { return is_closing_ || !calls_.empty(); });
        if (is_closing_) return;
        one.splice(one.begin(), calls_, calls_.begin());
      }
      try {
        one.front().f(copy_of(one.front().error));
      } catch (const std::exception& e) {
        log_message(LogLevel::error, "a function that was called when an event ended threw: ", e.what());
      } catch (...) {
        log_message(LogLevel::error, "a function that was called when an event ended threw what is no std::exception");
      }
    }
  }
  std::mutex mutex_;
  std::condition_variable changed_;
  std::list<Call> calls_;
  std::thread thread_;
  bool is_started_ = false, is_closing_ = false;
};

}  // namespace

void rethrow_copy(const std::exception_ptr& error) { std::rethrow_exception(copy_of(error)); }

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

std::exception_ptr Event::error() const noexcept { return state_ && is_done() ? copy_of(state_->error) : nullptr; }

void Event::on_done(std::function<void(std::exception_ptr)> f) const {
  if (!f) fail(ErrorCode::invalid_argument, "on_done was given no function");
  CallbackThread::shared().start();  // while there is a caller who can be told
  // The call is made now: when the event ends, nothing is allocated.
  auto call = std::make_shared<std::list<Call>>();
  call->push_back({std::move(f)});
  EventSource::when_done(*this, [call = std::move(call)](std::exception_ptr error) {
    call->front().error = std::move(error);
    CallbackThread::shared().post(*call);
  });
}

std::optional<DeviceWork> Event::work() const {
  if (!state_ || !is_done() || !state_->queue) return std::nullopt;
  return DeviceWork{state_->work, *state_->queue, state_->began, state_->ended};
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
    if (state->is_done.load(std::memory_order_acquire)) return;
    try {
      rlx::fail(ErrorCode::internal, state->work, " on ", state->device, " was dropped before it had ended");
    } catch (...) {  // it, or that no memory was left for it
      state->end(std::current_exception());
    }
  }
};

EventSource::EventSource(const std::string& device, std::string work) : owner_(std::make_shared<Owner>()) {
  owner_->state->device = device;
  owner_->state->work = std::move(work);
}
Event EventSource::event() const { return Event(owner_->state); }
void EventSource::begin(int queue) const noexcept {
  std::scoped_lock lock(owner_->state->mutex);
  if (owner_->state->is_done.load(std::memory_order_relaxed)) return;
  owner_->state->queue = queue;
  owner_->state->began = std::chrono::steady_clock::now();
}
void EventSource::finish() const noexcept { owner_->state->end(nullptr); }
void EventSource::fail(std::exception_ptr error) const noexcept { owner_->state->end(std::move(error)); }

void EventSource::when_done(const Event& event, std::function<void(std::exception_ptr)> f) {
  if (event.state_) {
    std::scoped_lock lock(event.state_->mutex);
    if (!event.state_->is_done.load(std::memory_order_relaxed)) {
      event.state_->next.push_back({std::move(f)});
      return;
    }
  }
  f(event.state_ ? event.state_->error : nullptr);
}

void EventSource::when_all_done(std::vector<Event> events, std::function<void(std::exception_ptr)> f) {
  std::erase_if(events, [](const Event& e) { return !e.state_ || (e.is_done() && !e.state_->error); });
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
        if (!first && each.state_) first = each.state_->error;
      waiting->f(first);
    });
}

}  // namespace rlx

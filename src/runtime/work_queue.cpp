// See the header.
#include "runtime/work_queue.h"

#include <unistd.h>

#include <chrono>
#include <system_error>

#include "rlx/error.h"

namespace rlx {
namespace {

thread_local bool is_own = false;

}  // namespace

bool WorkQueue::is_own_thread() { return is_own; }

WorkQueue::WorkQueue(std::string device, size_t threads, bool delays)
    : device_(std::move(device)), delays_(delays), process_(getpid()) {
  shared_->under_way.resize(threads);
  try {
    for (size_t t = 0; t < threads; ++t) threads_.emplace_back([this, t] { serve(t); });
  } catch (const std::system_error& e) {
    close();
    fail(ErrorCode::out_of_memory, "there is no thread for the queue of ", device_, ": ", e.what());
  }
}
WorkQueue::~WorkQueue() {
  if (getpid() == process_) {
    close();
    return;
  }
  // The parent's threads are not here to be joined, nor to be detached, and the condition would wait for them: both
  // stay.
  new std::vector<std::thread>(std::move(threads_));
  new std::shared_ptr<Shared>(shared_);
}
void WorkQueue::close() {
  {
    std::scoped_lock lock(shared_->mutex);
    shared_->is_closed = true;
    for (const auto& work : shared_->under_way)
      if (work && work->cancel) work->cancel->store(true, std::memory_order_relaxed);
  }
  shared_->changed.notify_all();
  for (std::thread& thread : threads_)
    if (thread.get_id() == std::this_thread::get_id()) thread.detach();  // what runs there ends the process
    else if (thread.joinable()) thread.join();
  std::vector<std::shared_ptr<Work>> dropped;
  {
    std::scoped_lock lock(shared_->mutex);
    dropped.swap(shared_->ready);
  }
  dropped.clear();  // events that nobody ends any more fail
}

bool WorkQueue::is_closing() const {
  std::scoped_lock lock(shared_->mutex);
  return shared_->is_closed;
}

Event WorkQueue::add(std::string name, std::function<void()> work, std::span<const Event> after,
                     std::shared_ptr<CancelFlag> cancel) {
  EventSource source(device_, name);
  Event event = source.event();
  std::shared_ptr<Work> added(new Work{std::move(name), std::move(work), std::move(source), std::move(cancel)});
  EventSource::when_all_done({after.begin(), after.end()}, [shared = shared_, added](std::exception_ptr error) {
    if (error) {
      added->run = nullptr;  // what it keeps goes before the event ends
      return added->source.fail(error);
    }
    {
      std::scoped_lock lock(shared->mutex);
      if (shared->is_closed) return;
      shared->ready.push_back(added);
    }
    shared->changed.notify_one();
  });
  return event;
}

void WorkQueue::serve(size_t thread) {
  is_own = true;
  std::minstd_rand random(static_cast<unsigned>(thread) + 1);
  for (;;) {
    std::shared_ptr<Work> work;
    {
      std::unique_lock lock(shared_->mutex);
      shared_->changed.wait(lock, [this] { return shared_->is_closed || !shared_->ready.empty(); });
      if (shared_->is_closed) return;
      const size_t at = delays_ ? random() % shared_->ready.size() : 0;
      work = std::move(shared_->ready[at]);
      shared_->ready.erase(shared_->ready.begin() + static_cast<std::ptrdiff_t>(at));
      shared_->under_way[thread] = work;
    }
    work->source.begin(static_cast<int>(thread));
    if (delays_ && random() % 8 == 0) std::this_thread::sleep_for(std::chrono::microseconds(random() % 200));
    std::exception_ptr error;
    try {
      with_context([&] { return text_of("doing ", work->name, " on ", device_); }, work->run);
    } catch (...) {
      error = std::current_exception();
    }
    work->run = nullptr;
    {
      std::scoped_lock lock(shared_->mutex);
      shared_->under_way[thread] = nullptr;
    }
    if (error) work->source.fail(error);
    else work->source.finish();
  }
}

}  // namespace rlx

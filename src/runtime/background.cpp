// See the header.
#include "runtime/background.h"

#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <cstdlib>
#include <deque>
#include <mutex>
#include <set>
#include <system_error>
#include <thread>
#include <vector>

#include "rlx/error.h"

namespace rlx {
namespace {

struct Work {
  std::function<void()> run;
  std::shared_ptr<CancelFlag> cancel;
};

class Workers {
 public:
  static Workers& shared() {
    // Never destroyed: a child of fork has none of the threads, and would wait for them.
    static auto* all = [] {
      auto* made = new Workers;
      std::atexit([] { shared().close(); });
      return made;
    }();
    return *all;
  }
  void add(Work work) {
    {
      std::scoped_lock lock(mutex_);
      if (is_closing_) return;  // the event of what is dropped fails
      if (idle_ <= waiting_.size() && threads_.size() < most_) start();
      waiting_.push_back(std::move(work));
    }
    changed_.notify_one();
  }

 private:
  void close() {
    if (getpid() != process_) return;
    std::unique_lock lock(mutex_);
    is_closing_ = true;
    std::deque<Work> dropped = std::move(waiting_);
    for (const auto& cancel : under_way_) cancel->store(true, std::memory_order_relaxed);
    lock.unlock();
    changed_.notify_all();
    dropped.clear();
    for (std::thread& thread : threads_) thread.join();
  }
  Workers() : most_(2 * std::max<size_t>(2, std::thread::hardware_concurrency())) {}
  void start() {
    try {
      threads_.emplace_back([this] { serve(); });
    } catch (const std::system_error& e) {
      if (threads_.empty())
        fail(ErrorCode::out_of_memory, "there is no thread for a run in the background: ", e.what());
    }
  }
  void serve() noexcept {
    std::unique_lock lock(mutex_);
    for (;;) {
      ++idle_;
      changed_.wait(lock, [this] { return is_closing_ || !waiting_.empty(); });
      --idle_;
      if (is_closing_) return;
      Work work = std::move(waiting_.front());
      waiting_.pop_front();
      const auto at = under_way_.insert(work.cancel).first;
      lock.unlock();
      work.run();
      work.run = nullptr;  // what it keeps goes before the lock is taken
      lock.lock();
      under_way_.erase(at);
    }
  }

  const size_t most_;
  const pid_t process_ = getpid();
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Work> waiting_;
  std::set<std::shared_ptr<CancelFlag>> under_way_;
  std::vector<std::thread> threads_;
  size_t idle_ = 0;
  bool is_closing_ = false;
};

}  // namespace

void run_in_background(std::function<void()> work, std::shared_ptr<CancelFlag> cancel) {
  Workers::shared().add({std::move(work), std::move(cancel)});
}

}  // namespace rlx

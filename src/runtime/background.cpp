// See the header.
#include "runtime/background.h"

#include <algorithm>
#include <condition_variable>
#include <cstdlib>
#include <list>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include "base/per_process.h"
#include "rlx/error.h"

namespace rlx {
namespace {

struct Work {
  std::function<void()> run;
  std::shared_ptr<CancelFlag> cancel;
};

thread_local int worker = 0;  // from 1; 0 on a thread that is none

class Workers {
 public:
  Workers() : most_(2 * std::max<size_t>(2, std::thread::hardware_concurrency())) {}
  static Workers& shared() { return per_process<Workers>(); }

  void add(Work work) {
    // A run that another one waits for must not wait for its thread.
    if (worker > 0) return work.run();
    {
      std::scoped_lock lock(mutex_);
      if (is_closing_) return;  // the event of what is dropped fails
      if (idle_ <= waiting_.size() && threads_.size() < most_) start();
      waiting_.push_back(std::move(work));
    }
    changed_.notify_one();
  }

 private:
  /// With the lock.
  void start() {
    try {
      threads_.emplace_back([this, number = static_cast<int>(threads_.size()) + 1] { serve(number); });
    } catch (const std::system_error& e) {
      if (threads_.empty())
        fail(ErrorCode::out_of_memory, "there is no thread for a run in the background: ", e.what());
    }
    if (threads_.size() == 1) std::atexit([] { shared().close(); });
  }
  void close() {
    std::list<Work> dropped;
    {
      std::scoped_lock lock(mutex_);
      is_closing_ = true;
      dropped.splice(dropped.begin(), waiting_);
      for (const Work& work : under_way_) work.cancel->store(true, std::memory_order_relaxed);
    }
    changed_.notify_all();
    dropped.clear();
    for (std::thread& thread : threads_)
      if (thread.get_id() == std::this_thread::get_id()) thread.detach();  // what runs there ends the process
      else if (thread.joinable()) thread.join();
  }
  void serve(int number) noexcept {
    worker = number;
    std::unique_lock lock(mutex_);
    for (;;) {
      ++idle_;
      changed_.wait(lock, [this] { return is_closing_ || !waiting_.empty(); });
      --idle_;
      if (is_closing_) return;
      under_way_.splice(under_way_.begin(), waiting_, waiting_.begin());  // allocates nothing: it must not fail
      const auto work = under_way_.begin();
      lock.unlock();
      work->run();
      work->run = nullptr;  // what it keeps goes before the lock is taken
      lock.lock();
      under_way_.erase(work);
    }
  }

  const size_t most_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::list<Work> waiting_, under_way_;
  std::vector<std::thread> threads_;
  size_t idle_ = 0;
  bool is_closing_ = false;
};

}  // namespace

int background_thread() { return worker; }

void run_in_background(std::function<void()> work, std::shared_ptr<CancelFlag> cancel) {
  Workers::shared().add({std::move(work), std::move(cancel)});
}

}  // namespace rlx

// See the header.
#include "runtime/background.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <system_error>
#include <thread>

#include "rlx/error.h"

namespace rlx {
namespace {

class Workers {
 public:
  static Workers& shared() {
    static auto* all = new Workers;  // never destroyed: the threads use it until the process ends
    return *all;
  }
  void add(std::function<void()> work) {
    {
      std::scoped_lock lock(mutex_);
      if (idle_ <= work_.size() && threads_ < most_) start();
      work_.push_back(std::move(work));
    }
    changed_.notify_one();
  }

 private:
  Workers() : most_(2 * std::max<size_t>(2, std::thread::hardware_concurrency())) {}
  void start() {
    try {
      std::thread([this] { serve(); }).detach();
      ++threads_;
    } catch (const std::system_error& e) {
      if (threads_ == 0) fail(ErrorCode::out_of_memory, "there is no thread for a run in the background: ", e.what());
    }
  }
  [[noreturn]] void serve() noexcept {
    std::unique_lock lock(mutex_);
    for (;;) {
      ++idle_;
      changed_.wait(lock, [this] { return !work_.empty(); });
      --idle_;
      std::function<void()> work = std::move(work_.front());
      work_.pop_front();
      lock.unlock();
      work();
      work = nullptr;  // what it keeps goes before the lock is taken
      lock.lock();
    }
  }

  const size_t most_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> work_;
  size_t threads_ = 0, idle_ = 0;
};

}  // namespace

void run_in_background(std::function<void()> work) { Workers::shared().add(std::move(work)); }

}  // namespace rlx

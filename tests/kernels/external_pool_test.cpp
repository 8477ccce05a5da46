// A thread pool of the program's own in place of RLX's workers, also one that does not do what it should.
#include "kernels/threads/external_pool.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <cfenv>
#include <chrono>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "rlx/log.h"

using namespace rlx;
using kernels::ThreadPool;

namespace {

using Task = std::function<void(int64_t)>;
/// A pool whose parallel_for is a function.
struct Pool : ThreadPoolInterface {
  std::function<void(int64_t, const Task&)> how;
  explicit Pool(std::function<void(int64_t, const Task&)> f) : how(std::move(f)) {}
  int threads() const override { return 4; }
  void parallel_for(int64_t count, void (*task)(void*, int64_t), void* context) override {
    how(count, [&](int64_t i) { task(context, i); });
  }
};
/// RLX computes on such a pool while this lives.
struct Given {
  explicit Given(std::function<void(int64_t, const Task&)> how) {
    set_thread_pool(std::make_shared<Pool>(std::move(how)));
  }
  ~Given() { set_thread_pool(nullptr); }
};
void on_threads(int64_t count, const Task& task) {
  std::vector<std::thread> threads;
  for (int64_t i = 0; i < count; ++i) threads.emplace_back([&, i] { task(i); });
  for (std::thread& thread : threads) thread.join();
}

std::vector<int> counts(int width, int tasks) {
  std::vector<std::atomic<int>> called(static_cast<size_t>(tasks));
  ThreadPool::shared().parallel_for(width, tasks, [&](int64_t task) { ++called[static_cast<size_t>(task)]; });
  return {called.begin(), called.end()};
}
void check_each_once() {
  for (int width : {1, 2, 3, 64})
    for (int tasks : {0, 1, 2, 7, 1000}) {
      CAPTURE(width);
      CAPTURE(tasks);
      CHECK(counts(width, tasks) == std::vector<int>(static_cast<size_t>(tasks), 1));
    }
}

}  // namespace

TEST_CASE("each task runs once on the program's pool, and RLX starts no worker") {
  const int workers = ThreadPool::shared().workers();
  std::atomic<int64_t> most = 0, calls = 0;
  {
    const Given given([&](int64_t count, const Task& task) {
      ++calls, most = std::max<int64_t>(most, count);
      on_threads(count, task);
    });
    check_each_once();
    CHECK(calls > 0);
    CHECK(most == 64);
    const int64_t before = calls;
    ThreadPool::shared().parallel_for(1, 100, [](int64_t) {});  // what needs one thread does not ask the pool
    CHECK(calls == before);
    CHECK(ThreadPool::shared().workers() == workers);
  }
  const int64_t before = calls;
  CHECK(counts(2, 10) == std::vector<int>(10, 1));
  CHECK(calls == before);
}

TEST_CASE("slots number the threads of a call, and tasks within tasks run on the thread of theirs") {
  const Given given(on_threads);
  std::vector<std::atomic<int>> in_slot(3);
  std::atomic<int> bad = 0, inner = 0;
  ThreadPool::shared().parallel_for(3, 300, [&](int64_t, int slot) {
    if (slot < 0 || slot >= 3 || ++in_slot[static_cast<size_t>(slot)] != 1) ++bad;
    const auto self = std::this_thread::get_id();
    ThreadPool::shared().parallel_for(3, 2, [&](int64_t) { self == std::this_thread::get_id() ? ++inner : ++bad; });
    --in_slot[static_cast<size_t>(slot)];
  });
  CHECK(bad == 0);
  CHECK(inner == 600);
}

TEST_CASE("a pool may run all on the calling thread, in any order, and some twice") {
  {
    const Given given([](int64_t count, const Task& task) {
      for (int64_t i = count; i-- > 0;) task(i), task(i);
    });
    check_each_once();
  }
  const Given given([](int64_t count, const Task& task) { task(-1), task(count), task(int64_t{1} << 40); });
  check_each_once();  // it left everything out
}

TEST_CASE("a pool that throws leaves nothing out, and is told of once") {
  std::vector<std::string> said;
  set_log_sink([&](LogLevel, std::string_view message) { said.emplace_back(message); });
  {
    const Given given([](int64_t, const Task& task) {
      task(1);
      throw std::runtime_error("no more threads");
    });
    check_each_once();
  }
  {
    const Given given([](int64_t, const Task&) { throw 5; });
    check_each_once();
  }
  set_log_sink({});
  REQUIRE(said.size() == 2);
  CHECK(said[0].find("set_thread_pool() failed in parallel_for: no more threads") != std::string::npos);
}

TEST_CASE("a pool that returns before its calls do is waited for") {
  std::vector<std::thread> late;
  std::atomic<int> running = 0, done = 0;
  {
    const Given given([&](int64_t count, const Task& task) {
      for (int64_t i = 0; i < count; ++i) late.emplace_back(task, i);
      while (running < count) std::this_thread::yield();
    });
    ThreadPool::shared().parallel_for(2, 2, [&](int64_t) {
      ++running;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      ++done;
    });
    CHECK(done == 2);
  }
  for (std::thread& thread : late) thread.join();
}

TEST_CASE("threads of the pool compute in the caller's floating-point environment, and get theirs back") {
  std::atomic<int> other = 0, kept = 0;
  {
    const Given given([&](int64_t count, const Task& task) {
      on_threads(count, [&](int64_t i) {
        std::fesetround(FE_TOWARDZERO);
        task(i);
        kept += std::fegetround() == FE_TOWARDZERO;
      });
    });
    ThreadPool::shared().parallel_for(4, 400, [&](int64_t) { other += std::fegetround() != FE_TONEAREST; });
  }
  CHECK(other == 0);
  CHECK(kept == 4);
}

TEST_CASE("the pool before is let go of when another one is given") {
  auto first = std::make_shared<Pool>(on_threads);
  const std::weak_ptr<Pool> watched = first;
  set_thread_pool(std::move(first));
  CHECK(!watched.expired());
  set_thread_pool(nullptr);
  CHECK(watched.expired());
}

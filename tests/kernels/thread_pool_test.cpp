#include "kernels/threads/thread_pool.h"

#include <doctest/doctest.h>
#if defined(__linux__)
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

using rlx::kernels::ThreadPool;

namespace {

// How often each task was called, in a call of that width.
std::vector<int> counts(int width, int tasks) {
  std::vector<std::atomic<int>> called(tasks);
  ThreadPool::shared().parallel_for(width, tasks, [&](int64_t task) { ++called[task]; });
  return {called.begin(), called.end()};
}

}  // namespace

TEST_CASE("every task is called once, whatever the width") {
  for (int width : {-1, 0, 1, 2, 3, 4, 16})
    for (int tasks : {0, 1, 2, 3, 7, 64, 1000}) {
      CAPTURE(width);
      CAPTURE(tasks);
      CHECK(counts(width, tasks) == std::vector<int>(tasks, 1));
    }
}

TEST_CASE("a width of one starts no thread and runs the tasks in order on the caller") {
  std::vector<int64_t> seen;
  auto self = std::this_thread::get_id();
  int workers = ThreadPool::shared().workers();
  ThreadPool::shared().parallel_for(1, 5, [&](int64_t task) {
    CHECK(std::this_thread::get_id() == self);
    seen.push_back(task);
  });
  CHECK(seen == std::vector<int64_t>{0, 1, 2, 3, 4});
  CHECK(ThreadPool::shared().workers() == workers);
}

TEST_CASE("tasks that wait for each other run on different threads") {
  std::atomic<int> arrived{0};
  ThreadPool::shared().parallel_for(3, 3, [&](int64_t) {
    ++arrived;
    auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (arrived < 3 && std::chrono::steady_clock::now() < end) std::this_thread::yield();
  });
  CHECK(arrived == 3);
}

TEST_CASE("a call from inside a task runs inline") {
  std::atomic<int> total{0}, elsewhere{0};
  ThreadPool::shared().parallel_for(4, 8, [&](int64_t) {
    auto self = std::this_thread::get_id();
    ThreadPool::shared().parallel_for(4, 8, [&](int64_t) {
      if (std::this_thread::get_id() != self) ++elsewhere;
      ++total;
    });
  });
  CHECK(total == 64);
  CHECK(elsewhere == 0);
}

TEST_CASE("callers on several threads do not disturb each other") {
  constexpr int kCallers = 6, kCalls = 2000, kTasks = 7;
  std::vector<long> sums(kCallers);
  std::vector<std::thread> callers;
  for (int c = 0; c < kCallers; ++c)
    callers.emplace_back([&sums, c] {
      for (int call = 0; call < kCalls; ++call) {
        long values[kTasks] = {};  // plain memory: a task that ran for another caller, or late, would be a race
        ThreadPool::shared().parallel_for(1 + call % 4, kTasks, [&](int64_t task) { values[task] = c + task; });
        for (long value : values) sums[c] += value;
      }
    });
  for (std::thread& caller : callers) caller.join();
  for (int c = 0; c < kCallers; ++c) CHECK(sums[c] == kCalls * (kTasks * c + 21L));
}

TEST_CASE("what the tasks wrote is visible after the call, also when the pool has slept") {
  for (int round = 0; round < 30; ++round) {
    std::vector<int> values(64);
    ThreadPool::shared().parallel_for(4, 64, [&](int64_t task) { values[task] = static_cast<int>(task) + round; });
    int sum = 0;
    for (int value : values) sum += value;
    CHECK(sum == 2016 + 64 * round);
    if (round % 3 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

TEST_CASE("a caller waits for a task that takes long") {
  std::atomic<int> done{0};
  ThreadPool::shared().parallel_for(2, 2, [&](int64_t) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    ++done;
  });
  CHECK(done == 2);
}

#if defined(__linux__)
TEST_CASE("a worker that was on its caller's processor gets tasks, and keeps its affinity mask") {
  if (ThreadPool::hardware_threads() < 2) {
    MESSAGE("skipped: a worker beside its caller needs two processors");
    return;
  }
  cpu_set_t all;
  REQUIRE(sched_getaffinity(0, sizeof all, &all) == 0);
  const auto caller = static_cast<pid_t>(syscall(SYS_gettid));
  // The two tasks of a call wait for each other, so the worker must run one: returns the worker's thread id.
  auto both = [&] {
    std::atomic<int> arrived{0};
    std::atomic<pid_t> other{0};
    ThreadPool::shared().parallel_for(2, 2, [&](int64_t) {
      const auto self = static_cast<pid_t>(syscall(SYS_gettid));
      if (self != caller) other = self;
      ++arrived;
      const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
      while (arrived < 2 && std::chrono::steady_clock::now() < end) std::this_thread::yield();
    });
    return other.load();
  };
  for (int round = 0; round < 20; ++round) {
    const pid_t worker = both();
    REQUIRE(worker != 0);
    cpu_set_t here;
    CPU_ZERO(&here);
    CPU_SET(static_cast<size_t>(sched_getcpu()), &here);
    REQUIRE(sched_setaffinity(worker, sizeof here, &here) == 0);
    REQUIRE(sched_setaffinity(worker, sizeof all, &all) == 0);
    for (int call = 0; call < 100; ++call) {
      std::atomic<int> done{0};
      ThreadPool::shared().parallel_for(2, 2, [&](int64_t) { ++done; });
      CHECK(done == 2);
    }
    cpu_set_t now;
    REQUIRE(sched_getaffinity(worker, sizeof now, &now) == 0);
    CHECK(CPU_EQUAL(&now, &all));
  }
}
#endif

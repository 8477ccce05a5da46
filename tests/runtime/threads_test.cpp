// What sessions promise of threads: one pool for all, that wakes at once and sleeps when nobody needs it, and results
// that do not depend on who was faster.
#include <doctest/doctest.h>

#include <time.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "kernels/threads/thread_pool.h"
#include "rlx/ops.h"
#include "rlx/session.h"
#include "rlx/thread_pool.h"
#include "support/compare.h"

using namespace rlx;
using kernels::ThreadPool;
using Clock = std::chrono::steady_clock;

namespace {

double us_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
}
double processor_ms() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e3 + static_cast<double>(now.tv_nsec) * 1e-6;
}

/// Everything that splits its work in a way of its own, at sizes that are worth it.
Graph wide_model() {
  Graph g("wide");
  Value x = g.input("x", f32, {96, 256}), image = g.input("image", f32, {2, 8, 40, 40});
  Value hidden = gelu(linear(x, g.param("w", f32, {512, 256}), g.param("b", f32, {512})));
  g.output(hidden, "linear");
  Value gamma = g.param("gamma", f32, {512});
  Value normal = layer_norm(hidden, gamma, g.param("beta", f32, {512}), 1e-5);
  g.output(normal, "layer_norm");
  g.output(softmax(hidden), "softmax");
  Value heads = reshape(x, {1, 4, 96, 64});
  g.output(attention(heads, heads * 0.5, heads + 1.0, {.heads = 4}), "attention");
  g.output(matmul(transpose(hidden, {1, 0}), x), "matmul");
  g.output(reduce_sum(hidden, {0}), "columns");
  g.output(reduce_sum(hidden, {1}), "rows");
  g.output(reduce_sum(hidden * hidden, {0, 1}), "all");
  g.output(cumsum(hidden, 0), "cumsum");
  g.output(tanh(hidden * 1.5 + 0.25) * hidden, "chain");
  g.output(convolution(image, g.param("kernel", f32, {16, 8, 3, 3}), {.padding_low = {1, 1}, .padding_high = {1, 1}}),
           "convolution");
  g.output(sort({hidden})[0], "sort");
  auto backward = layer_norm_backward(hidden, gamma, normal, {});
  const char* names[] = {"dx", "dgamma", "dbeta"};
  for (size_t i = 0; i < std::size(names); ++i) g.output(backward[i], names[i]);
  return g;
}
CompiledGraph compiled_for(const Graph& g, int threads) {
  CompiledGraph compiled = Session(Device::cpu(), {threads}).compile(g);
  uint64_t seed = 1;
  for (const auto& param : compiled.signature().params)
    compiled.set_param(param.name, random_tensor(f32, shape_of(param.type.dims), seed++, -0.5, 0.5));
  return compiled;
}
std::vector<Tensor> inputs_of(const Graph& g) {
  std::vector<Tensor> inputs;
  for (const Type& type : g.input_types()) inputs.push_back(random_tensor(f32, shape_of(type.dims), 9 + inputs.size()));
  return inputs;
}

}  // namespace

TEST_CASE("a number of threads gives the same bits in each run, whoever was faster") {
  const Graph g = wide_model();
  const auto inputs = inputs_of(g);
  for (int threads : {2, 3, 4}) {
    CAPTURE(threads);
    const CompiledGraph compiled = compiled_for(g, threads);
    const auto first = compiled.run_ordered(inputs);
    std::atomic<bool> done = false;
    std::thread disturber([&] {  // takes workers away at any time
      while (!done) ThreadPool::shared().parallel_for(2, 4, [](int64_t) { std::this_thread::yield(); });
    });
    for (int round = 0; round < 12; ++round) CHECK(difference(compiled.run_ordered(inputs), first, 0) == "");
    done = true;
    disturber.join();
    CHECK(difference(compiled_for(g, threads).run_ordered(inputs), first, 0) == "");
  }
}

TEST_CASE("results are equal for any number of threads, within what sums round") {
  const Graph g = wide_model();
  const auto inputs = inputs_of(g);
  const auto one = compiled_for(g, 1).run_ordered(inputs);
  for (int threads : {2, 3, 5, 8}) {
    CAPTURE(threads);
    CHECK(difference(compiled_for(g, threads).run_ordered(inputs), one, 2e-5) == "");
  }
}

TEST_CASE("on a pool of the program's own results are those of RLX's workers, for 1 to 64 threads") {
  struct Pool : ThreadPoolInterface {
    bool is_sequential = false;
    std::atomic<int> calls = 0;
    int threads() const override { return 3; }
    void parallel_for(int64_t count, void (*task)(void*, int64_t), void* context) override {
      ++calls;
      std::vector<std::thread> threads;
      for (int64_t i = 0; i < count; ++i)
        is_sequential ? task(context, i) : void(threads.emplace_back(task, context, i));
      for (std::thread& thread : threads) thread.join();
    }
  };
  const Graph g = wide_model();
  const auto inputs = inputs_of(g);
  for (int threads : {1, 2, 7, 64}) {
    CAPTURE(threads);
    const auto wanted = compiled_for(g, threads).run_ordered(inputs);
    for (bool is_sequential : {false, true}) {
      CAPTURE(is_sequential);
      const auto pool = std::make_shared<Pool>();
      pool->is_sequential = is_sequential;
      set_thread_pool(pool);
      const auto got = compiled_for(g, threads).run_ordered(inputs);
      CHECK(compiled_for(g, 0).threads() == 3);
      set_thread_pool(nullptr);
      CHECK(difference(got, wanted, 0) == "");
      CHECK((pool->calls > 0) == (threads > 1));
    }
  }
}

namespace {

/// Threads that take jobs from a queue. As a caller of parallel_for computes what no thread has begun, the threads can
/// be busy with anything, with runs too.
class QueuePool : public ThreadPoolInterface {
 public:
  explicit QueuePool(int count) {
    for (int i = 0; i < count; ++i) threads_.emplace_back([this] { work(); });
  }
  ~QueuePool() override {
    {
      std::lock_guard lock(mutex_);
      ends_ = true;
    }
    changed_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }
  void add(std::function<void()> job) {
    {
      std::lock_guard lock(mutex_);
      jobs_.push_back(std::move(job));
    }
    changed_.notify_one();
  }
  int threads() const override { return static_cast<int>(threads_.size()); }
  void parallel_for(int64_t count, void (*task)(void*, int64_t), void* context) override {
    struct Call {
      std::atomic<int64_t> next = 0, ended = 0;
    };
    const auto call = std::make_shared<Call>();
    const auto help = [=] {  // one that begins late finds nothing left, and touches nothing of the caller's
      for (int64_t i; (i = call->next++) < count; ++call->ended) task(context, i);
    };
    for (int64_t i = 1; i < count; ++i) add(help);
    help();
    while (call->ended < count) std::this_thread::yield();
  }

 private:
  void work() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [this] { return ends_ || !jobs_.empty(); });
      if (jobs_.empty()) return;
      const auto job = std::move(jobs_.front());
      jobs_.pop_front();
      lock.unlock();
      job();
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> jobs_;
  bool ends_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace

TEST_CASE("threads of the program's pool run graphs, the same one and others, while they compute for each other") {
  const Graph g = wide_model();
  const auto inputs = inputs_of(g);
  const auto wanted = compiled_for(g, 3).run_ordered(inputs);
  const auto pool = std::make_shared<QueuePool>(3);
  set_thread_pool(pool);
  std::atomic<int> right = 0, done = 0;
  {
    const CompiledGraph shared = compiled_for(g, 3);
    constexpr int kRuns = 12;
    for (int i = 0; i < kRuns; ++i)
      pool->add([&, i] {
        const auto got = i % 3 == 0 ? compiled_for(g, 3).run_ordered(inputs) : shared.run_ordered(inputs);
        right += difference(got, wanted, 0).empty();
        ++done;
      });
    while (done < kRuns) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  set_thread_pool(nullptr);
  CHECK(right == 12);
}

TEST_CASE("sessions share one pool: it has as many threads as the widest run asks for, however many run at once") {
  const Graph g = wide_model();
  const auto inputs = inputs_of(g);
  constexpr int kWidth = 3, kSessions = 5;
  const int before = ThreadPool::shared().workers();
  std::atomic<int> wrong = 0;
  const auto wanted = compiled_for(g, kWidth).run_ordered(inputs);
  std::vector<std::thread> callers;
  for (int c = 0; c < kSessions; ++c)
    callers.emplace_back([&] {
      const CompiledGraph own = compiled_for(g, kWidth);
      for (int round = 0; round < 5; ++round)
        if (!difference(own.run_ordered(inputs), wanted, 0).empty()) ++wrong;
    });
  for (std::thread& caller : callers) caller.join();
  CHECK(wrong == 0);
  CHECK(ThreadPool::shared().workers() == std::max(before, kWidth - 1));

  // Each worker serves one caller at a time: there are never more parts under way than callers and workers.
  std::atomic<int> running = 0, most = 0;
  callers.clear();
  for (int c = 0; c < kSessions; ++c)
    callers.emplace_back([&] {
      for (int round = 0; round < 20; ++round)
        ThreadPool::shared().parallel_for(kWidth, 8, [&](int64_t) {
          int now = ++running, seen = most;
          while (now > seen && !most.compare_exchange_weak(seen, now)) {
          }
          std::this_thread::sleep_for(std::chrono::microseconds(50));
          --running;
        });
    });
  for (std::thread& caller : callers) caller.join();
  CHECK(most <= kSessions + ThreadPool::shared().workers());
}

TEST_CASE("threads take part while there is work, and when they have slept; how soon is printed") {
  if (ThreadPool::hardware_threads() < 2) {
    MESSAGE("there is one processor: skipped");
    return;
  }
  // Until both parts have begun, each on its own thread. The shortest; what it should be, `rlx calibrate` and bench/
  // say.
  const auto begun_us = [] {
    std::atomic<int> begun = 0;
    const auto begin = Clock::now();
    double taken = 0;
    ThreadPool::shared().parallel_for(2, 2, [&](int64_t part) {
      ++begun;
      while (begun < 2 && us_since(begin) < 2e7) {
      }
      if (part == 0) taken = us_since(begin);
    });
    return taken;
  };
  double awake = 1e9, slept = 1e9;
  for (int i = 0; i < 300; ++i) awake = std::min(awake, begun_us());
  for (int i = 0; i < 30; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    slept = std::min(slept, begun_us());
  }
  MESSAGE("awake ", awake, " us, slept ", slept, " us");
  CHECK(awake < 2e7);
  CHECK(slept < 2e7);
}

TEST_CASE("threads that have nothing to do take no processor time") {
  ThreadPool::shared().parallel_for(4, 64, [](int64_t) {});
  std::this_thread::sleep_for(std::chrono::milliseconds(5));  // longer than they look for work
  double least = 1e9;  // of several: one that was interrupted while it looked for work goes on looking later
  for (int i = 0; i < 5; ++i) {
    const double begin = processor_ms();
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    least = std::min(least, processor_ms() - begin);
  }
  CHECK(least < 5);
}

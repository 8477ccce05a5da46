// One compiled graph from several threads at once. Meant for the thread sanitizer as much as for the numbers.
#include <doctest/doctest.h>

#include <atomic>
#include <thread>

#include "runtime/small_model.h"

using namespace rlx;

namespace {

void on_threads(int count, const std::function<void(int)>& work) {
  std::vector<std::thread> threads;
  for (int t = 0; t < count; ++t) threads.emplace_back(work, t);
  for (std::thread& t : threads) t.join();
}

}  // namespace

TEST_CASE(
    "one compiled graph runs from four threads at once, each with shapes and inputs of its own, as it does alone") {
  Graph g = test::small_model();
  for (int width : {1, 2}) {
    Session session(Device::cpu(), {width});
    CompiledGraph compiled = session.compile(g);
    compiled.set_params(test::small_params());
    constexpr int kThreads = 4, kRounds = 12;
    auto inputs_of = [](int thread, int round) {
      return test::small_inputs(1 + (thread * 5 + round * 3) % 17, static_cast<uint64_t>(thread * 100 + round));
    };
    // The serial results come from a graph of its own, so that the first runs of `compiled` are the concurrent ones.
    CompiledGraph serial = Session(Device::cpu(), {width}).compile(g);
    serial.set_params(test::small_params());
    std::vector<std::vector<Tensor>> wanted;
    for (int t = 0; t < kThreads; ++t)
      for (int r = 0; r < kRounds; ++r) wanted.push_back(serial.run_ordered(inputs_of(t, r)));
    CHECK(difference(wanted[3], test::by_reference(g, inputs_of(0, 3), test::small_params()),
                     test::kSmallModelTolerance) == "");

    std::vector<std::string> failures(kThreads);
    on_threads(kThreads, [&](int t) {
      std::vector<Tensor> out(3);
      for (int r = 0; r < kRounds; ++r) {
        compiled.run_into(inputs_of(t, r), out);
        auto why = difference(out, wanted[static_cast<size_t>(t * kRounds + r)], 0);
        if (!why.empty()) failures[static_cast<size_t>(t)] = why;
      }
    });
    for (const std::string& why : failures) CHECK(why == "");
  }
}

TEST_CASE("more shapes at once than are kept, so that one is dropped while another runs in it") {
  Graph g("g");
  Value x = g.input("x", f32, {Dim::symbol("N"), 8});
  g.output(softmax(matmul(x, g.param("w", f32, {8, 8}))) * 2.0);
  CompiledGraph compiled = Session(Device::cpu(), {1}).compile(g);
  Tensor w = random_tensor(f32, {8, 8}, 1);
  compiled.set_param("w", w);
  std::atomic<int> wrong = 0;
  on_threads(4, [&](int t) {
    for (int64_t n = 1; n < 60; ++n) {
      std::vector<Tensor> in = {random_tensor(f32, {1 + (n * 7 + t * 13) % 59, 8}, static_cast<uint64_t>(n))};
      if (!difference(compiled.run_ordered(in), test::by_reference(g, in, {{"w", w}}), 1e-5).empty()) ++wrong;
    }
  });
  CHECK(wrong == 0);
}

TEST_CASE("a lazy compile that four threads ask for at once is done once, and all four get their results") {
  Graph g = test::small_model(6);
  CompileOptions options;
  options.mode = CompileMode::lazy;
  CompiledGraph compiled = Session(Device::cpu(), {2}).compile(g, options);
  compiled.set_params(test::small_params());
  auto inputs = test::small_inputs(6);
  auto wanted = test::by_reference(g, inputs, test::small_params());
  std::atomic<int> wrong = 0;
  on_threads(4, [&](int) {
    if (!difference(compiled.run_ordered(inputs), wanted, test::kSmallModelTolerance).empty()) ++wrong;
  });
  CHECK(wrong == 0);
}

TEST_CASE("several sessions compile and run at once, with widths of their own that change meanwhile") {
  Graph g = test::small_model();
  auto inputs = test::small_inputs(8);
  auto wanted = test::by_reference(g, inputs, test::small_params());
  std::atomic<int> wrong = 0;
  Session shared(Device::cpu(), {3});
  on_threads(4, [&](int t) {
    Session own(Device::cpu(), {1 + t % 3});
    CompiledGraph compiled = (t % 2 ? own : shared).compile(g);
    compiled.set_params(test::small_params());
    for (int r = 0; r < 8; ++r) {
      compiled.set_threads(1 + r % (t % 2 ? own : shared).threads());
      if (!difference(compiled.run_ordered(inputs), wanted, test::kSmallModelTolerance).empty()) ++wrong;
    }
  });
  CHECK(wrong == 0);
}

TEST_CASE("the width of a graph may be set while it runs on another thread") {
  Graph g = test::small_model(12);
  CompiledGraph compiled = Session(Device::cpu(), {4}).compile(g);
  compiled.set_params(test::small_params());
  auto inputs = test::small_inputs(12);
  auto wanted = test::by_reference(g, inputs, test::small_params());
  std::atomic<bool> done = false;
  std::atomic<int> wrong = 0;
  std::thread setter([&] {
    for (int i = 0; !done; ++i) compiled.set_threads(1 + i % 4), std::this_thread::yield();
  });
  on_threads(2, [&](int) {
    for (int r = 0; r < 30; ++r)
      if (!difference(compiled.run_ordered(inputs), wanted, test::kSmallModelTolerance).empty()) ++wrong;
  });
  done = true;
  setter.join();
  CHECK(wrong == 0);
}

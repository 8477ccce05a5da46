// The measurements of `rlx calibrate`: the shortest of several runs each, of graphs that are compiled as any others
// are.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <iterator>

#include "base/user_code.h"
#include "cost/shortest_run.h"
#include "kernels/cost_model.h"
#include "kernels/gemm/amx/tiles.h"
#include "kernels/threads/external_pool.h"
#include "kernels/threads/thread_pool.h"
#include "rlx/error.h"
#include "rlx/machine.h"
#include "rlx/ops.h"
#include "rlx/session.h"

namespace rlx {
namespace {

using Clock = std::chrono::steady_clock;

/// Seconds of a graph of these inputs, of which the last `weights` are constants.
template <class Build>
double seconds_of(const std::vector<Shape>& shapes, int threads, Build build, size_t weights = 0, int repeats = 1) {
  Graph g("machine");
  std::vector<Value> in;
  std::vector<Tensor> given;
  for (size_t i = 0; i < shapes.size(); ++i) {
    Tensor t = repeating_numbers(shapes[i]);
    if (i + weights >= shapes.size()) {
      in.push_back(g.constant(t));
      continue;
    }
    in.push_back(g.input(text_of("x", i), f32, Dims(shapes[i].begin(), shapes[i].end())));
    given.push_back(std::move(t));
  }
  g.output(build(in), "y");
  const CompiledGraph compiled = Session(Device::cpu(), {threads}).compile(g, {});
  std::vector<Tensor> results(1);
  return shortest_run([&] {
           for (int i = 0; i < repeats; ++i) compiled.run_into(given, results);
         }) /
         repeats;
}

Value product(std::vector<Value>& in) { return matmul(in[0], in[1]); }

/// The fewest rows from which on products are faster by tiles, and stay so.
double rows_that_pay() {
  if (!kernels::has_matrix_tiles()) return 0;
  const int64_t rows[] = {12, 16, 24, 32, 48, 64, 96, 128, 192, 256};
  int64_t least = 512;
  for (size_t i = std::size(rows); i-- > 0;) {
    double seconds[2];
    for (const bool tiles : {false, true}) {
      kernels::CostModel model = kernels::cost_model();
      model.tile_rows = tiles ? 1 : int64_t{1} << 20;
      const kernels::ScopedCostModel here(model);
      seconds[tiles] = seconds_of({{rows[i], 384}, {384, 1536}}, 1, product, 1);
    }
    if (seconds[1] > seconds[0]) break;
    least = rows[i];
  }
  return static_cast<double>(least);
}

}  // namespace

MachineSpeeds measure_machine(const std::function<void(size_t, size_t, std::string_view)>& progress) {
  if (kernels::external_pool())
    fail(ErrorCode::invalid_argument,
         "the machine is measured with RLX's own workers, and a thread pool of the program's is in use: call "
         "set_thread_pool(nullptr) before");
  MachineSpeeds s;
  s.processor = processor_name();
  s.threads = kernels::ThreadPool::hardware_threads();
  const auto flops = [](double m, double k, double n, double seconds) { return 2 * m * k * n / seconds * 1e-9; };
  const struct {
    const char* what;
    std::function<void()> measure;
  } all[] = {
      {"small products",
       [&] {
         s.small_product_gflops = flops(64, 64, 64, seconds_of({{64, 64}, {64, 64}}, 1, product, 1, 50));
       }},
      {"large products",
       [&] {
         s.product_gflops = flops(1024, 1024, 1024, seconds_of({{1024, 1024}, {1024, 1024}}, 1, product, 1));
       }},
      {"large products by several threads",
       [&] {
         const auto speed_of = [&](int threads) {
           return flops(1024, 1024, 1024, seconds_of({{1024, 1024}, {1024, 1024}}, threads, product, 1));
         };
         s.product_half_gflops = speed_of(std::max(1, s.threads / 2));
         s.product_all_gflops = speed_of(s.threads);
       }},
      {"attention",
       [&] {
         AttentionAttrs attrs;
         attrs.heads = 12;
         const Shape heads = {1, 12, 256, 64};
         s.attention_gflops = flops(12 * 2, 256 * 256, 64, seconds_of({heads, heads, heads}, 1, [&](auto& in) {
                                      return attention(in[0], in[1], in[2], attrs);
                                    }));
       }},
      {"reductions",
       [&] {
         const double seconds = seconds_of({{256, 1024}}, 1, [](auto& in) { return reduce_sum(in[0], {1}); });
         s.reduction_gbs = 4.0 * 256 * 1024 / seconds * 1e-9;
       }},
      {"hand-over between threads",
       [&] {
         // Parts that take a while: one that no thread has begun in time, its caller takes back.
         constexpr double kPart_us = 50;
         const auto work = [](int64_t) {
           const auto begin = Clock::now();
           while (std::chrono::duration<double, std::micro>(Clock::now() - begin).count() < kPart_us) {
           }
         };
         const double taken =
             1e6 * shortest_run([&] { kernels::ThreadPool::shared().parallel_for(s.threads, s.threads, work); });
         s.hand_over_us = std::max(0.0, taken - kPart_us);  // 0: not found, and the default stays
       }},
      {"matrix tiles", [&] { s.tile_rows = rows_that_pay(); }},
  };
  size_t done = 0;
  const auto report = [&](std::string_view next) {
    if (progress) user_code("the progress callback", [&] { progress(done, std::size(all), next); });
  };
  for (const auto& m : all) {
    report(m.what);
    m.measure();
    ++done;
  }
  report("");
  return s;
}

}  // namespace rlx

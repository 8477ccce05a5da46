// A step is a launch on the CPU (plan/launch.h): what the CPU's own launches know of each other besides, and how one
// is made from a function.
#pragma once

#include <functional>
#include <memory>
#include <span>

#include "base/rounded_up.h"
#include "kernels/cost_model.h"
#include "kernels/threads/thread_pool.h"
#include "plan/launch.h"

namespace rlx::cpu {

using StepArgs = LaunchArgs;

inline kernels::ThreadPool& thread_pool() { return kernels::ThreadPool::shared(); }

class Step : public Launch {
 public:
  /// Of a product, a convolution or an attention (kernels/gemm/product_plan.h, convolution_plan.h,
  /// kernels/attention/attention_plan.h).
  std::string strategy() const override { return strategy_ ? (*strategy_)() : ""; }
  /// Texts are read by people and tests alone: this one is made on demand.
  using Text = std::function<std::string()>;
  void set_strategy(Text text) { strategy_ = std::make_unique<Text>(std::move(text)); }
  /// Packed weights that it reads from their beginning to their end, if that is all it does with them.
  virtual std::span<const std::byte> packed_weights() const { return {}; }
  /// Sets the packed weights of a later step, which this one may prefetch while it runs. They live as long as the
  /// plan's launches.
  virtual void prefetch_read(std::span<const std::byte>) {}

 private:
  std::unique_ptr<Text> strategy_;  // behind a pointer, as runs do not read it
};

/// A step from a function of its arguments.
template <class F>
std::unique_ptr<Step> make_step(std::string kernel, size_t scratch, F f, Step::Text strategy = {}) {
  struct Made final : Step {
    Made(std::string k, size_t s, F body) : kernel_(std::move(k)), scratch_(s), body_(std::move(body)) {}
    size_t scratch_bytes() const override { return scratch_; }
    std::string kernel() const override { return kernel_; }
    void run(const StepArgs& args) const noexcept override { body_(args); }
    std::string kernel_;
    size_t scratch_;
    F body_;
  };
  auto step = std::make_unique<Made>(std::move(kernel), scratch, std::move(f));
  if (strategy) step->set_strategy(std::move(strategy));
  return step;
}

/// Splits [0, count) over at most `width` threads, at multiples of `grain`. Calls `f(begin, end, task)` with a task
/// number below `width`, different for each call. If `work_ns`, an estimate for the whole range, is too little to
/// split, the calling thread does all of it.
template <class F>
void for_ranges(const StepArgs& args, int64_t count, int64_t grain, double work_ns, F f) {
  if (count <= 0) return;
  int64_t blocks = divided_up(count, grain);
  int64_t tasks = work_ns < kernels::cost_model().split_ns ? 1 : std::min<int64_t>(args.width, blocks);
  if (tasks <= 1) return f(int64_t{0}, count, int64_t{0});
  thread_pool().parallel_for(args.width, tasks, [&](int64_t task) {
    int64_t begin = blocks * task / tasks * grain, end = std::min(count, blocks * (task + 1) / tasks * grain);
    f(begin, end, task);
  });
}

}  // namespace rlx::cpu

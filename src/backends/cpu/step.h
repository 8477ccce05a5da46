// A step is one kernel with everything decided that shapes and weights decide. Running it neither allocates nor
// throws; pointers come in at each run.
#pragma once

#include <memory>
#include <span>

#include "base/cancel_flag.h"
#include "base/rounded_up.h"
#include "kernels/cost_model.h"
#include "kernels/threads/thread_pool.h"
#include "rlx/op_def.h"

namespace rlx::cpu {

/// Where a value lies, once shapes are numbers.
struct View {
  DType dtype = f32;
  Shape shape;
  std::vector<int64_t> strides;  ///< in elements

  int64_t rank() const { return static_cast<int64_t>(shape.size()); }
  int64_t count() const;
  size_t element_bytes() const { return byte_size(dtype); }
};
bool is_dense(const View&);

struct StepArgs {
  void* const* operands;
  void* const* results;
  std::byte* scratch;  ///< aligned to 64 bytes
  int width;           ///< threads that may be used
  kernels::ThreadPool& pool;
  const CancelFlag* cancel = nullptr;  ///< of the run, for steps that loop

  template <class T = void>
  const T* in(size_t i) const {
    return static_cast<const T*>(operands[i]);
  }
  template <class T = void>
  T* out(size_t i = 0) const {
    return static_cast<T*>(results[i]);
  }
};

class Step {
 public:
  virtual ~Step() = default;
  virtual size_t scratch_bytes() const { return 0; }
  /// False for an operand that was read when the step was made: packed weights.
  virtual bool reads_operand(size_t) const { return true; }
  /// Which kernel it is, for profiles: "onednn f32 128x384x1152".
  virtual std::string kernel() const { return ""; }
  /// Of a product, a convolution or an attention, how it is computed and why (kernels/gemm/product_plan.h,
  /// convolution_plan.h, kernels/attention/attention_plan.h).
  std::string strategy() const { return strategy_ ? *strategy_ : ""; }
  void set_strategy(const std::string& strategy) { strategy_ = std::make_unique<std::string>(strategy); }
  /// Packed weights that it reads from their beginning to their end, if that is all it does with them.
  virtual std::span<const std::byte> packed_weights() const { return {}; }
  /// Sets the packed weights of a later step, which this one may prefetch while it runs. They live as long as the
  /// schedule.
  virtual void prefetch_read(std::span<const std::byte>) {}
  virtual void run(const StepArgs& args) const noexcept = 0;

 private:
  std::unique_ptr<std::string> strategy_;  // behind a pointer, as runs do not read it
};

/// A step from a function of its arguments.
template <class F>
std::unique_ptr<Step> make_step(std::string kernel, size_t scratch, F f, const std::string& strategy = "") {
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
  if (!strategy.empty()) step->set_strategy(strategy);
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
  args.pool.parallel_for(args.width, tasks, [&](int64_t task) {
    int64_t begin = blocks * task / tasks * grain, end = std::min(count, blocks * (task + 1) / tasks * grain);
    f(begin, end, task);
  });
}

}  // namespace rlx::cpu

// The figures by which kernels choose between strategies and split work over threads. The defaults are those of a
// common machine; `rlx calibrate` replaces them by measurements of this one (backends/cpu/machine.h).
#pragma once

#include <cstdint>

namespace rlx::kernels {

struct CostModel {
  /// The smallest task of a matrix product that is worth handing to another thread, in multiply-adds (some
  /// microseconds); reading a weight counts as two. Read when products are prepared.
  int64_t task_work = 1 << 18;
  /// f32 products with fewer rows do not use matrix tiles (AMX): the speed of the tiles does not pay for splitting the
  /// right operand's columns into bf16 terms. Read when products are prepared.
  int64_t tile_rows = 24;
  /// Work other than products is split over threads only if it is estimated to take longer than this on one thread, in
  /// nanoseconds. Handing work to a spinning thread costs about 1000 ns. Read in each run.
  double split_ns = 4000;
  /// Estimated time of a multiply-add of attention on one thread, in nanoseconds. Read in each run.
  double attention_ns = 0.02;
  /// The number of threads of sessions that do not request one; 0: all processors that this process may run on.
  int threads = 0;

  bool operator==(const CostModel&) const = default;
};

/// The cost model of this thread's innermost ScopedCostModel, else that of the process.
CostModel cost_model() noexcept;
/// Sets the cost model of the process.
void set_cost_model(const CostModel& model) noexcept;

/// Replaces the cost model on the calling thread while it lives: for measurements, which must not affect other threads.
class ScopedCostModel {
 public:
  explicit ScopedCostModel(const CostModel& model) noexcept;
  ~ScopedCostModel();
  ScopedCostModel(const ScopedCostModel&) = delete;
  ScopedCostModel& operator=(const ScopedCostModel&) = delete;

 private:
  CostModel model_;
  const CostModel* outer_;
};

}  // namespace rlx::kernels

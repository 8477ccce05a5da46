// What decides between ways of doing one thing, in one place: the defaults, or what was measured on this machine
// (runtime/machine.cpp).
#pragma once

#include <cstdint>

namespace rlx::kernels {

struct CostModel {
  /// Parts of a product with fewer multiply-adds than this are not worth another thread's attention: some microseconds.
  /// Reading a weight counts as two. Read when products are prepared.
  int64_t part_work = 1 << 18;
  /// f32 products with fewer rows are multiplied without matrix tiles: these do not pay for splitting the columns. Read
  /// when products are prepared.
  int64_t tile_rows = 24;
  /// Constant weights of f32 are kept in slices of integers where the processor has matrix tiles (sliced_weights.h).
  /// Read when weights are packed.
  bool weight_slices = true;
  /// Other work is split over threads if it is estimated to take longer: a hot hand-over costs about 1 us, and below
  /// this it never pays. Read in each run.
  double split_ns = 4000;
  /// Nanoseconds of a multiply-add of attention on one thread, by which its work is estimated. Read in each run.
  double attention_ns = 0.02;
  /// Threads of sessions that do not ask for a number; 0: as many as there are.
  int threads = 0;

  bool operator==(const CostModel&) const = default;
};

CostModel cost_model() noexcept;
/// For the process, from now on.
void set_cost_model(const CostModel& model) noexcept;

/// On this thread, while it lives: for measurements, of which other threads' products know nothing.
class CostModelHere {
 public:
  explicit CostModelHere(const CostModel& model) noexcept;
  ~CostModelHere();
  CostModelHere(const CostModelHere&) = delete;
  CostModelHere& operator=(const CostModelHere&) = delete;

 private:
  CostModel model_;
  const CostModel* outer_;
};

}  // namespace rlx::kernels

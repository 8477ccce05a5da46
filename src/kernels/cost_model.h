// What decides between ways of doing one thing, in one place: the defaults, or what was measured on this machine
// (runtime/machine.cpp). It is read when products are prepared, never while they run.
#pragma once

#include <cstdint>

namespace rlx::kernels {

struct CostModel {
  /// Parts of a product with fewer multiply-adds than this are not worth another thread's attention: some microseconds.
  /// Reading a weight counts as two.
  int64_t part_work = 1 << 18;
  /// f32 products with fewer rows are multiplied without matrix tiles: these do not pay for packing the columns.
  int64_t tile_rows = 64;

  bool operator==(const CostModel&) const = default;
};

CostModel cost_model() noexcept;
/// For products that are prepared from now on.
void set_cost_model(const CostModel& model) noexcept;

}  // namespace rlx::kernels

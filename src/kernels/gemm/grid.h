// How a product is divided into blocks of rows by panels of columns, each a task of ThreadPool::parallel_for. How many
// tasks there are is decided by product_plan.h.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/rounded_up.h"

namespace rlx::kernels {

/// row_tasks x panel_tasks tasks; none if there is nothing to compute.
struct Grid {
  /// Tasks begin at a multiple of so many rows, so that no micro-kernel has rows left over but in the last one: their
  /// tiles have 4 or 8 rows.
  static constexpr int64_t kRows = 8;

  int64_t rows = 0, panels = 0;
  int64_t row_tasks = 0, panel_tasks = 0;

  int64_t tasks() const { return row_tasks * panel_tasks; }
  int64_t row_begin(int64_t task) const { return std::min(rows, divided_up(rows, kRows) * task / row_tasks * kRows); }
  int64_t panel_begin(int64_t task) const { return panels * task / panel_tasks; }
  int64_t max_rows() const { return row_tasks == 0 ? 0 : divided_up(divided_up(rows, kRows), row_tasks) * kRows; }
};

/// Several tasks per thread, so that the others need not wait for a thread that was interrupted.
inline constexpr int64_t kTasksPerThread = 4;

}  // namespace rlx::kernels

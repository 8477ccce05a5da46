// How a product is divided into blocks of rows by panels of columns, each a task of ThreadPool::parallel_for.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/rounded_up.h"
#include "kernels/cost_model.h"
#include "kernels/gemm/fma/micro_kernels.h"

namespace rlx::kernels {

/// row_tasks x panel_tasks tasks; none if there is nothing to compute.
struct Grid {
  int64_t rows = 0, panels = 0;
  int64_t row_tasks = 0, panel_tasks = 0;

  int64_t tasks() const { return row_tasks * panel_tasks; }
  int64_t row_begin(int64_t task) const { return rows * task / row_tasks; }
  int64_t panel_begin(int64_t task) const { return panels * task / panel_tasks; }
  int64_t max_rows() const { return row_tasks == 0 ? 0 : divided_up(rows, row_tasks); }
};

// A block's left operand should stay in the second-level cache while all panels pass over it.
inline constexpr int64_t kLhsBlockBytes = 512 << 10;
// Work in multiply-adds, where reading a weight counts as two: the unit of CostModel::task_work.
inline int64_t product_work(int64_t m, int64_t k, int64_t n) { return (m + 2) * k * n; }
// Several tasks per thread, so that the others need not wait for a thread that was interrupted.
inline constexpr int64_t kTasksPerThread = 4;

/// A product of few rows reads several panels at once (max_panels() in micro_kernel-inl.h): tasks of much fewer panels
/// would lose that.
inline int64_t max_panel_tasks(int64_t panels, int64_t m, int threads) {
  return m > 4 ? panels : std::min(panels, std::max<int64_t>(threads, panels / 16));
}

/// For packed weights. Rows are divided first: each task then reads its rows once, and all tasks share the weights in
/// the outer cache. Panels are divided if there are too few rows.
inline Grid make_grid(int64_t m, int64_t k, const PanelLayout& layout, int threads) {
  Grid grid{m, layout.panels()};
  if (m == 0 || grid.panels == 0) return grid;
  constexpr int64_t kMinRows = 32;  // a task with fewer would read the weights too often
  const int64_t row_bytes = std::max<int64_t>(1, k * 64 / layout.lanes);
  const int64_t by_cache = divided_up(m, std::max<int64_t>(64, kLhsBlockBytes / row_bytes));
  int64_t wanted = 1;
  if (threads > 1)
    wanted = std::clamp<int64_t>(product_work(m, k, layout.n) / cost_model().task_work, 1, threads * kTasksPerThread);
  if (wanted > threads) wanted = wanted / threads * threads;
  grid.row_tasks = std::max(by_cache, std::min(wanted, std::max<int64_t>(1, m / kMinRows)));
  if (grid.row_tasks > threads) grid.row_tasks = divided_up(grid.row_tasks, threads) * threads;
  grid.row_tasks = std::min(grid.row_tasks, m);
  grid.panel_tasks = std::clamp<int64_t>(wanted / grid.row_tasks, 1, max_panel_tasks(grid.panels, m, threads));
  return grid;
}

}  // namespace rlx::kernels

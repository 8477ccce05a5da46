// How a product is cut into blocks that threads take as parts.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/rounded_up.h"
#include "kernels/cost_model.h"
#include "kernels/gemm_kernels.h"

namespace rlx::kernels {

/// Row parts times panel parts; no parts if there is nothing to compute.
struct Grid {
  int64_t rows = 0, panels = 0;
  int64_t row_parts = 0, panel_parts = 0;

  int64_t parts() const { return row_parts * panel_parts; }
  int64_t row_begin(int64_t part) const { return rows * part / row_parts; }
  int64_t panel_begin(int64_t part) const { return panels * part / panel_parts; }
  int64_t most_rows() const { return row_parts == 0 ? 0 : divided_up(rows, row_parts); }
};

// A block's left operand should stay in the second-level cache while all panels pass over it.
inline constexpr int64_t kLhsBlockBytes = 512 << 10;
// In multiply-adds, of which reading a weight counts as two: CostModel::part_work.
inline int64_t product_work(int64_t m, int64_t k, int64_t n) { return (m + 2) * k * n; }
// More blocks than threads, so that a thread that was interrupted does not hold up the others.
inline constexpr int64_t kPartsPerThread = 4;

/// With few rows several panels are read side by side: parts should not be much narrower than that.
inline int64_t most_panel_parts(int64_t panels, int64_t m, int threads) {
  return m > 4 ? panels : std::min(panels, std::max<int64_t>(threads, panels / 16));
}

/// For packed weights. Rows are cut first: a part then reads its rows once, and all share the weights in the outer
/// cache. With few rows the panels are cut.
inline Grid make_grid(int64_t m, int64_t k, const PanelLayout& layout, int threads) {
  Grid grid{m, layout.panels()};
  if (m == 0 || grid.panels == 0) return grid;
  constexpr int64_t kLeastRows = 32;  // a part with fewer would read the weights too often
  const int64_t row_bytes = std::max<int64_t>(1, k * 64 / layout.lanes);
  const int64_t by_cache = divided_up(m, std::max<int64_t>(64, kLhsBlockBytes / row_bytes));
  int64_t wanted = 1;
  if (threads > 1)
    wanted = std::clamp<int64_t>(product_work(m, k, layout.n) / cost_model().part_work, 1, threads * kPartsPerThread);
  if (wanted > threads) wanted = wanted / threads * threads;
  grid.row_parts = std::max(by_cache, std::min(wanted, std::max<int64_t>(1, m / kLeastRows)));
  if (grid.row_parts > threads) grid.row_parts = divided_up(grid.row_parts, threads) * threads;
  grid.row_parts = std::min(grid.row_parts, m);
  grid.panel_parts = std::clamp<int64_t>(wanted / grid.row_parts, 1, most_panel_parts(grid.panels, m, threads));
  return grid;
}

}  // namespace rlx::kernels

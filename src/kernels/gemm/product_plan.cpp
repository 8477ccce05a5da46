// See the header. Sizes are in bytes unless their names say otherwise. Figures were measured with second-level caches
// of 1 MiB (multiply-adds) and 2 MiB (matrix tiles), and scale with the cache where the comment says so.
#include "kernels/gemm/product_plan.h"

#include <algorithm>

#include "base/rounded_up.h"
#include "kernels/gemm/grid.h"
#include "kernels/gemm/ozaki/split_weights.h"
#include "rlx/error.h"

namespace rlx::kernels {
namespace {

constexpr int64_t kBlockRows = 2 * kTileRows;  // rows, and columns, of a block of bf16 tiles

// Work in multiply-adds, where reading a weight counts as two, as in CostModel::task_work.
int64_t product_work(int64_t m, int64_t k, int64_t n) { return (m + 2) * k * n; }

// ---- multiply-adds

/// A block's left operand stays in the second-level cache while all panels pass over it. More than 512 KiB were never
/// faster.
int64_t lhs_block_bytes(const ProductTarget& t) { return std::min<int64_t>(t.caches.l2_bytes / 2, 512 << 10); }
/// The packed panels that all threads share stay in the outer cache.
int64_t shared_panel_bytes(const ProductTarget& t) { return std::min<int64_t>(t.caches.l3_bytes / 4, 8 << 20); }
int64_t row_bytes(int64_t k, DType rhs_dtype) { return std::max<int64_t>(1, k * (rhs_dtype == f64 ? 8 : 4)); }

/// Tasks that the work is worth, of which there are several per thread.
int64_t wanted_tasks(int64_t work, int threads, const ProductTarget& t) {
  if (threads == 1) return 1;
  return std::clamp<int64_t>(work / t.costs.task_work, 1, threads * kTasksPerThread);
}
/// A product of few rows reads several panels at once (max_panels() in micro_kernel-inl.h): tasks of much fewer panels
/// would lose that.
int64_t max_panel_tasks(int64_t panels, int64_t m, int threads) {
  return m > 4 ? panels : std::min(panels, std::max<int64_t>(threads, panels / 16));
}

/// Packed panels. Rows are divided first: each task then reads its rows once, and all tasks share the panels in the
/// outer cache. Panels are divided if there are too few rows.
void divide_panels(ProductStrategy& s, const ProductProblem& p, const PanelLayout& layout, const ProductTarget& t) {
  const int64_t m = p.m, k = p.k, panels = layout.panels();
  const int threads = p.threads;
  if (m == 0 || panels == 0) return;
  constexpr int64_t kMinRows = 32;  // a task with fewer would read the weights too often
  const int64_t by_cache = divided_up(m, std::max<int64_t>(64, lhs_block_bytes(t) / row_bytes(k, p.rhs_dtype)));
  int64_t wanted = wanted_tasks(product_work(m, k, layout.n), threads, t);
  if (wanted > threads) wanted = wanted / threads * threads;
  s.row_tasks = std::max(by_cache, std::min(wanted, std::max<int64_t>(1, m / kMinRows)));
  if (s.row_tasks > threads) s.row_tasks = divided_up(s.row_tasks, threads) * threads;
  s.row_tasks = std::min(s.row_tasks, m);
  s.column_tasks = std::clamp<int64_t>(wanted / s.row_tasks, 1, max_panel_tasks(panels, m, threads));
}

/// A run-time right operand. Either each task packs the panels that it needs, one by one; or, if several row tasks
/// would pack the same panels, all threads first pack some panels together, which all then read.
void divide_run_time(ProductStrategy& s, const ProductProblem& p, const ProductTarget& t) {
  const PanelLayout layout{p.n, t.lanes(p.rhs_dtype)};
  const int64_t panels = layout.panels();
  s.packs_together = p.m > 64 && p.m * row_bytes(p.k, p.rhs_dtype) > 2 * lhs_block_bytes(t) && panels > 0;
  if (s.packs_together) {
    const bool pairs = p.lhs_dtype == bf16 && p.rhs_dtype == bf16 && t.has_bf16_dots && !p.policy.batch_invariant;
    s.packed_dtype = p.rhs_dtype == f64 ? f64 : pairs ? bf16 : f32;
    const int64_t panel_bytes =
        (p.k + 1) * layout.lanes * PanelLayout::kVectors * static_cast<int64_t>(byte_size(s.packed_dtype));
    s.piece_panels = std::clamp<int64_t>(shared_panel_bytes(t) / std::max<int64_t>(1, panel_bytes),
                                         std::min<int64_t>(panels, 2 * p.threads), panels);
    const PanelLayout piece{s.piece_panels * PanelLayout::kVectors * layout.lanes, layout.lanes};
    return divide_panels(s, p, piece, t);
  }
  if (p.m == 0 || panels == 0) return;
  const int64_t wanted = wanted_tasks(p.batches * product_work(p.m, p.k, p.n), p.threads, t);
  s.row_tasks = 1;
  s.column_tasks = std::clamp<int64_t>(divided_up(wanted, std::max<int64_t>(1, p.batches)), 1,
                                       max_panel_tasks(panels, p.m, p.threads));
}

// ---- matrix tiles of bf16 terms

/// Packed rows at a time: they stay in the second-level cache, beside some columns.
int64_t left_bytes(const ProductTarget& t) { return t.caches.l2_bytes * 1100 / 2048; }
/// The same where columns are split while products run: then one block of columns lies beside them, not two.
int64_t left_bytes_while_splitting(const ProductTarget& t) { return t.caches.l2_bytes * 1200 / 2048; }
/// Packed columns at a time, else scratch memory would be a second copy of large weights.
constexpr int64_t kMaxPackedColumns = 64 << 20;

bool is_constant(const ProductProblem& p) { return p.right != RightOperand::run_time; }
/// Whether the columns are f32 and adjacent in memory, so that they can be split while products run.
bool splits_columns(const ProductProblem& p) {
  return tile_form(p.lhs_dtype, p.rhs_dtype) == TileForm::three && p.rhs_dtype == f32 &&
         (is_constant(p) || p.rhs_n_stride == 1);
}
/// Whether to compute y^T = w^T x^T: if the columns are f32 and contiguous along k, the left operand's layout, so that
/// they are packed without a transposition, and the sums are transposed instead. Rows of x that are contiguous along k
/// must then be transposed while they are packed, so they may be at most half as many as the columns.
bool transposes_sums(const ProductProblem& p) {
  if (tile_form(p.lhs_dtype, p.rhs_dtype) != TileForm::three || p.rhs_dtype != f32 || is_constant(p)) return false;
  if (p.rhs_k_stride != 1 || p.rhs_n_stride == 1) return false;
  return p.lhs_k_stride != 1 || p.m <= p.n / 2;
}
/// Bytes of 32 packed rows or columns.
int64_t pair_bytes(const ProductProblem& p) { return 2 * tiled_bytes(p.k, tile_form(p.lhs_dtype, p.rhs_dtype)); }
int64_t row_blocks_in_cache(const ProductProblem& p, const ProductTarget& t) {
  return std::max<int64_t>(1, left_bytes(t) / pair_bytes(p));
}
int64_t min_rows_for_tiles(const ProductProblem& p, const ProductTarget& t) {
  if (tile_form(p.lhs_dtype, p.rhs_dtype) != TileForm::three) return 16;
  constexpr int64_t kRowsWorthPacking = 64;  // f32 columns that are packed before they are multiplied pay from here on
  return splits_columns(p) ? t.costs.tile_rows : std::max(t.costs.tile_rows, kRowsWorthPacking);
}

void divide_tiles(ProductStrategy& s, const ProductProblem& p, const ProductTarget& t) {
  // Each task of rows reads all packed columns, so it should have so many rows.
  constexpr int64_t kRowsWorthReading = 128;
  // Up to so many bytes of packed rows, each thread packs them for itself if it has so many columns: what another core
  // has written is read as slowly as from the third-level cache.
  constexpr int64_t kMaxPackedPerThread = 512 << 10, kColumnsWorthPackingTwice = 64;
  // Many small products of a batch are one task each.
  constexpr int64_t kWorkForAll = 1 << 24;
  s.product_per_thread =
      p.right == RightOperand::run_time && p.batches >= 2 * p.threads && product_work(p.m, p.k, p.n) < kWorkForAll;
  const int threads = s.product_per_thread ? 1 : p.threads;
  const int64_t row_blocks = divided_up(p.m, kBlockRows), column_blocks = divided_up(p.n, kTiledColumns);
  const int64_t in_cache = row_blocks_in_cache(p, t);
  // In pieces along k, a piece of the packed rows stays in the cache, and so does one of the columns that are split
  // beside it. The sums of the pieces before are read and written once more.
  constexpr int64_t kMaxSums_bytes = 4 << 20;
  if (splits_columns(p) && row_blocks * column_blocks * kBlockRows * kTiledColumns * 4 <= kMaxSums_bytes)
    s.k_pieces = divided_up(p.k, kPieceTerms);
  const int64_t rows_at_once = row_blocks * pair_bytes(p) / p.k * (s.k_pieces > 1 ? kPieceTerms : p.k);
  s.rows_first = row_blocks <= in_cache || (splits_columns(p) && rows_at_once <= left_bytes_while_splitting(t));
  if (!s.rows_first) s.k_pieces = 1;
  if (s.rows_first) {
    s.row_tasks = 1;
    s.column_tasks = threads == 1 ? 1 : std::min<int64_t>(column_blocks, kTasksPerThread * threads);
    const int64_t packed = row_blocks * pair_bytes(p) + aligned(row_blocks * static_cast<int64_t>(sizeof(float)));
    s.packs_rows_per_thread =
        threads > 1 && p.n >= kColumnsWorthPackingTwice * threads && packed <= kMaxPackedPerThread;
    s.splits_columns = splits_columns(p);
    s.transposes_sums = transposes_sums(p);
    return;
  }
  s.column_tasks = 1;
  s.row_tasks =
      std::max(divided_up(row_blocks, in_cache), std::min<int64_t>(kTasksPerThread * threads, p.m / kRowsWorthReading));
  if (threads > 1) s.row_tasks = divided_up(s.row_tasks, threads) * threads;
  s.row_tasks = std::min(s.row_tasks, row_blocks);
}

// ---- Ozaki splits

/// If threads divide the columns, each reads all rows, most of them split by other cores; if they divide the rows, each
/// reads all columns. So rows are divided if they are more than the columns, or if a thread's cache holds the weights.
void divide_splits(ProductStrategy& s, const ProductProblem& p, const ProductTarget& t) {
  constexpr int64_t kMinTilesPerTask = 4;  // tasks of fewer tiles of rows would read the columns too often
  const SplitLayout layout{p.k, p.n};
  const int64_t row_tiles = divided_up(p.m, kTileRows), pairs = divided_up(layout.blocks(), int64_t{2});
  // Split rows stay in the second-level cache, beside a block of columns.
  const int64_t tile_bytes = layout.steps() * SplitLayout::kRowStepBytes;
  const int64_t in_cache = std::max<int64_t>(1, t.caches.l2_bytes / 2 / tile_bytes);
  const bool divides_rows =
      p.threads > 1 && row_tiles >= 2 * p.threads && (p.m > p.n || p.split_bytes <= t.caches.l2_bytes / 8);
  s.shares_rows = row_tiles <= in_cache && !divides_rows;
  if (s.shares_rows) {
    s.row_tasks = 1;
    s.column_tasks = p.threads == 1 ? 1 : std::min<int64_t>(pairs, kTasksPerThread * p.threads);
    return;
  }
  s.column_tasks = 1;
  s.row_tasks = divided_up(row_tiles, in_cache);
  if (p.threads > 1) {
    const int64_t tasks = std::clamp<int64_t>(row_tiles / kMinTilesPerTask, p.threads, kTasksPerThread * p.threads);
    s.row_tasks = std::min(divided_up(std::max(s.row_tasks, tasks), p.threads) * p.threads, row_tiles);
  }
}

// ---- the table

bool is_narrow(DType t) { return t == f32 || t == bf16 || t == f16; }

using Problem = ProductProblem;
using Target = ProductTarget;
constexpr auto kAdds = ProductKernel::multiply_adds;
constexpr ProductRule kRules[] = {
    {ProductKernel::ozaki_splits, "the weights are packed as Ozaki splits",
     [](const Problem& p, const Target&) { return p.right == RightOperand::splits; }},
    {kAdds, "batch-invariant: tiles would sum many rows in another order than few",
     [](const Problem& p, const Target&) { return p.policy.batch_invariant; }},
    {kAdds, "there are no matrix tiles", [](const Problem&, const Target& t) { return !t.has_matrix_tiles; }},
    {kAdds, "tiles take no f64",
     [](const Problem& p, const Target&) {
       return !is_narrow(p.lhs_dtype) || !is_narrow(p.rhs_dtype) || !is_narrow(p.y_dtype);
     }},
    {kAdds, "an operand is contiguous along neither of its dims",
     [](const Problem& p, const Target&) {
       return (p.lhs_m_stride != 1 && p.lhs_k_stride != 1) ||
              (!is_constant(p) && p.rhs_k_stride != 1 && p.rhs_n_stride != 1);
     }},
    {kAdds, "bf16 weights are packed in pairs, which tiles take beside bf16 alone",
     [](const Problem& p, const Target&) { return is_constant(p) && p.rhs_dtype == bf16 && p.lhs_dtype != bf16; }},
    {kAdds, "with so few rows, tiles do not pay for packing",
     [](const Problem& p, const Target& t) { return p.m < min_rows_for_tiles(p, t); }},
    {kAdds, "with so small a k, most of the time is the epilogue's",
     [](const Problem& p, const Target&) { return p.k < kTileFloats; }},
    {kAdds, "with so few columns, packing the rows takes longer than multiply-adds",
     [](const Problem& p, const Target&) { return p.n < 48; }},
    {kAdds, "the batch is empty", [](const Problem& p, const Target&) { return p.batches == 0; }},
    {kAdds, "neither do the packed rows fit the cache nor the packed columns the scratch memory",
     [](const Problem& p, const Target& t) {
       return divided_up(p.m, kBlockRows) > row_blocks_in_cache(p, t) &&
              divided_up(p.n, kTiledColumns) * pair_bytes(p) > kMaxPackedColumns;
     }},
    {ProductKernel::bf16_tiles, "tiles pay for these extents", [](const Problem&, const Target&) { return true; }},
};

}  // namespace

ProductTarget product_target() {
  ProductTarget target;
  target.has_matrix_tiles = has_matrix_tiles();
  target.has_bf16_dots = packed_dtype_for(bf16, bf16) == bf16;
  target.f32_lanes = product_lanes(f32), target.f64_lanes = product_lanes(f64);
  target.caches = cache_sizes();
  target.costs = cost_model();
  return target;
}

std::string_view name_of(ProductKernel kernel) {
  switch (kernel) {
    case ProductKernel::multiply_adds: return "multiply-adds";
    case ProductKernel::bf16_tiles: return "bf16 tiles";
    case ProductKernel::ozaki_splits: break;
  }
  return "Ozaki splits";
}

std::span<const ProductRule> product_rules() { return kRules; }

std::string ProductStrategy::text() const {
  std::string how(name_of(kernel));
  const auto add = [&how](bool is_so, std::string_view what) {
    if (is_so) how += text_of(", ", what);
  };
  add(transposed, "transposed");
  add(packs_together, "right operand packed by all threads first");
  add(rows_first, packs_rows_per_thread ? "rows packed first, by each thread" : "rows packed first");
  add(kernel == ProductKernel::bf16_tiles && !rows_first, "columns packed first");
  add(splits_columns, "columns split during products");
  add(k_pieces > 1, text_of(k_pieces, " pieces of k"));
  add(transposes_sums, "sums transposed");
  add(shares_rows, "rows split first");
  if (product_per_thread) how += ", one product a task";
  else how += text_of(", ", row_tasks, " x ", column_tasks, tasks() == 1 ? " task" : " tasks");
  return text_of(how, ": ", reason);
}

ProductStrategy plan_product(const ProductProblem& p, const ProductTarget& t) {
  ProductStrategy s;
  const auto* const rule =
      std::find_if(std::begin(kRules), std::end(kRules), [&](const ProductRule& r) { return r.holds(p, t); });
  s.kernel = rule->kernel, s.reason = rule->reason;
  switch (s.kernel) {
    case ProductKernel::ozaki_splits: divide_splits(s, p, t); break;
    case ProductKernel::bf16_tiles: divide_tiles(s, p, t); break;
    case ProductKernel::multiply_adds:
      if (is_constant(p)) divide_panels(s, p, {p.n, t.lanes(p.rhs_dtype)}, t);
      else divide_run_time(s, p, t);
  }
  return s;
}

bool is_better_transposed(const BatchedGemmSpec& s) {
  if (s.epilogue.bias) return false;
  if (s.y_n_stride != 1 && s.y_m_stride == 1) return true;
  return s.n <= 4 && s.m > s.n && s.y_m_stride != 1 && s.lhs_k_stride == 1;
}

int64_t min_rows_for_splits(const WeightsSpec& w, const ProductTarget& t) {
  constexpr int64_t kMinK = 64, kMinColumns = 48;
  if (!w.policy.row_relative || w.policy.batch_invariant || !t.has_matrix_tiles) return 0;
  if (w.dtype != f32 || w.x_dtype != f32) return 0;
  if (w.k < kMinK || w.k > SplitLayout::kMaxK || w.n < kMinColumns || (w.k_stride != 1 && w.n_stride != 1)) return 0;
  // Weights of at least so many elements are split for products of at least so many rows: a tile takes as long for one
  // row as for 16, so that few rows by weights that lie in a cache are faster by multiply-adds.
  constexpr struct { int64_t rows, weights; } kMin[] = {{1, 1 << 21}, {12, 1 << 15}, {32, 1 << 12}};
  for (const auto& min : kMin)
    if (w.n >= divided_up(min.weights, w.k)) return min.rows;
  return 0;
}

PointwiseStrategy plan_pointwise_convolution(int64_t pixels, int64_t in_channels, int64_t out_channels,
                                             const ProductPolicy& policy) {
  constexpr int64_t kFewPixels = 256, kMaxPixels = 1024, kMinChannels = 48, kMaxChannelsIn = 127;
  const bool many_in = in_channels > kMaxChannelsIn;
  // With few input channels, Ozaki splits spend their time on the epilogue.
  if (many_in && policy.row_relative) return {false, "Ozaki splits are faster with many input channels"};
  // Tiles pay for more pixels if there are few input and enough output channels.
  if (pixels > (many_in || out_channels < kMinChannels ? kFewPixels : kMaxPixels))
    return {false, "with so many pixels, a product packs rows once"};
  return {true, "with so few pixels, a product does not pay for packing rows"};
}

}  // namespace rlx::kernels

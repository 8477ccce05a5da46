// Products with weights in Ozaki splits (split_product.h): tiles of 16 rows are split, then pairs of blocks of columns
// are multiplied by them. product_plan.h decides whether all rows are split first and the threads divide the columns,
// or a task is some rows, which its thread splits.
#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "kernels/gemm/backends.h"
#include "kernels/gemm/fma/micro_kernels.h"
#include "kernels/gemm/ozaki/split_plan.h"
#include "kernels/gemm/ozaki/split_product.h"
#include "kernels/gemm/ozaki/split_weights.h"
#include "kernels/gemm/product_plan.h"
#include "kernels/threads/thread_pool.h"

namespace rlx::kernels {
namespace {

constexpr int64_t kPairColumns = 2 * kTileRows;  // as many as apply_epilogue() takes
// Columns are prefetched this many bytes before they are multiplied.
constexpr int64_t kPrefetchBytes = 32 << 10;

struct Weights {
  SplitLayout layout;
  size_t bytes;
  AlignedMemory data = {};

  SplitColumns columns() const { return {layout, data.get()}; }
};

class SplitProductPlan : public GemmPlan {
 public:
  SplitProductPlan(std::shared_ptr<const Weights> weights, const GemmSpec& spec)
      : weights_(std::move(weights)), spec_(spec), layout_(weights_->layout) {
    tile_bytes_ = layout_.steps() * SplitLayout::kRowStepBytes;
    row_tiles_ = divided_up(spec.m, kTileRows), pairs_ = divided_up(layout_.blocks(), int64_t{2});
    strategy_ = plan_product({.m = spec.m,
                              .n = layout_.n,
                              .k = layout_.k,
                              .right = RightOperand::splits,
                              .lhs_m_stride = spec.x_stride,
                              .split_bytes = static_cast<int64_t>(weights_->bytes),
                              .y_dtype = spec.y_dtype,
                              .threads = spec.threads,
                              .policy = {.row_relative = true}},
                             product_target());
    is_shared_ = strategy_.shares_rows, row_tasks_ = strategy_.row_tasks, column_tasks_ = strategy_.column_tasks;
    max_task_tiles_ = divided_up(row_tiles_, std::max<int64_t>(1, row_tasks_));
    block_.rows = spec.m, block_.k = layout_.k;
    block_.lhs = {nullptr, spec.x_stride, 1, f32};
    block_.y_row_stride = spec.y_stride, block_.y_dtype = spec.y_dtype;
    block_.residual_row_stride = spec.residual_stride;
    const Epilogue& e = spec.epilogue;
    writes_sums_ = e.alpha == 1 && !e.bias && e.activation == Activation::none && e.residual == Residual::none &&
                   spec.y_dtype == f32;
    fallback_scratch_ = aligned(static_cast<int64_t>(
        block_scratch_bytes(kTileRows, layout_.k, block_.lhs, {nullptr, kTileRows, 1, f32}, true)));
  }

  std::string strategy() const override { return strategy_.text(); }
  size_t scratch_bytes() const override {
    return static_cast<size_t>(spec_.threads * slot_bytes() + (is_shared_ ? row_splits_bytes() : 0));
  }

  void run(const GemmOperands& o, void* scratch, ThreadPool& pool) const noexcept override {
    BlockProduct b = block_;
    b.lhs.data = o.x, b.y = o.y, b.bias = o.bias, b.residual = o.residual, b.epilogue = &spec_.epilogue;
    char* const slots = static_cast<char*>(scratch);
    char* const shared = slots + spec_.threads * slot_bytes();
    if (is_shared_)
      pool.parallel_for(row_tiles_ < spec_.threads ? 1 : spec_.threads, row_tiles_,
                        [&](int64_t tile) { split(b, tile, shared, tile); });
    const std::span next(reinterpret_cast<const char*>(o.prefetch.data()), o.prefetch.size());
    pool.parallel_for(spec_.threads, row_tasks_ * column_tasks_, [&](int64_t task, int slot_number) {
      char* const slot = slots + slot_number * slot_bytes();
      const TileScope scope;
      if (is_shared_) {
        multiply(b, 0, row_tiles_, pairs_ * task / column_tasks_, pairs_ * (task + 1) / column_tasks_, shared, slot,
                 prefetch_plan(task, next));
      } else {
        const int64_t begin = row_tiles_ * task / row_tasks_, end = row_tiles_ * (task + 1) / row_tasks_;
        char* const row_splits = slot + own_bytes();
        for (int64_t tile = begin; tile < end; ++tile) split(b, tile, row_splits, tile - begin);
        multiply(b, begin, end, 0, pairs_, row_splits, slot, {});
      }
    });
  }

 private:
  /// Bytes of a task's split rows, followed by 16 scales for each tile of rows.
  int64_t row_splits_bytes() const { return max_task_tiles_ * (tile_bytes_ + 64); }
  float* row_scales(char* row_splits, int64_t i) const {
    return reinterpret_cast<float*>(row_splits + max_task_tiles_ * tile_bytes_ + i * 64);
  }
  /// A thread's slot: sums of 16 rows and 32 columns, two blocks of columns as f32, scratch memory of the fp32 fallback
  /// and, unless rows are shared, the split rows.
  static constexpr int64_t kSumsBytes = kTileRows * kPairColumns * 4;
  int64_t own_bytes() const { return kSumsBytes + 2 * aligned(layout_.dequantized_bytes()) + fallback_scratch_; }
  int64_t slot_bytes() const { return own_bytes() + (is_shared_ ? 0 : row_splits_bytes()); }

  const float* row(const BlockProduct& b, int64_t i) const {
    return static_cast<const float*>(b.lhs.data) + i * b.lhs.row_stride;
  }
  void split(const BlockProduct& b, int64_t tile, char* row_splits, int64_t i) const noexcept {
    const int64_t begin = tile * kTileRows;
    split_rows(row(b, begin), b.lhs.row_stride, std::min(kTileRows, spec_.m - begin), layout_,
               weights_->columns().balances(), row_splits + i * tile_bytes_, row_scales(row_splits, i));
  }
  /// What a task prefetches: the rest of its thread's share of the columns, then its share of the next product's
  /// weights.
  struct PrefetchPlan {
    Prefetch rest, next;
  };
  PrefetchPlan prefetch_plan(int64_t task, std::span<const char> next) const {
    const int64_t shares = std::min<int64_t>(spec_.threads, column_tasks_), share = task * shares / column_tasks_;
    const int64_t share_end = pairs_ * divided_up((share + 1) * column_tasks_, shares) / column_tasks_;
    const SplitColumns w = weights_->columns();
    const auto size = static_cast<int64_t>(next.size());
    return {{nullptr, w.tiles(std::min(2 * share_end, layout_.blocks()))},
            {next.data() + size * share / shares, next.data() + size * (share + 1) / shares}};
  }

  void multiply(const BlockProduct& b, int64_t begin, int64_t end, int64_t pair_begin, int64_t pair_end,
                char* row_splits, char* slot, PrefetchPlan plan) const noexcept {
    const SplitColumns w = weights_->columns();
    Prefetch nothing{w.tiles(0), w.tiles(0), 0};
    Prefetch prefetch = nothing;
    // The first tiles of rows prefetch, each an equal share.
    const int64_t prefetching_tiles = std::clamp<int64_t>(end - begin, 1, 4);
    if (plan.rest.end) {
      const char* const first = w.tiles(2 * pair_begin);
      plan.rest.at = first + std::min(kPrefetchBytes, plan.rest.end - first);
      prefetch = plan.rest, prefetch.stride = 256 / prefetching_tiles;
    }
    for (int64_t pair = pair_begin; pair < pair_end; ++pair) {
      const int64_t column = pair * kPairColumns;
      int64_t dequantized[2] = {-1, -1};
      for (int64_t tile = begin; tile < end; ++tile) {
        const int64_t first = tile * kTileRows, rows = std::min(kTileRows, spec_.m - first);
        const int64_t cols = std::min(kPairColumns, layout_.n - column);
        const bool is_y = writes_sums_ && rows == kTileRows && cols == kPairColumns;
        float* const sums =
            is_y ? static_cast<float*>(b.y) + first * b.y_row_stride + column : reinterpret_cast<float*>(slot);
        const int64_t stride = is_y ? b.y_row_stride : kPairColumns;
        const float* const scales = row_scales(row_splits, tile - begin);
        int fallback_rows = 0;
        for (int i = 0; i < kTileRows; ++i) fallback_rows += scales[i] == 0;
        for (int64_t half = 0; half * kTileRows < cols; ++half) {
          const int64_t block = 2 * pair + half;
          if (prefetch.at >= prefetch.end && plan.next.at < plan.next.end) {
            prefetch = plan.next, plan.next.at = prefetch.end;
            prefetch.stride = 256 / prefetching_tiles;
          }
          Prefetch& memory = tile < begin + prefetching_tiles ? prefetch : nothing;
          const bool is_f32 = w.is_f32(block);
          if (is_f32) prefetch_some(layout_, memory);
          else
            multiply_splits(w, block, row_splits + (tile - begin) * tile_bytes_, scales, sums + half * kTileRows,
                            stride, memory);
          if (is_f32 || fallback_rows != 0)
            multiply_by_fma(b, block, first, rows, scales, sums + half * kTileRows, stride, dequantized[half], slot);
        }
        if (!is_y) apply_epilogue(b, sums, stride, first, rows, column, cols);
      }
    }
  }

  /// The fp32 fallback for 16 rows and a block of columns. It computes the rows that are out of split range or, if the
  /// block is stored as f32, all rows. The slot has room for two blocks as f32, one with an even and one with an odd
  /// number; `dequantized` is the number of the one that is there, of this block's parity.
  void multiply_by_fma(const BlockProduct& whole, int64_t block, int64_t first, int64_t rows, const float* scales,
                       float* sums, int64_t stride, int64_t& dequantized, char* slot) const noexcept {
    static constexpr Epilogue kNoEpilogue;
    auto* const weights =
        reinterpret_cast<float*>(slot + kSumsBytes + block % 2 * aligned(layout_.dequantized_bytes()));
    const SplitColumns w = weights_->columns();
    const bool is_f32 = w.is_f32(block);
    const auto needs_fallback = [&](int64_t i) { return is_f32 || scales[i] == 0; };
    for (int64_t i = 0, count = 1; i < rows; i += count, count = 1) {
      if (!needs_fallback(i)) continue;
      while (i + count < rows && needs_fallback(i + count)) ++count;
      if (dequantized != block) w.dequantize(block, weights), dequantized = block;
      BlockProduct b = whole;
      b.rows = count;
      b.lhs.data = row(whole, first + i);
      b.layout = {kTileRows, kTileRows}, b.panel_begin = 0, b.panel_end = 1;
      b.packed = true, b.rhs = {weights, kTileRows, 1, f32};
      b.y = sums + i * stride, b.y_dtype = f32, b.y_row_stride = stride, b.y_col_stride = 1;
      b.bias = b.residual = nullptr, b.epilogue = &kNoEpilogue;
      b.scratch = slot + kSumsBytes + 2 * aligned(layout_.dequantized_bytes());
      multiply_block(b);
    }
  }

  std::shared_ptr<const Weights> weights_;
  GemmSpec spec_;
  ProductStrategy strategy_;
  SplitLayout layout_;
  BlockProduct block_;
  int64_t tile_bytes_, row_tiles_, pairs_;
  int64_t row_tasks_, column_tasks_, max_task_tiles_, fallback_scratch_;
  bool is_shared_, writes_sums_;
};

class SplitWeights : public PackedWeights {
 public:
  SplitWeights(const WeightsSpec& spec, std::shared_ptr<const Weights> weights)
      : PackedWeights(spec, weights->bytes), weights_(std::move(weights)) {}

  std::shared_ptr<const GemmPlan> plan(const GemmSpec& spec) const override {
    return std::make_shared<SplitProductPlan>(weights_, spec);
  }
  bool are_split() const override { return true; }
  std::span<const std::byte> packed() const override {
    return {reinterpret_cast<const std::byte*>(weights_->data.get()), bytes()};
  }
  std::pair<const void*, size_t> block() const override { return block_of(weights_->data, bytes()); }

 private:
  std::shared_ptr<const Weights> weights_;
};

}  // namespace

std::shared_ptr<const PackedWeights> pack_split(const WeightsSpec& spec, const void* data) {
  if (rows_for_packing(spec, spec.rows) == 0) return nullptr;
  const SplitLayout layout{spec.k, spec.n};
  const StridedMatrix weights{data, spec.k_stride, spec.n_stride, f32};
  SplitPlan plan;
  if (!plan_splits(weights, layout, spec.threads, plan)) return nullptr;
  auto packed = std::make_shared<Weights>(Weights{layout, static_cast<size_t>(layout.bytes(plan.fourth_blocks))});
  packed->data = aligned_memory(packed->bytes);
  split_columns(weights, layout, plan, spec.threads, packed->data.get());
  return std::make_shared<SplitWeights>(spec, std::move(packed));
}

bool holds_splits(const WeightsSpec& spec, std::span<const std::byte> packed) {
  const SplitLayout layout{spec.k, spec.n};
  // A column has many bytes: with no more columns than bytes, layout.bytes() does not overflow.
  const auto size = static_cast<int64_t>(packed.size());
  if (min_rows_for_splits(spec, product_target()) == 0 || spec.n > size || size < layout.bytes(0)) return false;
  return std::memcmp(packed.data(), SplitLayout::kMark, sizeof SplitLayout::kMark) == 0;
}

std::shared_ptr<const PackedWeights> adopt_split(const WeightsSpec& spec, std::span<const std::byte> packed,
                                                 std::shared_ptr<const void> owner) {
  const SplitLayout layout{spec.k, spec.n};
  const auto* const forms = reinterpret_cast<const int32_t*>(packed.data() + layout.forms());
  int64_t fourths = 0;
  for (int64_t block = 0; block < layout.blocks(); ++block)
    if (forms[block] != SplitLayout::kThreeSplits && SplitLayout::fourth_index(forms[block]) != fourths++)
      return nullptr;
  if (static_cast<int64_t>(packed.size()) != layout.bytes(fourths)) return nullptr;
  auto weights = std::make_shared<Weights>(Weights{layout, packed.size()});
  weights->data = adopted_memory(packed, std::move(owner));
  return std::make_shared<SplitWeights>(spec, std::move(weights));
}

}  // namespace rlx::kernels

// Products with weights in slices (sliced_product.h): 16 rows at a time are sliced, then pairs of blocks of columns
// pass over them. Few rows are sliced first and shared by the threads, which divide the columns; of many, a part is as
// much as the second-level cache takes, and its thread slices it.
#include <algorithm>
#include <cstring>
#include <utility>

#include "kernels/gemm_backends.h"
#include "kernels/gemm_kernels.h"
#include "kernels/sliced_product.h"
#include "kernels/sliced_weights.h"
#include "kernels/slicing_plan.h"
#include "kernels/thread_pool.h"

namespace rlx::kernels {
namespace {

constexpr int64_t kPairColumns = 2 * kTileLines;  // what finish_sums() takes at once
// Rows that are sliced at a time stay in the second-level cache, beside a block of columns.
constexpr int64_t kRowBytes = 1 << 20;
// Fewer tiles of rows at a time read the columns too often.
constexpr int64_t kTilesOfPart = 4;
// Tiles take as long for one row as for 16: without them few rows multiply weights that lie in some cache faster.
constexpr struct { int64_t rows, weights; } kLeast[] = {{1, 1 << 21}, {12, 1 << 15}, {32, 1 << 12}};
constexpr int64_t kLeastK = 64, kLeastColumns = 48;
// All threads may read so many bytes of weights, which their second-level caches hold.
constexpr size_t kWeightsOfThread = 256 << 10;
// How long before they are multiplied columns are asked for.
constexpr int64_t kBytesAhead = 32 << 10;

struct Weights {
  SlicedLayout layout;
  size_t bytes;
  AlignedMemory data = {};

  SlicedColumns columns() const { return {layout, data.get()}; }
};

class SlicedPlan : public GemmPlan {
 public:
  SlicedPlan(std::shared_ptr<const Weights> weights, const GemmSpec& spec)
      : weights_(std::move(weights)), spec_(spec), layout_(weights_->layout) {
    tile_bytes_ = layout_.steps() * SlicedLayout::kRowStepBytes;
    row_tiles_ = divided_up(spec.m, kTileLines), pairs_ = divided_up(layout_.blocks(), int64_t{2});
    const int64_t in_cache = std::max<int64_t>(1, kRowBytes / tile_bytes_);
    // Threads share rows that others have sliced, and divide the columns, unless that is more to pass on than the
    // columns are, which all would read.
    const bool divides_rows = spec.threads > 1 && row_tiles_ >= 2 * spec.threads &&
                              (spec.m > layout_.n || weights_->bytes <= kWeightsOfThread);
    is_shared_ = row_tiles_ <= in_cache && !divides_rows;
    // Parts are more than threads, so that one that was interrupted does not hold up the others.
    if (is_shared_) {
      row_parts_ = 1, tiles_kept_ = row_tiles_;
      column_parts_ = spec.threads == 1 ? 1 : std::min<int64_t>(pairs_, 4 * spec.threads);
    } else {
      column_parts_ = 1;
      row_parts_ = divided_up(row_tiles_, in_cache);
      if (spec.threads > 1) {
        const int64_t parts = std::clamp<int64_t>(row_tiles_ / kTilesOfPart, spec.threads, 4 * spec.threads);
        row_parts_ = std::min(divided_up(std::max(row_parts_, parts), spec.threads) * spec.threads, row_tiles_);
      }
      tiles_kept_ = divided_up(row_tiles_, row_parts_);
    }
    block_.rows = spec.m, block_.k = layout_.k;
    block_.lhs = {nullptr, spec.x_stride, 1, f32};
    block_.y_row_stride = spec.y_stride, block_.y_dtype = spec.y_dtype;
    block_.residual_row_stride = spec.residual_stride;
    const Epilogue& e = spec.epilogue;
    writes_sums_ = e.alpha == 1 && !e.bias && e.activation == Activation::none && e.residual == Residual::none &&
                   spec.y_dtype == f32;
    plain_scratch_ = aligned(static_cast<int64_t>(
        block_scratch_bytes(kTileLines, layout_.k, block_.lhs, {nullptr, kTileLines, 1, f32}, true)));
  }

  size_t scratch_bytes() const override {
    return static_cast<size_t>(spec_.threads * slot_bytes() + (is_shared_ ? kept_bytes() : 0));
  }

  void run(const GemmOperands& o, void* scratch, ThreadPool& pool) const noexcept override {
    BlockProduct b = block_;
    b.lhs.data = o.x, b.y = o.y, b.bias = o.bias, b.residual = o.residual, b.epilogue = &spec_.epilogue;
    char* const slots = static_cast<char*>(scratch);
    char* const shared = slots + spec_.threads * slot_bytes();
    if (is_shared_)
      pool.parallel_for(row_tiles_ < spec_.threads ? 1 : spec_.threads, row_tiles_,
                        [&](int64_t tile) { slice(b, tile, shared, tile); });
    const std::span next(reinterpret_cast<const char*>(o.ahead.data()), o.ahead.size());
    pool.parallel_for(spec_.threads, row_parts_ * column_parts_, [&](int64_t part, int slot_number) {
      char* const slot = slots + slot_number * slot_bytes();
      const TileScope scope;
      if (is_shared_) {
        multiply(b, 0, row_tiles_, pairs_ * part / column_parts_, pairs_ * (part + 1) / column_parts_, shared, slot,
                 ahead(part, next));
      } else {
        const int64_t begin = row_tiles_ * part / row_parts_, end = row_tiles_ * (part + 1) / row_parts_;
        char* const kept = slot + own_bytes();
        for (int64_t tile = begin; tile < end; ++tile) slice(b, tile, kept, tile - begin);
        multiply(b, begin, end, 0, pairs_, kept, slot, {});
      }
    });
  }

 private:
  /// Sliced rows, then what their ones stand for.
  int64_t kept_bytes() const { return tiles_kept_ * (tile_bytes_ + 64); }
  float* row_units(char* kept, int64_t i) const {
    return reinterpret_cast<float*>(kept + tiles_kept_ * tile_bytes_ + i * 64);
  }
  /// Sums of 16 rows and 32 columns, two blocks of columns as f32, and what a product without tiles needs.
  static constexpr int64_t kSumsBytes = kTileLines * kPairColumns * 4;
  int64_t own_bytes() const { return kSumsBytes + 2 * aligned(layout_.restored_bytes()) + plain_scratch_; }
  int64_t slot_bytes() const { return own_bytes() + (is_shared_ ? 0 : kept_bytes()); }

  const float* row(const BlockProduct& b, int64_t i) const {
    return static_cast<const float*>(b.lhs.data) + i * b.lhs.row_stride;
  }
  void slice(const BlockProduct& b, int64_t tile, char* kept, int64_t i) const noexcept {
    const int64_t begin = tile * kTileLines;
    slice_rows(row(b, begin), b.lhs.row_stride, std::min(kTileLines, spec_.m - begin), layout_,
               weights_->columns().balances(), kept + i * tile_bytes_, row_units(kept, i));
  }
  /// What a part asks for: the rest of its thread's share of the columns; behind it, of what is read next.
  struct Reading {
    MemoryAhead rest, next;
  };
  Reading ahead(int64_t part, std::span<const char> next) const {
    const int64_t shares = std::min<int64_t>(spec_.threads, column_parts_), share = part * shares / column_parts_;
    const int64_t share_end = pairs_ * divided_up((share + 1) * column_parts_, shares) / column_parts_;
    const SlicedColumns w = weights_->columns();
    const auto size = static_cast<int64_t>(next.size());
    return {{nullptr, w.tiles(std::min(2 * share_end, layout_.blocks()))},
            {next.data() + size * share / shares, next.data() + size * (share + 1) / shares}};
  }

  void multiply(const BlockProduct& b, int64_t begin, int64_t end, int64_t pair_begin, int64_t pair_end, char* kept,
                char* slot, Reading reading) const noexcept {
    const SlicedColumns w = weights_->columns();
    MemoryAhead nothing{w.tiles(0), w.tiles(0), 0};
    MemoryAhead ask = nothing;
    // The first tiles of rows share the asking.
    const int64_t asking = std::clamp<int64_t>(end - begin, 1, 4);
    if (reading.rest.end) {
      const char* const first = w.tiles(2 * pair_begin);
      reading.rest.at = first + std::min(kBytesAhead, reading.rest.end - first);
      ask = reading.rest, ask.stride = 256 / asking;
    }
    for (int64_t pair = pair_begin; pair < pair_end; ++pair) {
      const int64_t column = pair * kPairColumns;
      int64_t restored[2] = {-1, -1};
      for (int64_t tile = begin; tile < end; ++tile) {
        const int64_t first = tile * kTileLines, rows = std::min(kTileLines, spec_.m - first);
        const int64_t cols = std::min(kPairColumns, layout_.n - column);
        const bool is_y = writes_sums_ && rows == kTileLines && cols == kPairColumns;
        float* const sums =
            is_y ? static_cast<float*>(b.y) + first * b.y_row_stride + column : reinterpret_cast<float*>(slot);
        const int64_t stride = is_y ? b.y_row_stride : kPairColumns;
        const float* const units = row_units(kept, tile - begin);
        int plain_rows = 0;
        for (int i = 0; i < kTileLines; ++i) plain_rows += units[i] == 0;
        for (int64_t half = 0; half * kTileLines < cols; ++half) {
          const int64_t block = 2 * pair + half;
          if (ask.at >= ask.end && reading.next.at < reading.next.end) {
            ask = reading.next, reading.next.at = ask.end;
            ask.stride = 256 / asking;
          }
          MemoryAhead& asked = tile < begin + asking ? ask : nothing;
          const bool is_plain = w.is_plain(block);
          if (is_plain) ask_ahead(layout_, asked);
          else
            multiply_slices(w, block, kept + (tile - begin) * tile_bytes_, units, sums + half * kTileLines, stride,
                            asked);
          if (is_plain || plain_rows != 0)
            multiply_plainly(b, block, first, rows, units, sums + half * kTileLines, stride, restored[half], slot);
        }
        if (!is_y) finish_sums(b, sums, stride, first, rows, column, cols);
      }
    }
  }

  /// The rows that slices do not stand for, of a block that is not sliced all. `restored`: which block stands in the
  /// slot's place for that half as f32.
  void multiply_plainly(const BlockProduct& whole, int64_t block, int64_t first, int64_t rows, const float* units,
                        float* sums, int64_t stride, int64_t& restored, char* slot) const noexcept {
    static constexpr Epilogue kNothing;
    auto* const weights = reinterpret_cast<float*>(slot + kSumsBytes + block % 2 * aligned(layout_.restored_bytes()));
    const SlicedColumns w = weights_->columns();
    const bool takes_all = w.is_plain(block);
    const auto takes = [&](int64_t i) { return takes_all || units[i] == 0; };
    for (int64_t i = 0, count = 1; i < rows; i += count, count = 1) {
      if (!takes(i)) continue;
      while (i + count < rows && takes(i + count)) ++count;
      if (restored != block) w.restore(block, weights), restored = block;
      BlockProduct b = whole;
      b.rows = count;
      b.lhs.data = row(whole, first + i);
      b.layout = {kTileLines, kTileLines}, b.panel_begin = 0, b.panel_end = 1;
      b.packed = true, b.rhs = {weights, kTileLines, 1, f32};
      b.y = sums + i * stride, b.y_dtype = f32, b.y_row_stride = stride, b.y_col_stride = 1;
      b.bias = b.residual = nullptr, b.epilogue = &kNothing;
      b.scratch = slot + kSumsBytes + 2 * aligned(layout_.restored_bytes());
      multiply_block(b);
    }
  }

  std::shared_ptr<const Weights> weights_;
  GemmSpec spec_;
  SlicedLayout layout_;
  BlockProduct block_;
  int64_t tile_bytes_, row_tiles_, pairs_;
  int64_t row_parts_, column_parts_, tiles_kept_, plain_scratch_;
  bool is_shared_, writes_sums_;
};

class SlicedWeights : public PackedWeights {
 public:
  SlicedWeights(const WeightsSpec& spec, std::shared_ptr<const Weights> weights)
      : PackedWeights(spec, GemmBackend::highway, weights->bytes), weights_(std::move(weights)) {}

  std::shared_ptr<const GemmPlan> plan(const GemmSpec& spec) const override {
    return std::make_shared<SlicedPlan>(weights_, spec);
  }
  bool are_sliced() const override { return true; }
  std::span<const std::byte> packed() const override {
    return {reinterpret_cast<const std::byte*>(weights_->data.get()), bytes()};
  }
  std::pair<const void*, size_t> block() const override { return block_of(weights_->data, bytes()); }

 private:
  std::shared_ptr<const Weights> weights_;
};

/// All but their numbers and the rows they are for.
bool may_be_sliced(const WeightsSpec& spec) {
  if (!slices_weights() || spec.backend != GemmBackend::automatic || spec.dtype != f32 || spec.x_dtype != f32)
    return false;
  return spec.k >= kLeastK && spec.k <= SlicedLayout::kMostK && spec.n >= kLeastColumns &&
         (spec.k_stride == 1 || spec.n_stride == 1);
}

}  // namespace

int64_t rows_for_packing(const WeightsSpec& spec, int64_t m) {
  if (!may_be_sliced(spec)) return 0;
  for (const auto& least : kLeast)
    if (spec.n >= divided_up(least.weights, spec.k)) return m >= least.rows ? least.rows : 0;
  return 0;
}

std::shared_ptr<const PackedWeights> pack_sliced(const WeightsSpec& spec, const void* data) {
  if (rows_for_packing(spec, spec.rows) == 0) return nullptr;
  const SlicedLayout layout{spec.k, spec.n};
  const StridedMatrix weights{data, spec.k_stride, spec.n_stride, f32};
  SlicingPlan plan;
  if (!plan_slicing(weights, layout, spec.threads, plan)) return nullptr;
  auto packed = std::make_shared<Weights>(Weights{layout, static_cast<size_t>(layout.bytes(plan.fourth_blocks))});
  packed->data = aligned_memory(packed->bytes);
  slice_columns(weights, layout, plan, spec.threads, packed->data.get());
  return std::make_shared<SlicedWeights>(spec, std::move(packed));
}

bool hold_slices(const WeightsSpec& spec, std::span<const std::byte> packed) {
  const SlicedLayout layout{spec.k, spec.n};
  // A column takes many bytes: with no more columns than bytes nothing below overflows.
  const auto size = static_cast<int64_t>(packed.size());
  if (!may_be_sliced(spec) || spec.n > size || size < layout.bytes(0)) return false;
  return std::memcmp(packed.data(), SlicedLayout::kMark, sizeof SlicedLayout::kMark) == 0;
}

std::shared_ptr<const PackedWeights> adopt_sliced(const WeightsSpec& spec, std::span<const std::byte> packed,
                                                  std::shared_ptr<const void> owner) {
  const SlicedLayout layout{spec.k, spec.n};
  const auto* const forms = reinterpret_cast<const int32_t*>(packed.data() + layout.forms());
  int64_t fourths = 0;
  for (int64_t block = 0; block < layout.blocks(); ++block)
    if (forms[block] != SlicedLayout::kThreeSlices && SlicedLayout::place(forms[block]) != fourths++) return nullptr;
  if (static_cast<int64_t>(packed.size()) != layout.bytes(fourths)) return nullptr;
  auto weights = std::make_shared<Weights>(Weights{layout, packed.size()});
  weights->data = adopted_memory(packed, std::move(owner));
  return std::make_shared<SlicedWeights>(spec, std::move(weights));
}

}  // namespace rlx::kernels

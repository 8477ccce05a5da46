// A product of two run-time operands, as product_plan.h divides it: in which order its operands are packed, and the
// tasks of each product of the batch.
#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/rounded_up.h"
#include "kernels/gemm/amx/amx_gemm.h"
#include "kernels/gemm/backends.h"
#include "kernels/gemm/fma/micro_kernels.h"
#include "kernels/gemm/grid.h"
#include "kernels/gemm/product_plan.h"
#include "kernels/threads/thread_pool.h"

namespace rlx::kernels {
namespace {

void drop_batch_dim(BatchedGemmSpec& s, int dim) {
  for (int64_t* a : {s.batch_dims, s.lhs_batch_strides, s.rhs_batch_strides, s.y_batch_strides})
    std::copy(a + dim + 1, a + s.batch_rank, a + dim);
  --s.batch_rank;
}

// Merges into m the batch dims in which rhs is broadcast and the rows of lhs and y continue with the same stride, so
// that rhs is packed once for all of them. Dims of 1 are dropped.
void merge_batch_into_rows(BatchedGemmSpec& s) {
  for (int d = s.batch_rank - 1; d >= 0; --d) {
    const bool more_rows = s.rhs_batch_strides[d] == 0 && s.lhs_batch_strides[d] == s.m * s.lhs_m_stride &&
                           s.y_batch_strides[d] == s.m * s.y_m_stride;
    if (more_rows) s.m *= s.batch_dims[d];
    if (more_rows || s.batch_dims[d] == 1) drop_batch_dim(s, d);
  }
}

void transpose(BatchedGemmSpec& s) {
  std::swap(s.m, s.n);
  std::swap(s.lhs_dtype, s.rhs_dtype);
  std::swap(s.lhs_k_stride, s.rhs_k_stride);
  std::swap(s.lhs_m_stride, s.rhs_n_stride);
  std::swap(s.y_m_stride, s.y_n_stride);
  std::swap(s.lhs_batch_strides, s.rhs_batch_strides);
}

class HighwayBatchedPlan : public BatchedGemmPlan {
 public:
  explicit HighwayBatchedPlan(const BatchedGemmSpec& spec) : s_(spec) {
    transposed_ = is_better_transposed(s_);
    if (transposed_) transpose(s_);
    merge_batch_into_rows(s_);
    batches_ = 1;
    for (int d = 0; d < s_.batch_rank; ++d) batches_ *= s_.batch_dims[d];

    block_.k = s_.k;
    block_.batch_invariant = s_.policy.batch_invariant;
    block_.layout = {s_.n, product_lanes(s_.rhs_dtype)};
    block_.lhs = {nullptr, s_.lhs_m_stride, s_.lhs_k_stride, s_.lhs_dtype};
    block_.rhs = {nullptr, s_.rhs_k_stride, s_.rhs_n_stride, s_.rhs_dtype};
    block_.y_row_stride = s_.y_m_stride, block_.y_col_stride = s_.y_n_stride;
    block_.residual_row_stride = s_.y_m_stride;
    block_.y_dtype = s_.y_dtype;

    strategy_ = plan_product({.m = s_.m,
                              .n = s_.n,
                              .k = s_.k,
                              .batches = batches_,
                              .lhs_m_stride = s_.lhs_m_stride,
                              .lhs_k_stride = s_.lhs_k_stride,
                              .rhs_k_stride = s_.rhs_k_stride,
                              .rhs_n_stride = s_.rhs_n_stride,
                              .lhs_dtype = s_.lhs_dtype,
                              .rhs_dtype = s_.rhs_dtype,
                              .y_dtype = s_.y_dtype,
                              .threads = s_.threads,
                              .policy = s_.policy},
                             product_target());
    strategy_.transposed = transposed_;
    block_.rows = s_.m;
    if (strategy_.kernel == ProductKernel::bf16_tiles) {
      tiled_.emplace(block_, strategy_, strategy_.product_per_thread ? 1 : s_.threads);
      return;
    }
    const int64_t panels = block_.layout.panels();
    if (strategy_.packs_together) {
      grid_ = {s_.m, strategy_.piece_panels, strategy_.row_tasks, strategy_.column_tasks};
      shared_bytes_ = aligned(strategy_.piece_panels * (s_.k + 1) * block_.layout.lanes * PanelLayout::kVectors *
                              static_cast<int64_t>(byte_size(strategy_.packed_dtype)));
      block_.packed = true;
      block_.rhs = {nullptr, 0, 1, strategy_.packed_dtype};
    } else if (strategy_.tasks() > 0) {
      grid_ = {s_.m, panels, strategy_.row_tasks, strategy_.column_tasks};
    }
    slot_bytes_ =
        static_cast<int64_t>(block_scratch_bytes(grid_.max_rows(), s_.k, block_.lhs, block_.rhs, block_.packed));
  }

  std::string strategy() const override { return strategy_.text(); }
  size_t scratch_bytes() const override {
    if (tiled_) return tiled_->scratch_bytes() * static_cast<size_t>(strategy_.product_per_thread ? s_.threads : 1);
    return static_cast<size_t>(shared_bytes_ + slot_bytes_ * s_.threads);
  }

  void run(const BatchedGemmOperands& operands, void* scratch, ThreadPool& pool) const noexcept override {
    BatchedGemmOperands o = operands;
    if (transposed_) std::swap(o.lhs, o.rhs);
    if (tiled_) {
      const auto run_batch = [&](int64_t batch, int slot) {
        char* own = static_cast<char*>(scratch) + static_cast<size_t>(slot) * tiled_->scratch_bytes();
        tiled_->run(block_of_batch(o, batch), own, pool);
      };
      if (strategy_.product_per_thread) return pool.parallel_for(s_.threads, batches_, run_batch);
      for (int64_t batch = 0; batch < batches_; ++batch) run_batch(batch, 0);
      return;
    }
    if (!strategy_.packs_together) {
      pool.parallel_for(s_.threads, batches_ * grid_.tasks(), [&](int64_t task, int slot) {
        BlockProduct block = block_of_batch(o, task / grid_.tasks());
        run_task(block, task % grid_.tasks(), static_cast<char*>(scratch) + slot * slot_bytes_);
      });
      return;
    }
    for (int64_t batch = 0; batch < batches_; ++batch)
      for (int64_t begin = 0; begin < grid_total_panels(); begin += strategy_.piece_panels) {
        BlockProduct block = block_of_batch(o, batch);
        run_piece(block, begin, std::min(begin + strategy_.piece_panels, grid_total_panels()),
                  static_cast<char*>(scratch), pool);
      }
  }

 private:
  int64_t grid_total_panels() const { return block_.layout.panels(); }

  BlockProduct block_of_batch(const BatchedGemmOperands& o, int64_t batch) const {
    int64_t lhs = 0, rhs = 0, y = 0;
    for (int d = s_.batch_rank - 1; d >= 0; --d) {
      const int64_t index = batch % s_.batch_dims[d];
      batch /= s_.batch_dims[d];
      lhs += index * s_.lhs_batch_strides[d];
      rhs += index * s_.rhs_batch_strides[d];
      y += index * s_.y_batch_strides[d];
    }
    BlockProduct block = block_;
    block.lhs.data = static_cast<const char*>(o.lhs) + lhs * static_cast<int64_t>(byte_size(s_.lhs_dtype));
    block.rhs.data = static_cast<const char*>(o.rhs) + rhs * static_cast<int64_t>(byte_size(s_.rhs_dtype));
    block.y = static_cast<char*>(o.y) + y * y_size();
    block.bias = o.bias;
    if (o.residual) block.residual = static_cast<const char*>(o.residual) + y * y_size();
    block.epilogue = &s_.epilogue;
    return block;
  }

  // One task of the grid over all panels; `block` is the product of one batch and becomes the task's block.
  void run_task(BlockProduct& block, int64_t task, void* scratch) const {
    const int64_t row_task = task / grid_.panel_tasks, panel_task = task % grid_.panel_tasks;
    const int64_t row = grid_.row_begin(row_task);
    block.rows = grid_.row_begin(row_task + 1) - row;
    block.panel_begin = grid_.panel_begin(panel_task), block.panel_end = grid_.panel_begin(panel_task + 1);
    move_to_row(block, row);
    block.scratch = scratch;
    multiply_block(block);
  }

  void run_piece(const BlockProduct& whole, int64_t begin, int64_t end, char* scratch, ThreadPool& pool) const {
    const StridedMatrix rhs{whole.rhs.data, s_.rhs_k_stride, s_.rhs_n_stride, s_.rhs_dtype};
    const PanelLayout& layout = whole.layout;
    pool.parallel_for(s_.threads, end - begin, [&](int64_t task) {
      pack_panels(rhs, s_.k, layout, begin + task, begin + task + 1,
                  scratch + layout.packed_bytes(s_.k, strategy_.packed_dtype, begin, begin + task),
                  strategy_.packed_dtype);
    });
    Grid grid = grid_;
    grid.panels = end - begin;
    grid.panel_tasks = std::min(grid.panel_tasks, grid.panels);
    pool.parallel_for(s_.threads, grid.tasks(), [&](int64_t task, int slot) {
      BlockProduct block = whole;
      const int64_t row_task = task / grid.panel_tasks, panel_task = task % grid.panel_tasks;
      const int64_t row = grid.row_begin(row_task);
      block.rows = grid.row_begin(row_task + 1) - row;
      block.panel_begin = begin + grid.panel_begin(panel_task),
      block.panel_end = begin + grid.panel_begin(panel_task + 1);
      block.rhs.data = scratch + layout.packed_bytes(s_.k, strategy_.packed_dtype, begin, block.panel_begin);
      move_to_row(block, row);
      block.scratch = scratch + shared_bytes_ + slot * slot_bytes_;
      multiply_block(block);
    });
  }

  void move_to_row(BlockProduct& block, int64_t row) const {
    block.lhs.data = static_cast<const char*>(block.lhs.data) +
                     row * s_.lhs_m_stride * static_cast<int64_t>(byte_size(s_.lhs_dtype));
    block.y = static_cast<char*>(block.y) + row * s_.y_m_stride * y_size();
    if (block.residual) block.residual = static_cast<const char*>(block.residual) + row * s_.y_m_stride * y_size();
  }
  int64_t y_size() const { return static_cast<int64_t>(byte_size(s_.y_dtype)); }

  BatchedGemmSpec s_;
  bool transposed_ = false;
  ProductStrategy strategy_;
  std::optional<TiledProduct> tiled_;
  int64_t batches_ = 1;
  Grid grid_;
  BlockProduct block_;
  int64_t shared_bytes_ = 0, slot_bytes_ = 0;
};

}  // namespace

std::shared_ptr<const BatchedGemmPlan> plan_batched_highway(const BatchedGemmSpec& spec) {
  return std::make_shared<HighwayBatchedPlan>(spec);
}

}  // namespace rlx::kernels

// Products with packed weights by multiply-adds or bf16 matrix tiles: the weights, and how a product is divided into
// tasks. The arithmetic is in micro_kernels.cpp and amx_gemm.cpp.
#include <algorithm>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "kernels/gemm/amx/amx_gemm.h"
#include "kernels/gemm/backends.h"
#include "kernels/gemm/fma/micro_kernels.h"
#include "kernels/gemm/grid.h"
#include "kernels/gemm/product_plan.h"
#include "kernels/threads/thread_pool.h"

namespace rlx::kernels {
namespace {

// The packed weights and their layout, shared by the PackedWeights object and its plans.
struct Panels {
  PanelLayout layout;
  int64_t k;
  DType dtype, x_dtype;
  bool batch_invariant;
  AlignedMemory data = {};

  explicit Panels(const WeightsSpec& spec)
      : layout{spec.n, product_lanes(spec.dtype)}, k(spec.k), dtype(spec.dtype), x_dtype(spec.x_dtype),
        batch_invariant(spec.policy.batch_invariant) {}
  size_t bytes() const { return static_cast<size_t>(layout.packed_bytes(k, dtype, 0, layout.panels())); }
  /// Of bf16; see BlockProduct::rhs_min_magnitude. It is found once: weights of several gigabytes may stay in their
  /// file until they are multiplied.
  float min_magnitude() const {
    std::call_once(found_, [&] {
      min_magnitude_ = bf16_min_magnitude(data.get(), static_cast<int64_t>(bytes() / byte_size(dtype)));
    });
    return min_magnitude_;
  }

 private:
  mutable std::once_flag found_;
  mutable float min_magnitude_ = 0;
};

class HighwayPlan : public GemmPlan {
 public:
  HighwayPlan(std::shared_ptr<const Panels> panels, const GemmSpec& spec) : panels_(std::move(panels)), spec_(spec) {
    const Panels& w = *panels_;
    strategy_ = plan_product({.m = spec.m,
                              .n = w.layout.n,
                              .k = w.k,
                              .right = RightOperand::panels,
                              .lhs_m_stride = spec.x_stride,
                              .lhs_dtype = w.x_dtype,
                              .rhs_dtype = w.dtype,
                              .y_dtype = spec.y_dtype,
                              .threads = spec.threads,
                              .policy = {.batch_invariant = w.batch_invariant}},
                             product_target());
    block_.k = w.k;
    block_.lhs = {nullptr, spec.x_stride, 1, w.x_dtype};
    block_.layout = w.layout;
    block_.packed = true;
    block_.batch_invariant = w.batch_invariant;
    block_.rhs.dtype = w.dtype;
    block_.y_row_stride = spec.y_stride;
    block_.y_dtype = spec.y_dtype;
    block_.residual_row_stride = spec.residual_stride;
    block_.rows = spec.m;
    // Fewer rows are not multiplied in pairs (plan_block), which alone needs the range.
    knows_range_ = w.dtype == bf16 && w.x_dtype == bf16 && spec.m >= 4;
    if (strategy_.kernel == ProductKernel::bf16_tiles) {
      tiled_.emplace(block_, strategy_, spec.threads);
      return;
    }
    grid_ = {spec.m, w.layout.panels(), strategy_.row_tasks, strategy_.column_tasks};
    slot_bytes_ = block_scratch_bytes(grid_.max_rows(), w.k, block_.lhs, block_.rhs, true);
  }
  std::string strategy() const override { return strategy_.text(); }
  size_t scratch_bytes() const override {
    return tiled_ ? tiled_->scratch_bytes() : slot_bytes_ * static_cast<size_t>(spec_.threads);
  }

  void run(const GemmOperands& o, void* scratch, ThreadPool& pool) const noexcept override {
    const Panels& w = *panels_;
    const auto x_size = static_cast<int64_t>(byte_size(w.x_dtype)),
               y_size = static_cast<int64_t>(byte_size(spec_.y_dtype));
    const std::span prefetch(reinterpret_cast<const char*>(o.prefetch.data()), o.prefetch.size());
    const float min_magnitude = knows_range_ ? w.min_magnitude() : 0;
    if (tiled_) {
      BlockProduct block = block_;
      block.rhs_min_magnitude = min_magnitude;
      block.lhs.data = o.x, block.rhs.data = w.data.get();
      block.y = o.y, block.bias = o.bias, block.residual = o.residual, block.epilogue = &spec_.epilogue;
      block.prefetch = prefetch;
      return tiled_->run(block, scratch, pool);
    }
    pool.parallel_for(spec_.threads, grid_.tasks(), [&](int64_t task, int slot) {
      int64_t row_task = task / grid_.panel_tasks, panel_task = task % grid_.panel_tasks;
      int64_t row = grid_.row_begin(row_task);
      BlockProduct block = block_;
      block.rhs_min_magnitude = min_magnitude;
      block.rows = grid_.row_begin(row_task + 1) - row;
      block.panel_begin = grid_.panel_begin(panel_task), block.panel_end = grid_.panel_begin(panel_task + 1);
      block.lhs.data = static_cast<const char*>(o.x) + row * spec_.x_stride * x_size;
      block.rhs.data = w.data.get() + w.layout.packed_bytes(w.k, w.dtype, 0, block.panel_begin);
      block.y = static_cast<char*>(o.y) + row * spec_.y_stride * y_size;
      block.bias = o.bias;
      if (o.residual) block.residual = static_cast<const char*>(o.residual) + row * spec_.residual_stride * y_size;
      block.epilogue = &spec_.epilogue;
      block.prefetch = next_weights(panel_task, prefetch);
      block.scratch = static_cast<char*>(scratch) + slot_bytes_ * static_cast<size_t>(slot);
      multiply_block(block);
    });
  }

 private:
  /// The weights that the thread of this task will probably read after it. ThreadPool gives each thread a contiguous
  /// share of the tasks: the next panels follow, or behind the share's last task the same share of the next product's
  /// weights, `next`.
  std::span<const char> next_weights(int64_t panel_task, std::span<const char> next) const {
    const Panels& w = *panels_;
    const int64_t tasks = grid_.panel_tasks, shares = std::min<int64_t>(spec_.threads, tasks);
    const int64_t share = panel_task * shares / tasks;
    if ((panel_task + 1) * shares / tasks == share) {
      const int64_t from = w.layout.packed_bytes(w.k, w.dtype, 0, grid_.panel_begin(panel_task + 1));
      return {w.data.get() + from, w.bytes() - static_cast<size_t>(from)};
    }
    return next.subspan(next.size() * static_cast<size_t>(share) / static_cast<size_t>(shares) / 64 * 64);
  }

  std::shared_ptr<const Panels> panels_;
  GemmSpec spec_;
  Grid grid_;
  BlockProduct block_;
  size_t slot_bytes_ = 0;
  bool knows_range_ = false;  // of the weights' magnitudes
  std::optional<TiledProduct> tiled_;
  ProductStrategy strategy_;
};

class HighwayWeights : public PackedWeights {
 public:
  HighwayWeights(const WeightsSpec& spec, std::shared_ptr<const Panels> panels)
      : PackedWeights(spec, panels->bytes()), panels_(std::move(panels)) {}

  std::shared_ptr<const GemmPlan> plan(const GemmSpec& spec) const override {
    return std::make_shared<HighwayPlan>(panels_, spec);
  }
  std::span<const std::byte> packed() const override {
    return {reinterpret_cast<const std::byte*>(panels_->data.get()), bytes()};
  }
  std::pair<const void*, size_t> block() const override { return block_of(panels_->data, bytes()); }

 private:
  std::shared_ptr<const Panels> panels_;
};

}  // namespace

std::shared_ptr<const PackedWeights> pack_highway(const WeightsSpec& spec, const void* data) {
  auto panels = std::make_shared<Panels>(spec);
  const PanelLayout& layout = panels->layout;
  panels->data = aligned_memory(panels->bytes());
  const StridedMatrix matrix{data, spec.k_stride, spec.n_stride, spec.dtype};
  ThreadPool::shared().parallel_for(spec.threads, layout.panels(), [&](int64_t p) {
    pack_panels(matrix, spec.k, layout, p, p + 1, panels->data.get() + layout.packed_bytes(spec.k, spec.dtype, 0, p),
                spec.dtype);
  });
  return std::make_shared<HighwayWeights>(spec, std::move(panels));
}

std::shared_ptr<const PackedWeights> adopt_highway(const WeightsSpec& spec, std::span<const std::byte> packed,
                                                   std::shared_ptr<const void> owner) {
  auto panels = std::make_shared<Panels>(spec);
  if (packed.size() != panels->bytes()) return nullptr;
  panels->data = adopted_memory(packed, std::move(owner));
  return std::make_shared<HighwayWeights>(spec, std::move(panels));
}

}  // namespace rlx::kernels

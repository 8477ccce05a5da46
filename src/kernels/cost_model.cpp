// See the header.
#include "kernels/cost_model.h"

#include <atomic>

namespace rlx::kernels {
namespace {

std::atomic<int64_t> part_work{CostModel().part_work}, tile_rows{CostModel().tile_rows};

}  // namespace

CostModel cost_model() noexcept {
  return {part_work.load(std::memory_order_relaxed), tile_rows.load(std::memory_order_relaxed)};
}
void set_cost_model(const CostModel& model) noexcept {
  part_work.store(model.part_work, std::memory_order_relaxed);
  tile_rows.store(model.tile_rows, std::memory_order_relaxed);
}

}  // namespace rlx::kernels

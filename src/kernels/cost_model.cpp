// See the header.
#include "kernels/cost_model.h"

#include <atomic>

namespace rlx::kernels {
namespace {

// One by one: whoever reads while they are set gets some old and some new, either of which is good.
struct Shared {
  std::atomic<int64_t> part_work{CostModel().part_work}, tile_rows{CostModel().tile_rows};
  std::atomic<bool> weight_slices{CostModel().weight_slices};
  std::atomic<double> split_ns{CostModel().split_ns}, attention_ns{CostModel().attention_ns};
  std::atomic<int> threads{CostModel().threads};
};
constinit Shared shared;
constinit thread_local const CostModel* here = nullptr;

}  // namespace

CostModel cost_model() noexcept {
  if (here) return *here;
  constexpr auto kRelaxed = std::memory_order_relaxed;
  return {shared.part_work.load(kRelaxed), shared.tile_rows.load(kRelaxed),    shared.weight_slices.load(kRelaxed),
          shared.split_ns.load(kRelaxed),  shared.attention_ns.load(kRelaxed), shared.threads.load(kRelaxed)};
}
void set_cost_model(const CostModel& model) noexcept {
  constexpr auto kRelaxed = std::memory_order_relaxed;
  shared.part_work.store(model.part_work, kRelaxed), shared.tile_rows.store(model.tile_rows, kRelaxed);
  shared.weight_slices.store(model.weight_slices, kRelaxed);
  shared.split_ns.store(model.split_ns, kRelaxed), shared.attention_ns.store(model.attention_ns, kRelaxed);
  shared.threads.store(model.threads, kRelaxed);
}

CostModelHere::CostModelHere(const CostModel& model) noexcept : model_(model), outer_(here) { here = &model_; }
CostModelHere::~CostModelHere() { here = outer_; }

}  // namespace rlx::kernels

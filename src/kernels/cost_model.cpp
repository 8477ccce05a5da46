// See the header.
#include "kernels/cost_model.h"

#include <atomic>

#include "base/static_tls.h"

namespace rlx::kernels {
namespace {

// Each figure is atomic on its own. A reader during set_cost_model may get some old and some new ones, which is
// harmless.
struct Shared {
  std::atomic<int64_t> task_work{CostModel().task_work}, tile_rows{CostModel().tile_rows};
  std::atomic<double> split_ns{CostModel().split_ns}, attention_ns{CostModel().attention_ns};
  std::atomic<int> threads{CostModel().threads};
};
constinit Shared shared;
RLX_STATIC_TLS constinit thread_local const CostModel* scoped = nullptr;

}  // namespace

CostModel cost_model() noexcept {
  if (scoped) return *scoped;
  constexpr auto kRelaxed = std::memory_order_relaxed;
  return {shared.task_work.load(kRelaxed), shared.tile_rows.load(kRelaxed), shared.split_ns.load(kRelaxed),
          shared.attention_ns.load(kRelaxed), shared.threads.load(kRelaxed)};
}
void set_cost_model(const CostModel& model) noexcept {
  constexpr auto kRelaxed = std::memory_order_relaxed;
  shared.task_work.store(model.task_work, kRelaxed), shared.tile_rows.store(model.tile_rows, kRelaxed);
  shared.split_ns.store(model.split_ns, kRelaxed), shared.attention_ns.store(model.attention_ns, kRelaxed);
  shared.threads.store(model.threads, kRelaxed);
}

ScopedCostModel::ScopedCostModel(const CostModel& model) noexcept : model_(model), outer_(scoped) { scoped = &model_; }
ScopedCostModel::~ScopedCostModel() { scoped = outer_; }

}  // namespace rlx::kernels

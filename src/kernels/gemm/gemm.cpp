// The entry points of gemm.h: they check specs, pack weights as product_plan.h says, and cache plans.
#include "kernels/gemm/gemm.h"

#include <algorithm>

#include "kernels/gemm/backends.h"
#include "kernels/gemm/fma/micro_kernels.h"
#include "kernels/gemm/ozaki/split_weights.h"
#include "kernels/gemm/plan_cache.h"
#include "kernels/gemm/product_plan.h"
#include "kernels/vector/instruction_set.h"
#include "rlx/error.h"

namespace rlx::kernels {
namespace {

bool is_product_dtype(DType t) { return t == f32 || t == bf16 || t == f16 || t == f64; }

// f64 is accumulated in f64 and all others in f32: they do not mix.
void check_dtypes(DType lhs, DType rhs, DType y, const Epilogue& epilogue) {
  DType bias = epilogue.bias ? epilogue.bias_dtype : y;
  for (DType t : {lhs, rhs, y, bias}) {
    if (!is_product_dtype(t))
      fail(ErrorCode::unsupported, "the CPU's products take f32, bf16, f16 and f64, not ", t, "; convert it first");
    if ((t == f64) != (lhs == f64))
      fail(ErrorCode::unsupported, "a product of ", lhs, " and ", rhs, " into ", y, " with a bias of ", bias,
           " mixes f64 with narrower dtypes; convert them first");
  }
}

void check_extents(int64_t m, int64_t n, int64_t k) {
  if (m < 0 || n < 0 || k < 0)
    fail(ErrorCode::invalid_argument, "a product cannot have the extents m = ", m, ", n = ", n, ", k = ", k);
}

}  // namespace

namespace {

/// All that a plan depends on: plans that were made with other figures (CostModel) are not used.
template <class Spec>
struct PlanKey {
  Spec spec;
  ProductTarget target;

  bool operator==(const PlanKey&) const = default;
};

}  // namespace

struct PackedWeights::Plans {
  PlanCache<PlanKey<GemmSpec>, GemmPlan> cache{16};
};

PackedWeights::PackedWeights(const WeightsSpec& spec, size_t bytes)
    : k_(spec.k), n_(spec.n), dtype_(spec.dtype), x_dtype_(spec.x_dtype), bytes_(bytes),
      plans_(std::make_unique<Plans>()) {}
PackedWeights::~PackedWeights() = default;

std::shared_ptr<const PackedWeights> PackedWeights::pack(const WeightsSpec& spec, const void* data) {
  check_extents(0, spec.n, spec.k);
  check_dtypes(spec.x_dtype, spec.dtype, spec.x_dtype, {});
  if (auto split = pack_split(spec, data)) return split;
  return pack_highway(spec, data);
}

std::shared_ptr<const PackedWeights> PackedWeights::adopt(const WeightsSpec& spec, std::span<const std::byte> packed,
                                                          std::shared_ptr<const void> owner) {
  check_extents(0, spec.n, spec.k);
  check_dtypes(spec.x_dtype, spec.dtype, spec.x_dtype, {});
  if (holds_splits(spec, packed)) return adopt_split(spec, packed, std::move(owner));
  return adopt_highway(spec, packed, std::move(owner));
}

int64_t rows_for_packing(const WeightsSpec& spec, int64_t m) {
  const int64_t min_rows = min_rows_for_splits(spec, product_target());
  return m >= min_rows ? min_rows : 0;
}

std::string packed_form() {
  constexpr int kVersion = 3;  // to be raised when pack_panels() or split_columns() writes anything else
  return text_of("panels ", has_matrix_tiles() ? "and splits " : "", kVersion, " of ", PanelLayout::kVectors, " times ",
                 product_lanes(f32), " and ", product_lanes(f64), is_permitted(kBF16Dots) ? "" : ", no VNNI");
}

PreparedGemm PackedWeights::prepare(const GemmSpec& spec) const {
  return PreparedGemm(plans_->cache.find_or_make({spec, product_target()}, [this](const auto& key) {
    const GemmSpec& s = key.spec;
    check_extents(s.m, n_, k_);
    check_dtypes(x_dtype_, dtype_, s.y_dtype, s.epilogue);
    GemmSpec checked = s;
    checked.threads = std::max(1, s.threads);
    return plan(checked);
  }));
}

std::shared_ptr<const BatchedGemmPlan> plan_batched_gemm(const BatchedGemmSpec& spec) {
  BatchedGemmSpec s = spec;
  s.threads = std::max(1, s.threads);
  check_extents(s.m, s.n, s.k);
  check_dtypes(s.lhs_dtype, s.rhs_dtype, s.y_dtype, s.epilogue);
  if (s.batch_rank < 0 || s.batch_rank > BatchedGemmSpec::kMaxBatchRank)
    fail(ErrorCode::unsupported, "a batched product has at most ", BatchedGemmSpec::kMaxBatchRank, " batch dims, not ",
         s.batch_rank, "; merge some");
  return plan_batched_highway(s);
}

PreparedBatchedGemm prepare_batched_gemm(const BatchedGemmSpec& spec) {
  static auto* cache = new PlanCache<PlanKey<BatchedGemmSpec>, BatchedGemmPlan>(64);
  return PreparedBatchedGemm(
      cache->find_or_make({spec, product_target()}, [](const auto& key) { return plan_batched_gemm(key.spec); }));
}

}  // namespace rlx::kernels

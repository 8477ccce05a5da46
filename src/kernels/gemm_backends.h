// What gemm.cpp asks of the two implementations. Specs were checked before they come here.
#pragma once

#include <memory>

#include "kernels/gemm.h"

namespace rlx::kernels {

using GemmPlan = ProductPlan<GemmOperands>;
using BatchedGemmPlan = ProductPlan<BatchedGemmOperands>;

// gemm_highway.cpp: takes everything.
std::shared_ptr<const PackedWeights> pack_highway(const WeightsSpec& spec, const void* data);
std::shared_ptr<const BatchedGemmPlan> plan_batched_highway(const BatchedGemmSpec& spec);

}  // namespace rlx::kernels

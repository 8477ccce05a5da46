// What gemm.cpp asks of the implementations. Specs were checked before they come here.
#pragma once

#include <memory>

#include "kernels/aligned_memory.h"
#include "kernels/gemm.h"

namespace rlx::kernels {

using GemmPlan = ProductPlan<GemmOperands>;
using BatchedGemmPlan = ProductPlan<BatchedGemmOperands>;

// gemm_highway.cpp and gemm_batched.cpp: take everything.
std::shared_ptr<const PackedWeights> pack_highway(const WeightsSpec& spec, const void* data);
std::shared_ptr<const PackedWeights> adopt_highway(const WeightsSpec& spec, std::span<const std::byte> packed,
                                                   std::shared_ptr<const void> owner);
std::shared_ptr<const BatchedGemmPlan> plan_batched_highway(const BatchedGemmSpec& spec);

// gemm_sliced.cpp: products by tiles of integers. Null for weights or a processor that they are not for.
std::shared_ptr<const PackedWeights> pack_sliced(const WeightsSpec& spec, const void* data);
bool hold_slices(const WeightsSpec& spec, std::span<const std::byte> packed);
std::shared_ptr<const PackedWeights> adopt_sliced(const WeightsSpec& spec, std::span<const std::byte> packed,
                                                  std::shared_ptr<const void> owner);

// gemm_onednn.cpp. Throws rlx::Error (unsupported) for what it does not take; so does its prepare().
std::shared_ptr<const PackedWeights> pack_onednn(const WeightsSpec& spec, const void* data);

}  // namespace rlx::kernels

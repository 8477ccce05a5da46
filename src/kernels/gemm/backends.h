// The implementations that gemm.cpp chooses from, with specs that it has checked. gemm.h documents PackedWeights.
#pragma once

#include <memory>

#include "kernels/gemm/gemm.h"
#include "kernels/memory/aligned_memory.h"

namespace rlx::kernels {

using GemmPlan = ProductPlan<GemmOperands>;
using BatchedGemmPlan = ProductPlan<BatchedGemmOperands>;

// fma_gemm.cpp and batched.cpp: every product that gemm.h allows.
std::shared_ptr<const PackedWeights> pack_highway(const WeightsSpec& spec, const void* data);
std::shared_ptr<const PackedWeights> adopt_highway(const WeightsSpec& spec, std::span<const std::byte> packed,
                                                   std::shared_ptr<const void> owner);
std::shared_ptr<const BatchedGemmPlan> plan_batched_highway(const BatchedGemmSpec& spec);

// gemm.cpp: checks the spec, and plans without the cache that prepare_batched_gemm() has.
std::shared_ptr<const BatchedGemmPlan> plan_batched_gemm(const BatchedGemmSpec& spec);

// ozaki_gemm.cpp: products by Ozaki splits on integer matrix tiles. pack_split() returns null for weights, policies
// or processors that it does not support; holds_splits() says whether packed bytes are of this form.
std::shared_ptr<const PackedWeights> pack_split(const WeightsSpec& spec, const void* data);
bool holds_splits(const WeightsSpec& spec, std::span<const std::byte> packed);
std::shared_ptr<const PackedWeights> adopt_split(const WeightsSpec& spec, std::span<const std::byte> packed,
                                                 std::shared_ptr<const void> owner);

}  // namespace rlx::kernels

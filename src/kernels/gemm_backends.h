// What gemm.cpp asks of the two implementations. Specs were checked before they come here.
#pragma once

#include <memory>
#include <new>

#include "base/large_pages.h"
#include "kernels/gemm.h"

namespace rlx::kernels {

using GemmPlan = ProductPlan<GemmOperands>;
using BatchedGemmPlan = ProductPlan<BatchedGemmOperands>;

/// For memory from aligned_memory().
struct AlignedDelete {
  void operator()(char* data) const { ::operator delete[](data, std::align_val_t(64)); }
};
using AlignedMemory = std::unique_ptr<char[], AlignedDelete>;
inline AlignedMemory aligned_memory(size_t bytes) {
  AlignedMemory memory(static_cast<char*>(::operator new[](bytes + 64, std::align_val_t(64))));
  prefer_large_pages(memory.get(), bytes);
  return memory;
}

// gemm_highway.cpp and gemm_batched.cpp: take everything.
std::shared_ptr<const PackedWeights> pack_highway(const WeightsSpec& spec, const void* data);
std::shared_ptr<const BatchedGemmPlan> plan_batched_highway(const BatchedGemmSpec& spec);

// gemm_onednn.cpp. Throws rlx::Error (unsupported) for what it does not take; so does its prepare().
std::shared_ptr<const PackedWeights> pack_onednn(const WeightsSpec& spec, const void* data);

}  // namespace rlx::kernels

// Decides from statistics of the weights whether they can be split (split_weights.h), and how.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/gemm/ozaki/split_weights.h"

namespace rlx::kernels {

/// The scales and forms by which split_columns() splits weights.
struct SplitPlan {
  std::vector<float> column_scales, balances, inverses;  ///< per column; per k; the inverses of the balances
  std::vector<int32_t> forms;                            ///< per block
  int64_t fourth_blocks = 0;                             ///< blocks that have a fourth quarter
};
/// Plans f32 weights, k x n, of which one stride is 1. Returns false if they cannot be split, because too many columns
/// are sparse, out of range or of too different magnitudes; `plan` is unspecified then.
bool plan_splits(const StridedMatrix& weights, const SplitLayout& layout, int threads, SplitPlan& plan);

}  // namespace rlx::kernels

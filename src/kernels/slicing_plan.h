// How weights are to be sliced (sliced_weights.h), or that they are not: what a survey of them finds.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/sliced_weights.h"

namespace rlx::kernels {

/// How weights are sliced, found before they are.
struct SlicingPlan {
  std::vector<float> units, balances, inverses;  ///< inverses: of the balances
  std::vector<int32_t> forms;                    ///< of blocks
  int64_t fourth_blocks = 0;                     ///< those that have a fourth quarter
};
/// False if weights cannot be sliced: not all are finite, or their sizes differ beyond measure; `plan` is of no use
/// then. k x n, f32, one stride 1.
bool plan_slicing(const StridedMatrix& weights, const SlicedLayout& layout, int threads, SlicingPlan& plan);

}  // namespace rlx::kernels

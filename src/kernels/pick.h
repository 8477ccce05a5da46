// Boxes made of elements that a table per dim picks: y[i, j, ...] = x[table0[i], table1[j], ...]. Padding by mirrored,
// repeated or wrapped places and resizing by the nearest place are all that. Neighbour: move.h, whose copies step
// through x evenly.
#pragma once

#include <cstdint>
#include <vector>

#include "rlx/dtype.h"

namespace rlx::kernels {

/// A row of y in parts: bytes side by side in x, or single blocks.
struct PickRun {
  int64_t from = 0, to = 0, bytes = 0;  ///< bytes are 0 for `count` blocks, picked one by one
  int64_t first = 0, count = 0;         ///< of the table of blocks
};

struct PickPlan {
  std::vector<std::vector<int64_t>> outer;  ///< per dim of y but the last: where its places are in x, in bytes
  std::vector<PickRun> runs;                ///< of a row
  std::vector<int64_t> blocks;              ///< where single blocks are in a row of x, in bytes
  int64_t block_bytes = 1, row_bytes = 0;   ///< of what the last table picks; of a row of y
  int64_t repeat = 0;                       ///< each block of a row comes this often in turn; 0: as the runs say
  int64_t rows = 0;
};

/// `tables[d][i]` is the place along dim d of x that y has at place i; `x_dims` are the extents of x, which is dense,
/// as y is. Every place is within x.
PickPlan plan_pick(int64_t element_bytes, const std::vector<int64_t>& x_dims,
                   const std::vector<std::vector<int64_t>>& tables);
/// The rows [begin, end) of y.
void pick(const PickPlan& plan, const void* x, void* y, int64_t begin, int64_t end) noexcept;

}  // namespace rlx::kernels

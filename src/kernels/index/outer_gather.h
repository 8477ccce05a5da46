// Gather with an index table for each dim: y[i, j, ...] = x[table0[i], table1[j], ...]. Padding by reflection,
// replication or wrapping and nearest-neighbour resizing are such gathers. Neighbour: move.h, for copies with constant
// strides.
#pragma once

#include <cstdint>
#include <vector>

#include "rlx/dtype.h"

namespace rlx::kernels {

/// A piece of a row of y: either `bytes` contiguous bytes of x, or `count` blocks that are gathered one by one. Offsets
/// are in bytes within a row.
struct OuterGatherRun {
  int64_t from = 0, to = 0, bytes = 0;  ///< offsets in x and in y, and size; 0 bytes stand for gathered blocks
  int64_t first = 0, count = 0;         ///< the gathered blocks are entries [first, first + count) of `blocks`
};

struct OuterGatherPlan {
  std::vector<std::vector<int64_t>> outer;  ///< [d][i]: the byte offset in x for index i of outer dim d of y
  std::vector<OuterGatherRun> runs;         ///< the pieces that a row of y consists of
  std::vector<int64_t> blocks;              ///< byte offsets of gathered blocks within a row of x
  int64_t block_bytes = 1;                  ///< size of the contiguous block of x that one index stands for
  int64_t row_bytes = 0;                    ///< size of a row of y
  int64_t repeat = 0;  ///< if not 0, a row is consecutive blocks of x, each this many times, and `runs` is empty
  int64_t rows = 0;    ///< rows of y
};

/// tables[d][i] is the index along dim d of x that index i of y reads. `x_dims` are the extents of x; x and y are
/// dense. Every index must be within x.
OuterGatherPlan plan_outer_gather(int64_t element_bytes, const std::vector<int64_t>& x_dims,
                                  const std::vector<std::vector<int64_t>>& tables);
/// Writes rows [begin, end) of y.
void outer_gather(const OuterGatherPlan& plan, const void* x, void* y, int64_t begin, int64_t end) noexcept;

}  // namespace rlx::kernels

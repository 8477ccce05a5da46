// Rotary positions: pairs of elements of each head are turned by angles of its position. User:
// backends/cpu/lower_attention.cpp.
#pragma once

#include <cstdint>

#include "rlx/dtype.h"

namespace rlx::kernels {

/// Heads are dense rows of `width` elements, ordered by batch, then by position and head, or with `heads_first` by head
/// and position.
struct RopeArgs {
  DType dtype = f32;        ///< of x and y: f32, f16 or bf16
  DType table_dtype = f32;  ///< f32, or that of x
  const void* x = nullptr;
  void* y = nullptr;  ///< may be x
  int64_t positions = 0, heads = 0, width = 0;
  bool heads_first = false;
  int64_t pairs = 0;          ///< the first 2 * pairs elements of a row turn; what stands behind them is copied
  bool side_by_side = false;  ///< pair i is elements 2 i and 2 i + 1, not i and i + pairs
  /// The angles of a position: `pairs` cosines and as many sines.
  const void *cosines = nullptr, *sines = nullptr;
  int64_t table_stride = 0, table_batch_stride = 0;  ///< from a position, and a batch, to the next one, in elements
};
/// Turns the rows [begin, end): l' = l cos - r sin, r' = r cos + l sin. f16 and bf16 are computed in f32 and rounded
/// once.
void turn_rows(const RopeArgs& args, int64_t begin, int64_t end) noexcept;

}  // namespace rlx::kernels

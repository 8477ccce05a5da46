// Rotary position embedding (RoPE): each pair of elements of a head is rotated by an angle that depends on the head's
// position (Su et al., "RoFormer", 2021). User: backends/cpu/lower_attention.cpp.
#pragma once

#include <cstdint>

#include "rlx/dtype.h"

namespace rlx::kernels {

/// x and y have a dense row of `width` elements for each head of each position. Rows are ordered by batch, position and
/// head, or with `heads_first` by batch, head and position.
struct RopeArgs {
  DType dtype = f32;        ///< of x and y: f32, f16 or bf16
  DType table_dtype = f32;  ///< of cosines and sines: f32, or that of x
  const void* x = nullptr;
  void* y = nullptr;  ///< may be x
  int64_t positions = 0, heads = 0, width = 0;
  bool heads_first = false;
  int64_t pairs = 0;          ///< the first 2 * pairs elements of a row are rotated; the others are copied
  bool side_by_side = false;  ///< pair i is the elements 2 i and 2 i + 1, not i and i + pairs
  /// For each position, `pairs` contiguous cosines, and as many sines.
  const void *cosines = nullptr, *sines = nullptr;
  int64_t table_stride = 0, table_batch_stride = 0;  ///< in elements; 0 between batches: they share angles
};
/// Rotates the rows [begin, end): a pair (l, r) becomes (l cos - r sin, r cos + l sin), computed in f32. Results of f16
/// and bf16 are rounded once.
void rotate_rows(const RopeArgs& args, int64_t begin, int64_t end) noexcept;

}  // namespace rlx::kernels

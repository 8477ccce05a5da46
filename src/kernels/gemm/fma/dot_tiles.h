// What matrix tiles compute (amx/tiles.h), by dot products on vectors of 512 bits: of pairs of bf16 (vdpbf16ps) or of
// four u8 with four i8 (vpdpbusd). Left operands are read where they lie, row by row, and right ones as they are packed
// for tiles, so that kernels for tiles run on processors that have these instructions alone. Users:
// conv/narrow_tiles.h, quant/int8_tiles.h, quant/vnni.h, recurrent.
#pragma once

#include <cstdint>

namespace rlx::kernels {

/// Whether kernels may use dot products of bf16 in this process: the processor has them and RLX_ISA permits them. Of
/// 8-bit integers, has_int8_dot_isa(Int8DotIsa::avx512_vnni) says that (quant/vnni.h).
bool has_bf16_tile_dots();

enum class DotValues : uint8_t { bf16, u8_by_i8 };

/// Products of up to kMaxRows rows with columns in tiles of 16. The k_bytes of step s of row i, a multiple of 4, are at
/// rows[i] + offsets[s], or without offsets at rows[i] + s * step_bytes. A tile of columns has k_bytes / 4 rows of 64
/// bytes, four bytes along k of 16 columns; those of a step follow each other, and so do the steps.
struct DotTiles {
  static constexpr int64_t kMaxRows = 64;

  DotValues values = DotValues::bf16;
  int64_t count = 0;
  const char* rows[kMaxRows];  ///< of which add_row() sets the first `count`, as of sum_rows
  const int64_t* offsets = nullptr;
  int64_t steps = 0, k_bytes = 64, step_bytes = 64;
  const char* right = nullptr;
  /// The sums of row i and of tile t begin at sums + sum_rows[i] + t * tile_stride, in elements: f32 of bf16, else i32.
  int32_t sum_rows[kMaxRows];
  int64_t tile_stride = 16;
  void* sums = nullptr;
  /// Memory that is read soon: so many bytes of it, a multiple of 64, are prefetched in each step.
  const char* prefetch = nullptr;
  int64_t prefetch_bytes = 0;

  void add_row(const char* row, int64_t sum_row) {
    rows[count] = row, sum_rows[count++] = static_cast<int32_t>(sum_row);
  }
};
/// Writes the sums, with `tiles` tiles of columns, 2 to 4. Sums of f32 are sums of partial sums
/// (kernels/partial_sums.h) whose division depends on k_bytes and the number of steps alone; those of i32 wrap.
void multiply_dot_tiles(const DotTiles& t, int64_t tiles) noexcept;

}  // namespace rlx::kernels

// Products of the same operands as matrix tiles multiply (amx/tiles.h), by AVX-512 instructions alone: of pairs of bf16
// (vdpbf16ps) or of four u8 with four i8 (vpdpbusd). Left operands are read where they lie, row by row, and right ones
// as they are packed for tiles, so that kernels for tiles run on processors without tiles, too. Used by
// conv/narrow_tiles.cpp, quant/int8_tiles.cpp and recurrent/tiled_steps-inl.h. How products are divided into blocks may
// be changed; the packing, the terms of a partial sum and where sums are written may not.
#pragma once

#include <cstdint>

namespace rlx::kernels {

/// Whether kernels may use dot products of bf16 in this process: the processor has them and RLX_ISA permits them. Of
/// 8-bit integers, has_int8_dot_isa(Int8DotIsa::avx512_vnni) says that (quant/vnni.h).
bool has_bf16_tile_dots();

enum class DotValues : uint8_t { bf16, u8_by_i8 };

/// Products of up to kMaxRows rows of x with columns in tiles of 16. A step multiplies k_bytes bytes of each row, a
/// multiple of 4, which are at rows[i] + offsets[s], or without offsets at rows[i] + s * step_bytes. Columns are stored
/// step by step, and in a step tile by tile: each 64 bytes of a tile hold four bytes along k of 16 columns.
struct DotTiles {
  static constexpr int64_t kMaxRows = 64;

  DotValues values = DotValues::bf16;
  int64_t count = 0;
  const char* rows[kMaxRows];  ///< add_row() appends to it and to sum_rows
  const int64_t* offsets = nullptr;
  int64_t steps = 0, k_bytes = 64, step_bytes = 64;
  const char* right = nullptr;  ///< aligned to 64 bytes
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
/// Writes the sums, with `tiles` tiles of columns: 2, 3 or 4. Sums of f32 are sums of partial sums
/// (kernels/partial_sums.h; k_bytes must be at most 512), whose division depends on k_bytes and the number of steps
/// alone; those of i32 wrap.
void multiply_dot_tiles(const DotTiles& t, int64_t tiles) noexcept;

}  // namespace rlx::kernels

// Blocks as small integers, for matrix tiles: an integer is one bf16 term, the number that it stands for has three. The
// formats have runs of 32 or more elements, with a scale s and perhaps a minimum m each: w = s q - m. The sum of s q x
// and m times the sum of x may nearly cancel, so they are not subtracted. Instead w = s (q - z) + rest, where the zero
// point z is the format's integer that is nearest to m / s, and rest = s z - m. Then |s (q - z)| <= 2 |w| and
// |rest| <= |w|, so that errors are relative to w itself. The rest of each run is multiplied by the sum of x over the
// run. User: tiled_blocks.cpp.
#pragma once

#include <cstddef>
#include <cstdint>

#include "rlx/dtype.h"

namespace rlx::kernels {

/// Whether the elements of a format are such integers, and whether its runs have rests.
bool has_integers(DType format);
bool has_rests(DType format);

/// Where pack_integers() writes.
struct PackedIntegers {
  char* tiles;    ///< as pack_left_tiles() in one term: steps of 32 elements; aligned to 64 bytes
  float* scales;  ///< scales[step * 32 + row] of 16 rows; the other 16 of a step are not written
  float* rests;   ///< rests[step * 16 + row], if the format has them, else it may be null
};
/// Packs `steps` steps, whole blocks of the format, of up to 16 rows, which begin `row_bytes` after each other. Missing
/// rows have integers of 0, with any scales and rests. With rests, which the caller multiplies as one more step, there
/// are at most 32 steps. Returns false, for the fp32 fallback, if a scale is neither 0 nor 2^-60 to 2^60 in magnitude.
bool pack_integers(DType format, const std::byte* from, int64_t row_bytes, int64_t rows, int64_t steps,
                   const PackedIntegers& to) noexcept;
/// to[i] = the sum of x[32 i] to x[32 i + 31]. This and packing need AVX-512.
void sum_runs(const float* x, int64_t runs, float* to) noexcept;

}  // namespace rlx::kernels

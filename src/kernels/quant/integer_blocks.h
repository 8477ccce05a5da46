// Blocks as small integers, for matrix tiles: an integer is one bf16 term, the number that it stands for has three. Of
// formats whose runs of 32 or more elements have a scale s and perhaps a minimum m: w = s q - m. A minimum is never
// subtracted from a sum of s q x, because what is left may be much smaller than both. Instead w = s (q - z) + rest,
// where the zero point z is the format's integer that is nearest to m / s, and rest = s z - m: then
// |s (q - z)| <= 2 |w| and |rest| <= |w|, so that errors are relative to the number itself. The rests of runs are
// multiplied with the sums of x over the runs. User: tiled_blocks.cpp.
#pragma once

#include <cstddef>
#include <cstdint>

#include "rlx/dtype.h"

namespace rlx::kernels {

/// Whether the elements of a format are such integers, and whether they have rests.
bool has_integers(DType format);
bool has_rests(DType format);

/// Where pack_integers() writes.
struct PackedIntegers {
  char* tiles;    ///< as pack_left_tiles() in one term: steps of 32 elements; aligned to 64 bytes
  float* scales;  ///< scales[step * 32 + row] of 16 rows; the other 16 of a step are not written
  float* rests;   ///< rests[step * 16 + row], if the format has them, else it may be null
};
/// Packs `steps` steps, whole blocks of the format, of up to 16 rows, which begin `row_bytes` after each other; missing
/// rows become zeros (beside any scales and rests). At most 32 steps if there are rests. Returns false if a scale is
/// neither 0 nor of a magnitude of 2^-60 to 2^60. Needs AVX-512.
bool pack_integers(DType format, const std::byte* from, int64_t row_bytes, int64_t rows, int64_t steps,
                   const PackedIntegers& to) noexcept;
/// to[i] = the sum of x[32 i] to x[32 i + 31].
void sum_runs(const float* x, int64_t runs, float* to) noexcept;

}  // namespace rlx::kernels

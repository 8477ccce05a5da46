// Products by the processor's matrix tiles (Intel AMX): 16 x 16 sums at once, of bf16 or of 8-bit codes. Packing, and
// the loop over k; who does which part of a product is in gemm_tiled.cpp. Where there are no tiles, has_matrix_tiles()
// says so and nothing else here may be called.
//
// Wider floats are multiplied in parts: f32 = high + middle + low, each a bf16 and the sum exact, so that
// x w = hh + hm + mh + mm + hl + lh, and what is left out has either sign and is 2^-25 |x w| on average, 2^-22 at most.
// Six products of tiles still take less than half the time of f32 multiply-adds (Henry, Tang, Heinecke, "Leveraging the
// bfloat16 artificial intelligence datatype for higher-precision computations", ARITH 2019). f16 = high + middle, with
// all four products. A tile adds 32 products before it is added to the sums: these are rounded a sixth as often as a
// multiply-add rounds them.
#pragma once

#include <cstdint>

#include "rlx/dtype.h"

/// Whether they are compiled in.
#if defined(__x86_64__) && defined(__linux__)
#define RLX_HAS_TILES 1
#else
#define RLX_HAS_TILES 0
#endif

namespace rlx::kernels {

/// How many bf16 an element is taken for.
enum class TileForm : uint8_t { one = 1, two = 2, three = 3 };
/// The form of a product of these; all three dtypes are f32, bf16 or f16.
TileForm tile_form(DType lhs, DType rhs);

inline constexpr int64_t kTileLines = 16;     ///< rows, or columns, of sums
inline constexpr int64_t kTileBytes = 1024;   ///< 16 lines of 64 bytes
inline constexpr int64_t kTileFloats = 32;    ///< along k
inline constexpr int64_t kTileCodes = 64;     ///< along k
inline constexpr int64_t kTiledColumns = 32;  ///< what multiply_tiles() makes: two tiles side by side

/// True if the processor has them, the system lets us, and Highway's targets for wide vectors are not switched off.
bool has_matrix_tiles();

/// While it lives, the calling thread may multiply tiles.
class TileScope {
 public:
  TileScope();
  ~TileScope();
  TileScope(const TileScope&) = delete;
  TileScope& operator=(const TileScope&) = delete;
};

/// Lines of an operand: rows of the left one, columns of the right one. Element p of line i is at
/// i * line_stride + p * k_stride; one of the two is 1. With `pairs`, elements p and p + 1 stand side by side (bf16
/// packed by PanelLayout) and k_stride is the distance of pairs, in pairs.
struct TileSource {
  const void* data = nullptr;
  int64_t line_stride = 1, k_stride = 1;
  DType dtype = f32;
  bool pairs = false;
};

inline int64_t tile_steps(int64_t k) { return (k + kTileFloats - 1) / kTileFloats; }
/// Bytes of 16 lines.
inline int64_t tiled_bytes(int64_t k, TileForm form) { return tile_steps(k) * static_cast<int64_t>(form) * kTileBytes; }

/// Packs up to 16 lines (what is missing is zero). The left operand's go step by step along k, part by part; the right
/// operand's too, with `out` at the first or second of two column tiles that are packed between each other.
/// False if parts do not stand well for a line: for one with a number that is not finite or at least 2^62, unless the
/// form is one, or for one whose largest is below 2^-50 and not 0. So the bound above is of the largest magnitudes of
/// two lines: a number of 2^-76 of its line's largest, or smaller, may lose digits.
bool pack_left_tiles(const TileSource& from, int64_t lines, int64_t k, TileForm form, char* out) noexcept;
bool pack_right_tiles(const TileSource& from, int64_t lines, int64_t k, TileForm form, char* out) noexcept;

/// The left operand's lines of f32 in three parts where the caller wants them: step s of line i at
/// s * step_bytes + i * line_bytes, its parts side by side, 64 bytes each. Lines that are missing are not written.
struct LinesApart {
  int64_t line_bytes, step_bytes;
};
bool pack_left_lines(const TileSource& from, int64_t lines, int64_t k, char* out, const LinesApart& apart) noexcept;

/// The same of the bits of 16 lines' largest magnitudes, for who packs lines in three parts himself.
bool parts_stand_for(const uint32_t* magnitudes) noexcept;

/// sums[i * stride + j] for 16 rows from `upper` and 16 more from `lower`, unless that is null, and 32 columns.
void multiply_tiles(TileForm form, int64_t steps, const char* upper, const char* lower, const char* right, float* sums,
                    int64_t stride) noexcept;

/// to[j * to_stride + i] = from[i * stride + j], 16 x 16. It takes AVX-512, not matrix tiles.
void turn_tile(const float* from, int64_t stride, float* to, int64_t to_stride = kTileLines) noexcept;

/// As multiply_tiles() for codes of i8 or u8; `steps` of 64 along k.
void multiply_code_tiles(DType left_dtype, DType right_dtype, int64_t steps, const char* upper, const char* lower,
                         const char* right, int32_t* sums, int64_t stride) noexcept;

}  // namespace rlx::kernels

// Products by the processor's matrix tiles (Intel AMX), which compute 16 x 16 sums at once, of bf16 or of i8 and u8:
// packing, and the loop over k. How a product is divided into tasks is in amx_gemm.cpp. If has_matrix_tiles() is false,
// nothing else here may be called.
//
// Wider floats are split into bf16 terms (split-bf16, bf16x3): f32 = high + middle + low, where the sum is exact, and
// x w = hh + hm + mh + mm + hl + lh. The products that are left out have either sign and are 2^-25 |x w| on average,
// 2^-22 at most. Six products of tiles still take less than half the time of f32 multiply-adds (Henry, Tang, Heinecke,
// "Leveraging the bfloat16 artificial intelligence datatype for higher-precision computations", ARITH 2019). f16 is
// high + middle, with all four products. A tile adds 32 products before it adds them to the sums, so that sums are
// rounded 6, 4 or 1 times (three terms, two, one) for 32 elements of k, and by multiply-adds 32 times.
#pragma once

#include <cstdint>

#include "rlx/dtype.h"

/// Whether tiles are compiled in.
#if defined(__x86_64__) && defined(__linux__)
#define RLX_HAS_TILES 1
#else
#define RLX_HAS_TILES 0
#endif

namespace rlx::kernels {

/// The number of bf16 terms of an element.
enum class TileForm : uint8_t { one = 1, two = 2, three = 3 };
/// The form for operands of these dtypes: one for bf16 x bf16, two for f16 x f16, three for all others of f32, bf16,
/// f16.
TileForm tile_form(DType lhs, DType rhs);

inline constexpr int64_t kTileRows = 16;      ///< rows, and columns, of a tile of sums
inline constexpr int64_t kTileBytes = 1024;   ///< 16 rows of 64 bytes
inline constexpr int64_t kTileFloats = 32;    ///< bf16 of a tile along k
inline constexpr int64_t kTileInt8 = 64;      ///< i8 or u8 of a tile along k
inline constexpr int64_t kTiledColumns = 32;  ///< columns of multiply_tiles(): two tiles side by side

/// True if the processor has tiles, the system permits them, and Highway's AVX-512 targets are not switched off; or if
/// they are emulated.
bool has_matrix_tiles();
/// For a program that executes the tile instructions itself when the processor refuses them (tests/support/
/// emulated_tiles.h): sets whether has_matrix_tiles() is true without them. It stays false where the processor lacks
/// the AVX-512 instructions (F, BW, VL, DQ) that stand between them, or RLX_ISA does not permit those.
void set_tiles_emulated(bool emulated) noexcept;

/// Whether the processor has the instruction that rounds to bf16, which all with tiles have, but those that emulate
/// them.
bool tiles_round_to_bf16();

/// Configures the tiles of the calling thread; multiply_*_tiles() may be called only while one lives. Rows of the left
/// operand have `k_bytes`, a multiple of 4 up to 64; only multiply_tiles_at() takes other than 64.
class TileScope {
 public:
  explicit TileScope(int64_t k_bytes = 64);
  ~TileScope();
  TileScope(const TileScope&) = delete;
  TileScope& operator=(const TileScope&) = delete;
};

/// Rows of the left operand, or columns of the right one (the rows of its transpose): element p along k of row i is at
/// i * row_stride + p * k_stride, in elements; one of the strides is 1. With `pairs`, elements p and p + 1 are adjacent
/// (bf16 packed by PanelLayout) and k_stride is the stride between pairs, in pairs.
struct TileSource {
  const void* data = nullptr;
  int64_t row_stride = 1, k_stride = 1;
  DType dtype = f32;
  bool pairs = false;
  /// If it is not null, packing of f32 in three terms writes here, for each of the 16 rows, the position along k of its
  /// only element that is not 0, and -1 for a row with none or several; other forms and dtypes write nothing. Each
  /// product of such a row is a whole sum, which a multiplication rounds once, by 2^-24 of it at most, and of which
  /// three terms lose up to 2^-23.
  int32_t* singles = nullptr;
};

/// A sum over k is the sum of partial sums over so many steps, 1024 elements (see kernels/partial_sums.h):
/// each step of three terms rounds six times, and a single running sum over k = 4096 had 6.4 times the error of a BLAS
/// library's.
inline constexpr int64_t kSumTileSteps = 32;

inline int64_t tile_steps(int64_t k) { return (k + kTileFloats - 1) / kTileFloats; }
/// Bytes of 16 packed rows.
inline int64_t tiled_bytes(int64_t k, TileForm form) { return tile_steps(k) * static_cast<int64_t>(form) * kTileBytes; }

/// The range in which split-bf16 is as exact as f32. Tiles flush subnormal operands and sums to 0, whatever the
/// thread's floating-point mode is. So each number must be large enough for its last term to be normal, and each
/// product of two numbers large enough that what is flushed is less than what rounding loses. Then the bound above
/// holds for each element, whatever the other numbers of its row and column are. Packing returns the minimum magnitude
/// of an operand; split_bf16_suffices() decides by those of both, and what is out of range takes the fp32 fallback.
inline constexpr float kMinSplitMagnitude = 0x1p-100f, kMinProductMagnitude = 0x1p-92f;
/// Whether tiles multiply two operands as exactly as multiply-adds, by the minimum magnitudes that packing returned.
inline bool split_bf16_suffices(float left_min, float right_min) {
  return left_min > 0 && right_min > 0 && left_min * right_min >= kMinProductMagnitude;
}

/// Packs `rows` rows, up to 16; missing ones become zeros. For each step along k there is one tile per term, the
/// largest term first. The right operand's column tiles are interleaved in pairs (first, second, of each term): `out`
/// is where the first or the second of the pair begins. Returns the minimum magnitude of the numbers that are not 0,
/// infinity if there are none, and 0 if a number is out of split range: below kMinSplitMagnitude or, unless the form is
/// one, not finite or at least 2^62.
float pack_left_tiles(const TileSource& from, int64_t rows, int64_t k, TileForm form, char* out) noexcept;
float pack_right_tiles(const TileSource& from, int64_t rows, int64_t k, TileForm form, char* out) noexcept;

/// As pack_left_tiles() of f32 in three terms, to an address per row: step s of row i is at s * step_bytes +
/// i * row_bytes, its terms one after the other, 64 bytes each. Missing rows are not written: their sums mean nothing.
struct PackedRowStrides {
  int64_t row_bytes, step_bytes;
  /// If the rows together have at least one and at most so many elements that are not 0, they count as out of split
  /// range, for the reason of TileSource::singles; 0: never.
  int64_t few_numbers = 0;
};
/// Returns 0 by `few_numbers`, too.
float pack_left_rows(const TileSource& from, int64_t rows, int64_t k, char* out,
                     const PackedRowStrides& strides) noexcept;

/// What packing in three terms returns, for callers that pack by themselves: from the bits of the maximum magnitude,
/// and the minimum over all numbers of their magnitude's bits less one (unsigned, so that 0 becomes the largest).
float min_of_three_terms(uint32_t max_bits, uint32_t min_bits_less_one) noexcept;

/// Writes sums[i * stride + j] for 16 rows packed at `upper`, 16 more at `lower` unless that is null, and the 32
/// columns packed at `right`.
void multiply_tiles(TileForm form, int64_t steps, const char* upper, const char* lower, const char* right, float* sums,
                    int64_t stride) noexcept;

/// 16 rows of the left operand, or 16 columns of the right one, of bf16, in their own memory or packed in one term: the
/// tile of step s begins at data + s * step, and its rows are `stride` bytes apart. Rows are 64 bytes: 32 elements
/// along k of the left operand, pairs of elements of 16 columns of the right one.
struct TileRows {
  const char* data;
  int64_t stride, step;  ///< in bytes
};
/// As multiply_tiles() in one term; of the left operand, `lower` may have no data.
void multiply_bf16_tiles(int64_t steps, const TileRows& upper, const TileRows& lower, const TileRows& first,
                         const TileRows& second, float* sums, int64_t stride) noexcept;
/// What packing in one term returns, for up to 16 rows of bf16 that are read in their own memory: adjacent along k, or
/// in pairs.
float min_magnitude_of(const TileSource& from, int64_t rows, int64_t k) noexcept;

/// to[j * to_stride + i] = from[i * stride + j], 16 x 16. Needs AVX-512, but no matrix tiles.
void transpose_tile(const float* from, int64_t stride, float* to, int64_t to_stride = kTileRows) noexcept;

/// As multiply_tiles() for i8 or u8, with sums in i32; `steps` of 64 along k.
void multiply_int8_tiles(DType left_dtype, DType right_dtype, int64_t steps, const char* upper, const char* lower,
                         const char* right, int32_t* sums, int64_t stride) noexcept;

/// The left operand of multiply_tiles_at(), and how values are read: bf16 with bf16, or 8 bits with i8.
enum class TileValues : uint8_t { bf16, i8, u8 };
/// Products of one or two left tiles, read where they lie, with pairs of right tiles. Row i of the left tile of step s
/// begins at upper + offsets[s] + i * stride, and has the k_bytes of the TileScope; so at `lower`, unless that is null.
/// A right tile has k_bytes / 4 rows of 64 bytes: 4 bytes along k of 16 columns. The pairs of the steps follow each
/// other.
struct TilesAt {
  TileValues values = TileValues::bf16;
  const char *upper = nullptr, *lower = nullptr;
  int64_t stride = 0;
  const int64_t* offsets = nullptr;
  int64_t steps = 0, k_bytes = 64;
  const char* right = nullptr;
  /// Memory that is read soon: so many bytes of it, a multiple of 64, are prefetched in each step.
  const char* prefetch = nullptr;
  int64_t prefetch_bytes = 0;
};
/// Writes the sums (f32 of bf16, else i32) of 16 or 32 rows and 32 columns; rows are 128 bytes apart. Sums of f32 are
/// sums of partial sums over kSumTileSteps steps.
void multiply_tiles_at(const TilesAt& tiles, void* sums) noexcept;

}  // namespace rlx::kernels

// Blocks of 32 rows and 32 columns by matrix tiles (tiles.h), one after the other: while tiles multiply a block,
// vectors compute the epilogue of the one before it, a row or two after each tile product. Users: amx_gemm.cpp, for
// bf16 in one term, and quant/dynamic_product.cpp, for bytes.
#pragma once

#include <cstdint>

#include "kernels/gemm/amx/tiles.h"
#include "kernels/gemm/gemm.h"

namespace rlx::kernels {

enum class PipelinedTiles : uint8_t {
  bf16s,   ///< sums in f32
  bytes,   ///< i8, sums in i32
  planes,  ///< the left operand is 128 high + low, two planes of i8 (quant/dynamic_product.h)
};

/// Operands as multiply_bf16_tiles() takes them; a step along k is 32 bf16 or 64 bytes.
struct PipelinedBlock {
  int64_t steps = 0;
  TileRows upper = {}, lower = {}, first = {}, second = {};  ///< without `lower`, there are up to 16 rows
  TileRows next_first = {}, next_second = {};  ///< of the right operand that comes next, to prefetch; may have no data
  int64_t low_plane = 0;                       ///< of planes: bytes from a row of the high plane to that of the low one
  void* sums = nullptr;  ///< [32][32]; of planes [2][32][32], the high ones first; aligned to 64 bytes
};

/// What is to be done with the sums of a block: y = act(alpha sum + bias) factor + residual, or with bytes act(f32(sum)
/// times the lesser of its two scales, times the other, + bias) factor + residual.
struct PendingEpilogue {
  const void* sums = nullptr;
  int64_t rows = 0;  ///< columns are always 32
  float alpha = 1;
  const float *row_scales = nullptr, *column_scales = nullptr;  ///< of bytes
  const float* bias = nullptr;                                  ///< [32]; null: none
  const float* factor = nullptr;                                ///< [32]; null: none
  Activation activation = Activation::none;
  DType dtype = f32;               ///< of y and the residual, f32 or bf16
  const void* residual = nullptr;  ///< null: none
  int64_t residual_stride = 0;     ///< in elements, as y_stride
  bool residual_first = false;     ///< it is added before `act` is applied
  void* y = nullptr;
  int64_t y_stride = 0;
};
/// Whether epilogues may have that activation and that dtype of y. Others must not be passed to the functions below.
bool is_pipelined(Activation activation, DType dtype);

/// Multiplies `next` and computes `previous`, which may be null, and whose sums are others. Within a TileScope.
void multiply_pipelined(PipelinedTiles kind, const PipelinedBlock& next, const PendingEpilogue* previous) noexcept;
/// Computes an epilogue alone: the last one.
void apply_pending(PipelinedTiles kind, const PendingEpilogue& pending) noexcept;

}  // namespace rlx::kernels

// Flash-style attention of one (batch, head): softmax(q kᵀ · scale) v for a range of query rows, with the scores
// never written to memory as a whole. Neighbour: rows.h has softmax alone. The caller loops over batches and
// heads (and repeats k and v for grouped heads by pointer), and splits query rows over threads if heads are few.
#pragma once

#include <cstddef>
#include <cstdint>

#include "rlx/dtype.h"

namespace rlx::kernels {

struct AttentionArgs {
  DType dtype = f32;  ///< of q, k, v, out: f32, f16, bf16 (computed in f32) or f64
  const void* q = nullptr;
  const void* k = nullptr;
  const void* v = nullptr;
  void* out = nullptr;  ///< must not overlap the inputs
  // Elements from one row to the next: slices of packed [B, S, H*D] or of a fused q|k|v product are read in place.
  int64_t q_stride = 0, k_stride = 0, v_stride = 0, out_stride = 0;
  int64_t q_rows = 0, k_rows = 0;       ///< Sq and Sk
  int64_t head_dim = 0, value_dim = 0;  ///< D of q and k, Dv of v and out

  double scale = 1;     ///< s = (q·k) * scale
  double soft_cap = 0;  ///< then s = c * tanh(s / c), if c > 0
  /// Then bias[i * bias_row_stride + j * bias_col_stride] is added, if not null.
  const void* bias = nullptr;
  DType bias_dtype = f32;  ///< f32, or the dtype of q
  int64_t bias_row_stride = 0, bias_col_stride = 1;

  // Then the masks: what they exclude counts as -inf. A row that keeps no key gives zeros.
  const void* key_mask = nullptr;  ///< [Sk], or null; a key is kept if its value is >= 0.5 (boolean: true)
  DType key_mask_dtype = f32;      ///< f32, boolean, or the dtype of q
  /// Query i stands at position p = Sk - Sq + i and sees the keys p - left ... p + right; negative: no limit.
  /// Causal is right = 0; a sliding window w is left = w, right = 0.
  int64_t left = -1, right = -1;

  /// Whether products may go through matrix tiles: has_matrix_tiles(), which is not asked for each call.
  bool tiles = false;
};

/// Scratch per calling thread. It does not depend on pointers, strides and masks.
size_t attention_scratch_bytes(const AttentionArgs& args);

/// Computes the query rows [row_begin, row_end). `scratch` is aligned to 64 bytes.
void attention(const AttentionArgs& args, int64_t row_begin, int64_t row_end, void* scratch) noexcept;

struct AttentionBackwardArgs {
  AttentionArgs forward;     ///< f32, f16 or bf16; `out` is not looked at
  const void* ct = nullptr;  ///< like `out`
  int64_t ct_stride = 0;
  void* dq = nullptr;  ///< like q; overlaps nothing
  int64_t dq_stride = 0;
  /// Sums over queries, to which is added: the cotangents of k and v, rows of attention_sum_stride(width) elements.
  /// Aligned to 64 bytes.
  float *dk = nullptr, *dv = nullptr;
  /// Null, or where the cotangent of bias[i * bias_row_stride + j * bias_col_stride] is added, with the bias's strides.
  float* d_bias = nullptr;
};
int64_t attention_sum_stride(int64_t width);
/// Scratch per calling thread: two (with a soft cap three) strips of a block of queries and all keys.
size_t attention_backward_scratch_bytes(const AttentionArgs& forward);
/// The query rows [row_begin, row_end): their dq, and what they add to the sums. The weights are computed again.
void attention_backward(const AttentionBackwardArgs& args, int64_t row_begin, int64_t row_end, void* scratch) noexcept;
/// Rounds rows of such sums to `dtype`: to[r * to_stride + c].
void attention_round_sums(const float* sums, int64_t rows, int64_t width, DType dtype, void* to,
                          int64_t to_stride) noexcept;

/// Query rows that one pass works on together: split ranges at multiples of this.
int64_t attention_row_block();

}  // namespace rlx::kernels

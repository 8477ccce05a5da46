// Flash-style attention of one (batch, head): softmax(q kᵀ · scale) v for a range of query rows, with the scores
// never written to memory as a whole. The caller loops over batches and heads (grouped heads share the pointers of k
// and v), and splits query rows over threads if heads are few. Which kernel computes it is planned by
// attention_plan.h. Neighbour: norm/rows.h, softmax alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "kernels/attention/attention_plan.h"
#include "rlx/dtype.h"

namespace rlx::kernels {

struct AttentionArgs {
  DType dtype = f32;  ///< of q, k, v, out: f32, f16, bf16 (computed in f32) or f64
  /// The block formats of k and v, where they have one; not beside f64. Their rows are whole blocks.
  std::optional<DType> k_format = {}, v_format = {};
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

  // Then masks set scores to -inf. A query that may see no key gives a row of zeros.
  const void* key_mask = nullptr;  ///< [Sk], or null; a key is kept if its value is >= 0.5 (boolean: true)
  DType key_mask_dtype = f32;      ///< f32, boolean, or the dtype of q
  /// Query i has position p = Sk - Sq + i and sees the keys p - left ... p + right; negative: no limit.
  /// Causal is right = 0; a sliding window w is left = w, right = 0.
  int64_t left = -1, right = -1;

  /// The kernel, and its blocks: plan_attention(problem_of(args), ...), once for many calls. It must be planned.
  AttentionStrategy strategy;
};
/// What a strategy depends on: the problem of one head, for one thread. `bias` must be set, to any address, if there
/// will be one.
AttentionProblem problem_of(const AttentionArgs& args);

/// Scratch per calling thread. It does not depend on pointers, strides and masks of `args`, but on its strategy.
size_t attention_scratch_bytes(const AttentionArgs& args);

/// Computes the rows [row_begin, row_end) of `out`. `scratch` is aligned to 64 bytes.
void attention(const AttentionArgs& args, int64_t row_begin, int64_t row_end, void* scratch) noexcept;

struct AttentionBackwardArgs {
  AttentionArgs forward;     ///< f32, f16 or bf16; `out` is ignored
  const void* ct = nullptr;  ///< cotangent of out, with its dtype and dims
  int64_t ct_stride = 0;
  void* dq = nullptr;  ///< written, with the dtype and dims of q; must not overlap the inputs
  int64_t dq_stride = 0;
  /// The cotangents of k and v are added to these: [Sk] rows of attention_sum_stride(width) floats, aligned to 64
  /// bytes.
  float *dk = nullptr, *dv = nullptr;
  /// The cotangent of bias[i * bias_row_stride + j * bias_col_stride] is added to the same element here, if not null.
  float* d_bias = nullptr;
};
/// Floats from one row of dk or dv to the next; `width` is D or Dv.
int64_t attention_sum_stride(int64_t width);
/// Scratch per calling thread: mostly two (with a soft cap three) arrays of a block of queries by all keys.
size_t attention_backward_scratch_bytes(const AttentionArgs& forward);
/// Writes the rows [row_begin, row_end) of dq and adds what these queries contribute to dk, dv and d_bias. It computes
/// the softmax weights again. `scratch` is aligned to 64 bytes.
void attention_backward(const AttentionBackwardArgs& args, int64_t row_begin, int64_t row_end, void* scratch) noexcept;
/// Converts `rows` rows of dk or dv to `dtype`: to[r * to_stride + c].
void attention_round_sums(const float* sums, int64_t rows, int64_t width, DType dtype, void* to,
                          int64_t to_stride) noexcept;

/// Query rows that are computed together: callers should split ranges at multiples of this.
int64_t attention_row_block();

}  // namespace rlx::kernels

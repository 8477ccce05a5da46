// The recurrence of lstm, gru and rnn: one layer in one direction, for some sequences of a batch, step after step. The
// input's contribution to all steps is one product (gemm.h), which the caller computes first. f32, f64, f16, bf16.
// Neighbour: linear_recurrence.h, for states without a weight matrix.
#pragma once

#include <cstddef>
#include <cstdint>

#include "rlx/dtype.h"

namespace rlx::kernels {

enum class RecurrentCell : uint8_t { lstm, gru, rnn_tanh, rnn_relu };
/// The number of gates, which are blocks of rows in the weight matrices: lstm i f g o; gru r z n; rnn one.
int64_t recurrent_gates(RecurrentCell cell);

/// In f16 and bf16, gates are computed in f32 from sums in f32. What goes from step to step is f32 too, but for the h
/// that an lstm or a gru multiplies with weights of bf16 by matrix tiles or dot products of bf16 (tiled_steps-inl.h):
/// that one is rounded, as in y. A subnormal number counts as 0 there.
struct RecurrentArgs {
  RecurrentCell cell = RecurrentCell::lstm;
  DType dtype = f32;  ///< of all operands and results but `products`, which are f32 for f16 and bf16
  int64_t hidden = 0, steps = 0;
  bool reverse = false;            ///< from the last step to the first
  const void* w_hh = nullptr;      ///< as pack_recurrent() wrote it
  const void* products = nullptr;  ///< [batch, steps, gates * hidden], dense: x w_ihᵀ + bias (for gru b_ih)
  const void* b_hh = nullptr;      ///< [gates * hidden], for gru only
  void* y = nullptr;               ///< sequence b, step s at b * y_batch_stride + s * y_step_stride, in elements
  int64_t y_batch_stride = 0, y_step_stride = 0;
  const void *h0 = nullptr, *c0 = nullptr;  ///< [batch, hidden], the states before the first step; null for zeros
  void *h_n = nullptr, *c_n = nullptr;      ///< [batch, hidden], the states after the last step; may be h0 and c0
  void* gates = nullptr;  ///< [batch, steps, 4 * hidden], or null: stored for lstm_backward.h, by an lstm of f32 or f64
  void* cells = nullptr;  ///< [batch, steps, hidden], the cell after each step; stored if `gates` is set
};

/// Size in bytes of packed w_hh.
size_t recurrent_weight_bytes(RecurrentCell cell, DType dtype, int64_t hidden);
/// Packs the row-major w_hh[gates * hidden, hidden]; `packed` is aligned to 64 bytes.
void pack_recurrent(RecurrentCell cell, DType dtype, int64_t hidden, const void* w_hh, void* packed) noexcept;

/// The kernel may read this many bytes behind the end of `products`; their values do not matter.
constexpr size_t kRecurrentSlack_bytes = 64;
/// Scratch of a call for `sequences` sequences.
size_t recurrent_scratch_bytes(const RecurrentArgs& args, int64_t sequences);
/// Runs all steps of the sequences [begin, end). `scratch` is aligned to 64 bytes.
void recurrent(const RecurrentArgs& args, int64_t begin, int64_t end, void* scratch) noexcept;

}  // namespace rlx::kernels

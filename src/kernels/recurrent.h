// The recurrent part of lstm, gru and rnn: one layer in one direction, for some sequences of a batch, step after step.
// What depends on the inputs alone is a product for all steps at once (gemm.h), which the caller makes first. f32 and
// f64. Neighbour: linear_recurrence.h, states without a weight matrix.
#pragma once

#include <cstddef>
#include <cstdint>

#include "rlx/dtype.h"

namespace rlx::kernels {

enum class RecurrentCell : uint8_t { lstm, gru, rnn_tanh, rnn_relu };
/// Blocks of rows in its weight matrices: i f g o; r z n; one.
int64_t recurrent_gates(RecurrentCell cell);

struct RecurrentArgs {
  RecurrentCell cell = RecurrentCell::lstm;
  DType dtype = f32;
  int64_t hidden = 0, steps = 0;
  bool reverse = false;
  const void* w_hh = nullptr;      ///< as pack_recurrent left it
  const void* products = nullptr;  ///< [batch, steps, gates hidden], dense, biases of w_ih included
  const void* b_hh = nullptr;      ///< [gates hidden], of gru
  void* y = nullptr;               ///< sequence b, step s at b * y_batch_stride + s * y_step_stride, in elements
  int64_t y_batch_stride = 0, y_step_stride = 0;
  const void* h0 = nullptr;  ///< [batch, hidden], or null for zeros; so is c0
  const void* c0 = nullptr;
  void* h_n = nullptr;  ///< [batch, hidden]; may be h0
  void* c_n = nullptr;
  void* gates = nullptr;  ///< of lstm: what lstm_backward.h wants, [batch, steps, 4 hidden]; or null
  void* cells = nullptr;  ///< [batch, steps, hidden] then
};

/// Bytes of w_hh in the order in which the kernel reads it.
size_t recurrent_weight_bytes(RecurrentCell cell, DType dtype, int64_t hidden);
/// w_hh[gates hidden, hidden], row by row, into that order; `packed` is aligned to 64 bytes.
void pack_recurrent(RecurrentCell cell, DType dtype, int64_t hidden, const void* w_hh, void* packed) noexcept;

/// Bytes behind the products that may be read, whatever they hold.
constexpr size_t kRecurrentSlack_bytes = 64;
/// Scratch for that many sequences.
size_t recurrent_scratch_bytes(const RecurrentArgs& args, int64_t sequences);
/// All steps of the sequences [begin, end). `scratch` is aligned to 64 bytes.
void recurrent(const RecurrentArgs& args, int64_t begin, int64_t end, void* scratch) noexcept;

}  // namespace rlx::kernels

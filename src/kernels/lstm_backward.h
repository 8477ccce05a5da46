// The recurrence of lstm from its last step to its first: one layer in one direction, for some sequences of a batch.
// The gates and cells were kept (recurrent.h); what is found are the cotangents of the products that the gates were
// made of, from which those of inputs and weights follow by a product each for all steps at once. f32 and f64.
#pragma once

#include <cstddef>
#include <cstdint>

#include "rlx/dtype.h"

namespace rlx::kernels {

struct LstmBackwardArgs {
  DType dtype = f32;
  int64_t hidden = 0, steps = 0;
  bool reverse = false;         ///< as the layer ran: from its last step to its first
  const void* w_hh = nullptr;   ///< as pack_lstm_backward left it
  const void* gates = nullptr;  ///< [batch, steps, 4 hidden]: i, f, g, o behind their activations
  const void* cells = nullptr;  ///< [batch, steps, hidden], behind each step
  const void* c0 = nullptr;     ///< [batch, hidden]; so are the cotangents of the last states
  const void* y_ct = nullptr;   ///< [batch, steps, hidden]
  const void* h_ct = nullptr;
  const void* c_ct = nullptr;
  void* products_ct = nullptr;  ///< [batch, steps, 4 hidden]
  void* h0_ct = nullptr;        ///< [batch, hidden]
  void* c0_ct = nullptr;
};

/// Bytes of w_hh in the order in which the kernel reads it.
size_t lstm_backward_weight_bytes(DType dtype, int64_t hidden);
/// w_hh[4 hidden, hidden], row by row, into that order; `packed` is aligned to 64 bytes.
void pack_lstm_backward(DType dtype, int64_t hidden, const void* w_hh, void* packed) noexcept;

/// Scratch for that many sequences.
size_t lstm_backward_scratch_bytes(const LstmBackwardArgs& args, int64_t sequences);
/// All steps of the sequences [begin, end). `scratch` is aligned to 64 bytes.
void lstm_backward(const LstmBackwardArgs& args, int64_t begin, int64_t end, void* scratch) noexcept;

}  // namespace rlx::kernels

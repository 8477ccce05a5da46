// The gradient of an lstm recurrence, from the last step to the first: one layer in one direction, for some sequences
// of a batch. It reads the gates and cells that recurrent() stored for all steps. The result is the cotangent of
// `products`, the gates' inputs at all steps; the caller derives the cotangents of inputs and weights from it by one
// product each. f32 and f64.
#pragma once

#include <cstddef>
#include <cstdint>

#include "rlx/dtype.h"

namespace rlx::kernels {

struct LstmBackwardArgs {
  DType dtype = f32;
  int64_t hidden = 0, steps = 0;
  bool reverse = false;                         ///< the layer ran from its last step to its first
  const void* w_hh = nullptr;                   ///< as pack_lstm_backward() wrote it
  const void* gates = nullptr;                  ///< [batch, steps, 4 * hidden]: i, f, g, o after their activations
  const void* cells = nullptr;                  ///< [batch, steps, hidden]: the cell states after each step
  const void* c0 = nullptr;                     ///< [batch, hidden]
  const void* y_ct = nullptr;                   ///< [batch, steps, hidden]
  const void *h_ct = nullptr, *c_ct = nullptr;  ///< [batch, hidden]: the cotangents of the states after the last step
  void* products_ct = nullptr;                  ///< [batch, steps, 4 * hidden]
  void *h0_ct = nullptr, *c0_ct = nullptr;      ///< [batch, hidden]: the cotangents of the states before the first step
};

/// Size in bytes of packed w_hh.
size_t lstm_backward_weight_bytes(DType dtype, int64_t hidden);
/// Packs the row-major w_hh[4 * hidden, hidden]; `packed` is aligned to 64 bytes.
void pack_lstm_backward(DType dtype, int64_t hidden, const void* w_hh, void* packed) noexcept;

/// Scratch of a call for `sequences` sequences.
size_t lstm_backward_scratch_bytes(const LstmBackwardArgs& args, int64_t sequences);
/// Runs all steps of the sequences [begin, end). `scratch` is aligned to 64 bytes.
void lstm_backward(const LstmBackwardArgs& args, int64_t begin, int64_t end, void* scratch) noexcept;

}  // namespace rlx::kernels

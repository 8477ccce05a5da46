// Weights that are put together from a codebook: each row is a sequence of its entries.
#pragma once

#include "rlx/ops/op.h"

namespace rlx {

namespace op {
extern const OpDef synth_reconstruct, synth_matmul, synth_matmul_backward;
}  // namespace op

/// w[n, b d + t] = codebook[indices[n, b], t]: indices[n, k / d] of integers, codebook[e, d] -> [n, k]. NaN where there
/// is no such entry.
Value synth_reconstruct(Value indices, Value codebook);
/// x[..., k] times the transposed synth_reconstruct(indices, codebook).
Value synth_matmul(Value x, Value indices, Value codebook);

struct SynthGradients {
  Value x, codebook;
};
/// The cotangents of x and of the codebook from that of synth_matmul.
SynthGradients synth_matmul_backward(Value x, Value indices, Value codebook, Value ct);

}  // namespace rlx

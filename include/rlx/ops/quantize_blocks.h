// Encodes floats as blocks of GGUF's formats within a graph, as a decoder does with new keys and values whose cache is
// packed. Neighbours: quantize.h reads blocks (dequantize_blocks, dequant_matmul); rlx/blocks.h does both outside of
// graphs.
#pragma once

#include "rlx/ops/op.h"

namespace rlx {

namespace op {
extern const OpDef quantize_blocks;
}  // namespace op

struct QuantizeBlocksAttrs {
  DType dtype = DType::q8_0;  ///< a block format with an encoder (rlx/blocks.h, block_encoder)
  RLX_FIELDS(QuantizeBlocksAttrs, field("dtype", &QuantizeBlocksAttrs::dtype));
};
/// x of f32, f64, f16 or bf16 as a value of x's dims and the dtype `dtype`, in blocks along the last dim, which must be
/// a multiple of the block size. The blocks are those of quantized() (rlx/blocks.h); for q4_0, q4_1, q5_0, q5_1 and
/// q8_0 the bytes are equal to GGML's. A NaN makes NaN of its whole block in these formats and in tq1_0 and tq2_0; the
/// others have no code for it, and it becomes 0. There is no gradient: it is an error unless stop_gradient stands
/// before.
Value quantize_blocks(Value x, DType dtype);

}  // namespace rlx

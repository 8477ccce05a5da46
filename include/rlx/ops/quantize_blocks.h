// Numbers to blocks of GGUF's formats, within a graph: what a decoder does with new keys and values whose cache is
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
/// The elements of x, any float, as blocks of `dtype` along the last dim, which is whole blocks. q4_0, q4_1, q5_0, q5_1
/// and q8_0 have the bits that GGML gives them.
Value quantize_blocks(Value x, DType dtype);

}  // namespace rlx

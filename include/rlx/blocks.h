// The block formats of GGUF, read and written: what stands between packed weights and numbers. `dequantize_blocks` is
// the op; kernels decode row by row with the same functions. Layouts: dtype.h for the sizes, src/tensor/blocks for the
// bits.
#pragma once

#include "rlx/tensor.h"

namespace rlx {

/// Writes the elements of `blocks` blocks at `from` to `to`. Exact: what it writes is the format's value, rounded to
/// f32.
using BlockDecoder = void (*)(const std::byte* from, int64_t blocks, float* to);
/// Writes the blocks that come nearest to the elements at `from`.
using BlockEncoder = void (*)(const float* from, int64_t blocks, std::byte* to);

/// Fails for a dtype that is no block format; every one of them has a decoder.
BlockDecoder block_decoder(DType dtype);
/// Null for a format that needs a search over its grid or its sub-blocks: those are made by other tools.
BlockEncoder block_encoder(DType dtype);

/// The elements of a tensor of blocks, as `dtype`: f32, f64, f16 or bf16.
Tensor dequantized(const Tensor& blocks, DType dtype = f32);
/// A tensor of floats, whose last dim is whole blocks, as blocks of `dtype`. Fails for a format without an encoder.
Tensor quantized(const Tensor& x, DType dtype);

}  // namespace rlx

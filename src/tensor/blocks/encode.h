// Blocks from numbers: bit by bit as ggml and gguf make them for the formats that need no search; the K formats by a
// search of our own for the least squared error, which is no larger than theirs.
#pragma once

#include "rlx/blocks.h"

namespace rlx::blocks {

/// The format's encoder; fails if it has none, or if `dtype` is no block format.
BlockEncoder required_encoder(DType dtype);

void encode_q4_0(const float* from, int64_t blocks, std::byte* to);
void encode_q4_1(const float* from, int64_t blocks, std::byte* to);
void encode_q5_0(const float* from, int64_t blocks, std::byte* to);
void encode_q5_1(const float* from, int64_t blocks, std::byte* to);
void encode_q8_0(const float* from, int64_t blocks, std::byte* to);
void encode_mxfp4(const float* from, int64_t blocks, std::byte* to);
void encode_tq1_0(const float* from, int64_t blocks, std::byte* to);
void encode_tq2_0(const float* from, int64_t blocks, std::byte* to);
void encode_q2_k(const float* from, int64_t blocks, std::byte* to);
void encode_q3_k(const float* from, int64_t blocks, std::byte* to);
void encode_q4_k(const float* from, int64_t blocks, std::byte* to);
void encode_q5_k(const float* from, int64_t blocks, std::byte* to);
void encode_q6_k(const float* from, int64_t blocks, std::byte* to);

}  // namespace rlx::blocks

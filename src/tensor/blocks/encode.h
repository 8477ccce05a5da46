// Blocks from numbers, for the formats that need no search: as the reference quantizers of ggml and gguf do it.
#pragma once

#include "rlx/blocks.h"

namespace rlx::blocks {

void encode_q4_0(const float* from, int64_t blocks, std::byte* to);
void encode_q4_1(const float* from, int64_t blocks, std::byte* to);
void encode_q5_0(const float* from, int64_t blocks, std::byte* to);
void encode_q5_1(const float* from, int64_t blocks, std::byte* to);
void encode_q8_0(const float* from, int64_t blocks, std::byte* to);
void encode_mxfp4(const float* from, int64_t blocks, std::byte* to);
void encode_tq1_0(const float* from, int64_t blocks, std::byte* to);
void encode_tq2_0(const float* from, int64_t blocks, std::byte* to);

}  // namespace rlx::blocks

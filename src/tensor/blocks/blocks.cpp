// Which decoder and encoder belongs to which block format, and whole tensors of blocks.
#include "rlx/blocks.h"

#include "rlx/element.h"
#include "tensor/blocks/block_bits.h"
#include "tensor/blocks/encode.h"

namespace rlx {

BlockDecoder block_decoder(DType dtype) {
  switch (dtype) {
#define RLX_DECODER(format) \
  case DType::format: return blocks::decode_each<info(format).block_elements, info(format).block_bytes, blocks::format>;
    // clang-format off
    RLX_DECODER(q4_0) RLX_DECODER(q4_1) RLX_DECODER(q5_0) RLX_DECODER(q5_1) RLX_DECODER(q8_0)
    RLX_DECODER(q2_k) RLX_DECODER(q3_k) RLX_DECODER(q4_k) RLX_DECODER(q5_k) RLX_DECODER(q6_k) RLX_DECODER(q8_k)
    RLX_DECODER(iq1_s) RLX_DECODER(iq1_m) RLX_DECODER(iq2_xxs) RLX_DECODER(iq2_xs) RLX_DECODER(iq2_s)
    RLX_DECODER(iq3_xxs) RLX_DECODER(iq3_s) RLX_DECODER(iq4_nl) RLX_DECODER(iq4_xs)
    RLX_DECODER(tq1_0) RLX_DECODER(tq2_0) RLX_DECODER(q1_0) RLX_DECODER(q2_0) RLX_DECODER(mxfp4) RLX_DECODER(nvfp4)
// clang-format on
#undef RLX_DECODER
                        default
        : fail(ErrorCode::invalid_argument, dtype, " is no block format; its elements are read one by one");
  }
}

BlockEncoder block_encoder(DType dtype) {
  switch (dtype) {
    case DType::q4_0: return blocks::encode_q4_0;
    case DType::q4_1: return blocks::encode_q4_1;
    case DType::q5_0: return blocks::encode_q5_0;
    case DType::q5_1: return blocks::encode_q5_1;
    case DType::q8_0: return blocks::encode_q8_0;
    case DType::mxfp4: return blocks::encode_mxfp4;
    case DType::tq1_0: return blocks::encode_tq1_0;
    case DType::tq2_0: return blocks::encode_tq2_0;
    case DType::q2_k: return blocks::encode_q2_k;
    case DType::q3_k: return blocks::encode_q3_k;
    case DType::q4_k: return blocks::encode_q4_k;
    case DType::q5_k: return blocks::encode_q5_k;
    case DType::q6_k: return blocks::encode_q6_k;
    default: return nullptr;
  }
}

BlockEncoder blocks::required_encoder(DType dtype) {
  block_decoder(dtype);  // says so if `dtype` is no block format
  if (BlockEncoder encode = block_encoder(dtype)) return encode;
  fail(ErrorCode::unsupported, "blocks of ", dtype,
       " are not made here, only read; there are encoders for q4_0, q4_1, q5_0, q5_1, q8_0, q2_k to q6_k, mxfp4, tq1_0 "
       "and tq2_0");
}

Tensor dequantized(const Tensor& x, DType dtype) {
  BlockDecoder decode = block_decoder(x.dtype());
  if (dtype != f32 && dtype != f64 && dtype != f16 && dtype != bf16)
    fail(ErrorCode::invalid_argument, "blocks are read as f32, f64, f16 or bf16, not as ", dtype);
  Tensor y = Tensor::uninitialized(dtype, x.shape());
  if (x.element_count() == 0) return y;
  const DTypeInfo& format = info(x.dtype());
  auto blocks = static_cast<int64_t>(x.byte_count()) / format.block_bytes;
  if (dtype == f32) {
    decode(x.data(), blocks, y.mutable_values<float>().data());
    return y;
  }
  float one[256];
  y.mutable_data();
  for (int64_t b = 0; b < blocks; ++b) {
    decode(x.data() + b * format.block_bytes, 1, one);
    for (int64_t i = 0; i < format.block_elements; ++i)
      store(y, static_cast<size_t>(b * format.block_elements + i), static_cast<double>(one[i]));
  }
  return y;
}

Tensor quantized(const Tensor& x, DType dtype) {
  if (!is_float(x.dtype())) fail(ErrorCode::invalid_argument, "blocks are made of floats, not of ", x.type());
  const BlockEncoder encode = blocks::required_encoder(dtype);
  Tensor y = Tensor::uninitialized(dtype, x.shape());
  if (x.element_count() == 0) return y;
  const DTypeInfo& format = info(dtype);
  float one[256];
  std::byte* to = y.mutable_data();
  for (size_t i = 0; i < x.element_count(); i += static_cast<size_t>(format.block_elements), to += format.block_bytes) {
    for (int64_t j = 0; j < format.block_elements; ++j) one[j] = static_cast<float>(load<double>(x, i + size_t(j)));
    encode(one, 1, to);
  }
  return y;
}

}  // namespace rlx

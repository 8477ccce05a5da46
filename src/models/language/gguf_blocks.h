// Matrices of packed Hugging Face folders as blocks of GGUF, where a kind of block has their very numbers.
#pragma once

#include <string>

#include "rlx/language_model.h"

namespace rlx::language {

/// A weight of codes, as WeightType describes it: "NAME.weight" and what stands beside it, all of them there that
/// `type` says. Codes are [in, out] or, of experts, [experts, in, out].
struct PackedWeight {
  WeightType type;
  Tensor codes, scales, zero_points = {}, biases = {}, table = {}, order = {};
};

/// Its numbers, [out, in] or [experts, out, in], as f32, f16 or bf16.
Tensor floats_of_packed(const PackedWeight& weight, DType dtype);

/// The same as blocks of the smallest kind that has each number bit for bit: q4_0, q4_1, q5_0, q5_1 or q8_0. Fails, as
/// unsupported and saying why, if none does; `name` is what messages call the weight.
Tensor blocks_of_packed(const PackedWeight& weight, const std::string& name);

}  // namespace rlx::language

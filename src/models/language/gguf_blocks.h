// Matrices of packed Hugging Face folders as blocks of GGUF, where a kind of block has their very numbers.
#pragma once

#include <string>

#include "rlx/language_model.h"

namespace rlx::language {

/// A weight of codes, as WeightType describes it: "NAME.weight" and what stands beside it, all of them there that
/// `type` says. Codes are [in, out] or, of experts, [experts, in, out]; scales and biases are f32 [groups, out], with
/// experts in front likewise.
struct PackedWeight {
  WeightType type;
  Tensor codes, scales, zero_points = {}, biases = {}, table = {}, order = {};
};

/// Its numbers, [out, in] or [experts, out, in], as f32, f16 or bf16.
Tensor floats_of_packed(const PackedWeight& weight, DType dtype);

/// The same as blocks that have each number bit for bit: without biases the first of q4_0, q5_0 and q8_0 whose range
/// holds all codes, with biases the first of q4_1 and q5_1. Fails, as unsupported and saying why, if there is none:
/// tables of codes (nf4), orders of inputs (desc_act), rows or groups that are no multiple of 32, scales that f16 does
/// not hold. `name` is what messages call the weight.
Tensor blocks_of_packed(const PackedWeight& weight, const std::string& name);

}  // namespace rlx::language

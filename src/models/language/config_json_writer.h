// Writes config.json from a decoder's description; config_json.cpp reads it.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "rlx/language_model.h"

namespace rlx::language {

/// The entry of `architectures`, a class of transformers, that continues texts with a model of that `model_type`; empty
/// if there is none.
std::string_view folder_class_of(std::string_view model_type);

/// A GGUF file's description with the conventions of a folder's tensors, and the folder's `model_type`. Llama
/// 3's parameters are found from the divisors of rope_freqs.weight; fails, as unsupported, if none give these.
LanguageModelConfig config_as_in_folder(const LanguageModelConfig& gguf);
/// The text of a config.json that says this. `config` is as config_as_in_folder makes it; its packing is mlx-lm's, or
/// none. `dtype` is PyTorch's name ("bfloat16"), `stop_ids` become eos_token_id. What there is no key for is left out:
/// read the text again, and compare by config_as_in_gguf() and require_same_model().
std::string json_of_config(const LanguageModelConfig& config, std::string_view dtype, std::optional<int32_t> bos_id,
                           const std::vector<int32_t>& stop_ids);

}  // namespace rlx::language

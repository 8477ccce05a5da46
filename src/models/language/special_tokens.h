// What files say beside weights and sizes: which tokens begin and end texts, advice for sampling.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "rlx/language_model.h"

namespace rlx::language {

struct SpecialTokens {
  std::optional<int32_t> bos_id;
  std::vector<int32_t> stop_ids;
  LanguageModel::Advice advice;
};

/// From generation_config.json and config.json, those that are there.
SpecialTokens special_tokens_of_folder(const std::string& folder, int64_t vocabulary);
SpecialTokens special_tokens_of_gguf(const GgufMetadata& metadata, int64_t vocabulary);

}  // namespace rlx::language

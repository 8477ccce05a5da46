// What a GGUF file says of a folder's tokenizer, its special tokens and its chat template.
#pragma once

#include <string>

#include "models/language/special_tokens.h"
#include "rlx/language_model.h"

namespace rlx::language {

/// Adds `tokenizer.*`. A folder without a tokenizer gives a file without one, which llama.cpp calls "no_vocab".
void add_vocabulary(GgufModel& model, const std::string& folder, int64_t vocabulary, const SpecialTokens& special);

}  // namespace rlx::language

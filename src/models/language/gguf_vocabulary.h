// What a GGUF file says of a folder's tokenizer, its special tokens and its chat template.
#pragma once

#include <string>

#include "models/language/special_tokens.h"
#include "rlx/language_model.h"

namespace rlx::language {

/// Adds `tokenizer.*` and notes, for a table of tokens of `vocabulary` rows. general.name must be set before: "Phi-3"
/// is added to it, or taken apart in it, as readers know by the name whether special tokens take the spaces behind
/// them. Without any file of a tokenizer the model is "no_vocab"; a tokenizer without tokenizer.json is an error.
void add_vocabulary(GgufModel& model, const std::string& folder, int64_t vocabulary, const SpecialTokens& special);

}  // namespace rlx::language

// Keys of GGUF files that would change what a model computes, and that config_gguf.cpp does not read.
#pragma once

#include "rlx/language_model.h"

namespace rlx::language {

/// Fails, as unsupported and naming the key and its value, if there is a key that config_gguf.cpp ignores with a
/// value that would change the model's results. `config` is the configuration that was read from the file.
void check_unread_keys(const GgufMetadata& metadata, const LanguageModelConfig& config);

}  // namespace rlx::language

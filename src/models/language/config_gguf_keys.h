// Keys of GGUF files that change what a model computes, and that config_gguf.cpp does not read.
#pragma once

#include "rlx/language_model.h"

namespace rlx::language {

/// Fails, as unsupported and naming the key and its value, if the file has one of them with a value that changes
/// numbers. `config` is what was read of the file.
void check_unread_keys(const GgufFile& file, const LanguageModelConfig& config);

}  // namespace rlx::language

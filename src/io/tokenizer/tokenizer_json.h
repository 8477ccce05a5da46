// The parts of a tokenizer from its files' text.
#pragma once

#include <memory>
#include <string_view>

#include "rlx/tokenizer.h"

namespace rlx::tokenizer {

/// From a tokenizer.json.
std::shared_ptr<const Tokenizer::Parts> parts_from_json(std::string_view text);
/// From a vocab.txt.
std::shared_ptr<const Tokenizer::Parts> parts_from_vocabulary(std::string_view lines,
                                                              const VocabularyFileOptions& options);
/// The options that a tokenizer_config.json holds.
VocabularyFileOptions vocabulary_file_options(std::string_view tokenizer_config);

}  // namespace rlx::tokenizer

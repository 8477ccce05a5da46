// The text of a tokenizer.json as the keys `tokenizer.ggml.*` of a GGUF file, and such keys as a tokenizer.json.
// gguf_tokenizer.h reads the keys.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "rlx/tokenizer.h"

namespace rlx::tokenizer {

struct VocabularyAsGguf {
  GgufMetadata metadata;                  ///< `tokenizer.ggml.*`; of ids of special tokens only unknown_token_id
  std::vector<std::string> notes;         ///< where tokens by the file can differ: NFC, spaces around added tokens
  std::optional<int32_t> bos_id, eos_id;  ///< put in front of and behind each text
  /// Special tokens take the spaces behind them. Readers know it only by "Phi-3" in general.name, which the caller
  /// sets.
  bool strips_behind_special = false;
};

/// From the text of a tokenizer.json, for a model whose table of tokens has `vocabulary` rows: rows without a token
/// become
/// "[PADn]", unused; more tokens than rows is an error. Fails, as unsupported, for a tokenizer that no
/// `tokenizer.ggml.model` stands for. Both tokenizers encode many sample texts, and a difference is an error, too.
VocabularyAsGguf vocabulary_as_gguf(std::string_view tokenizer_json, int64_t vocabulary);

/// The text of a tokenizer.json from the metadata of a GGUF file, `tokenizer.ggml.*` and general.name. Fails, as
/// unsupported, for models other than "gpt2", "llama", "t5" and "bert", or if the two
/// tokenizers encode one of many sample texts otherwise. The sample texts have no added tokens.
std::string tokenizer_json_of_gguf(const GgufMetadata& metadata);

}  // namespace rlx::tokenizer

// The tokenizer of a Hugging Face folder as what GGUF metadata say of one: the other way round than gguf_tokenizer.h.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "rlx/tokenizer.h"

namespace rlx::tokenizer {

struct VocabularyAsGguf {
  GgufMetadata metadata;  ///< `tokenizer.ggml.*`, without the ids of special tokens but those that are put around texts
  std::vector<std::string> notes;         ///< what llama.cpp does otherwise
  std::optional<int32_t> bos_id, eos_id;  ///< put in front of and behind each text
  bool strips_behind_special = false;     ///< special tokens take the spaces behind them, as Phi-3's do
};

/// From the text of a tokenizer.json, for a model whose table of tokens has `vocabulary` rows. Fails, as unsupported,
/// for a tokenizer that no `tokenizer.ggml.model` is, or that would give other tokens: both are asked for those of many
/// texts.
VocabularyAsGguf vocabulary_as_gguf(std::string_view tokenizer_json, int64_t vocabulary);

/// The other way round: the text of a tokenizer.json. Fails, as unsupported, for models but byte-level BPE ("gpt2") and
/// SentencePiece's BPE ("llama"), or if the two would give other tokens.
std::string tokenizer_json_of_gguf(const GgufMetadata& metadata);

}  // namespace rlx::tokenizer

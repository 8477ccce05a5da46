// The parts of a tokenizer.json that change text: normalizers, pre-tokenizers, decoders.
#pragma once

#include <memory>
#include <optional>

#include "io/tokenizer/decoder.h"
#include "io/tokenizer/json_value.h"
#include "io/tokenizer/normalizer.h"
#include "io/tokenizer/pre_tokenizer.h"

namespace rlx::tokenizer {

/// Fails, as unsupported, because the `type` of the section is none that is offered; `offered` lists those that are.
[[noreturn]] void refuse_kind(const JsonValue& section, const char* what, const char* offered);

std::unique_ptr<const Normalizer> read_normalizer(const std::optional<JsonValue>& section);
std::unique_ptr<const PreTokenizer> read_pre_tokenizer(const std::optional<JsonValue>& section);
std::unique_ptr<const Decoder> read_decoder(const std::optional<JsonValue>& section);

}  // namespace rlx::tokenizer

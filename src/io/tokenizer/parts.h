// What a Tokenizer is made of: one of each kind, in the order in which text passes through them.
#pragma once

#include <memory>
#include <optional>

#include "io/tokenizer/added_tokens.h"
#include "io/tokenizer/decoder.h"
#include "io/tokenizer/model.h"
#include "io/tokenizer/normalizer.h"
#include "io/tokenizer/post_processor.h"
#include "io/tokenizer/pre_tokenizer.h"
#include "rlx/tokenizer.h"

namespace rlx {

struct Tokenizer::Parts {
  std::unique_ptr<const tokenizer::Normalizer> normalizer;
  std::unique_ptr<const tokenizer::PreTokenizer> pre_tokenizer;
  std::unique_ptr<const tokenizer::Model> model;
  std::unique_ptr<const tokenizer::AddedTokens> added_tokens;
  tokenizer::PostProcessor post_processor;
  std::unique_ptr<const tokenizer::Decoder> decoder;
  /// The settings of the file.
  std::optional<Truncation> truncation;
  std::optional<Padding> padding;
};

}  // namespace rlx

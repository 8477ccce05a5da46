// The parts of a tokenizer from tiktoken's ranks.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rlx/tokenizer.h"

namespace rlx::tokenizer {

/// `ranks`: one token a line, as its bytes in base64, a space, and its rank, which is its id. `pattern` finds the
/// words; text between words gets no tokens, as in tiktoken. `special_tokens`: text and id. Throws parse for any other
/// line, and for bytes that have a rank already.
std::shared_ptr<const Tokenizer::Parts> parts_from_tiktoken(
    std::string_view ranks, std::string_view pattern,
    const std::vector<std::pair<std::string, int32_t>>& special_tokens);

}  // namespace rlx::tokenizer

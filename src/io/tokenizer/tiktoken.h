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

/// `ranks`: lines of a token's bytes in base64 and its rank. `pattern` finds the words; what is between them is
/// dropped.
std::shared_ptr<const Tokenizer::Parts> parts_from_tiktoken(
    std::string_view ranks, std::string_view pattern,
    const std::vector<std::pair<std::string, int32_t>>& special_tokens);

}  // namespace rlx::tokenizer

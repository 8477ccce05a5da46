// Bytes from base64 (RFC 4648, section 4): tiktoken's ranks and SentencePiece's table in a tokenizer.json are written
// so.
#pragma once

#include <string>
#include <string_view>

namespace rlx::tokenizer {

/// Fails for what is no base64; padding may be missing.
std::string decode_base64(std::string_view text);

}  // namespace rlx::tokenizer

// Text from ids as they come. What a token says may depend on the one before it (the space of a first word), so a few
// tokens whose text was given stay to be decoded again with the new ones.
#include <algorithm>
#include <string_view>

#include "io/tokenizer/utf8.h"
#include "rlx/tokenizer.h"

namespace rlx {
namespace {

// Tokens. Code points of four bytes may straddle several tokens in a row; text that is still none then is no UTF-8.
constexpr size_t kMostWaiting = 16;

/// What stands behind the text that was given. Bytes that turn out to be no UTF-8 may have changed that; what is new
/// then begins at the next code point.
std::string behind(const std::string& text, size_t given) {
  while (given < text.size() && (static_cast<unsigned char>(text[given]) & 0xc0) == 0x80) ++given;
  return given < text.size() ? text.substr(given) : std::string();
}

}  // namespace

std::string DecodeStream::put(int32_t id) {
  ids_.push_back(id);
  std::string text;
  try {
    text = tokenizer_.decode(ids_, skip_special_tokens_);
  } catch (...) {
    ids_.pop_back();  // a caller may go on with the next one
    throw;
  }
  if (text.size() <= given_bytes_ || text.ends_with(tokenizer::kReplacementCharacter)) {
    if (ids_.size() - given_ < kMostWaiting) return {};
    if (text.ends_with(tokenizer::kReplacementCharacter)) return finish();
    // Tokens that say nothing: of them the last may still matter to the next.
    ids_.resize(given_);
    ids_.push_back(id);
    return {};
  }
  std::string piece = behind(text, given_bytes_);
  // Only what was new stays: the next text is decoded behind it.
  ids_.erase(ids_.begin(), ids_.begin() + static_cast<std::ptrdiff_t>(given_));
  given_ = ids_.size();
  given_bytes_ = tokenizer_.decode(ids_, skip_special_tokens_).size();
  return piece;
}

std::string DecodeStream::finish() {
  std::string piece = behind(tokenizer_.decode(ids_, skip_special_tokens_), given_bytes_);
  ids_.clear();
  given_ = given_bytes_ = 0;
  return piece;
}

}  // namespace rlx

// Base64; see the header.
#include "io/tokenizer/base64.h"

#include <cstdint>

#include "rlx/error.h"

namespace rlx::tokenizer {

std::string decode_base64(std::string_view text) {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string_view digits = text;
  while (digits.ends_with('=')) digits.remove_suffix(1);
  if (text.size() - digits.size() > 2 || digits.size() % 4 == 1)
    fail(ErrorCode::parse, "'", text.substr(0, 40), "' is no base64: it has ", digits.size(), " digits and ",
         text.size() - digits.size(), " of padding");
  std::string bytes;
  bytes.reserve(digits.size() / 4 * 3 + 2);
  uint32_t bits = 0;
  int count = 0;
  for (size_t i = 0; i < digits.size(); ++i) {
    size_t digit = kDigits.find(digits[i]);
    if (digit == kDigits.npos) fail(ErrorCode::parse, "'", text.substr(0, 40), "' is no base64, at byte ", i);
    bits = (bits << 6 | static_cast<uint32_t>(digit)) & 0xffffff;
    count += 6;
    if (count < 8) continue;
    count -= 8;
    bytes += static_cast<char>(bits >> count & 0xff);
  }
  return bytes;
}

}  // namespace rlx::tokenizer

// GPT-2's alphabet of bytes; see the header.
#include "io/tokenizer/byte_level.h"

#include <array>

#include "io/tokenizer/utf8.h"

namespace rlx::tokenizer {
namespace {

constexpr char32_t kFirstMoved = 0x100;
constexpr size_t kLetters = 0x144;  // 68 bytes do not print and are moved behind U+00FF

struct Alphabet {
  std::array<char32_t, 256> letters{};
  std::array<int16_t, kLetters> bytes{};
  Alphabet() {
    bytes.fill(-1);
    char32_t moved = kFirstMoved;
    for (char32_t byte = 0; byte < 256; ++byte) {
      bool prints = (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
      letters[byte] = prints ? byte : moved++;
      bytes[letters[byte]] = static_cast<int16_t>(byte);
    }
  }
};
const Alphabet& alphabet() {
  static const Alphabet all;
  return all;
}

int digit_of(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

}  // namespace

char32_t letter_of_byte(unsigned char byte) { return alphabet().letters[byte]; }

std::optional<unsigned char> byte_of_letter(char32_t letter) {
  if (letter >= kLetters || alphabet().bytes[letter] < 0) return std::nullopt;
  return static_cast<unsigned char>(alphabet().bytes[letter]);
}

std::string as_letters(std::string_view text) {
  std::string out;
  for (char c : text) append_utf8(out, letter_of_byte(static_cast<unsigned char>(c)));
  return out;
}

void append_bytes_of_letters(std::string& out, std::string_view token) {
  size_t before = out.size();
  if (valid_utf8_prefix(token) == token.size())
    for (size_t at = 0; at < token.size(); at += utf8_size(token[at])) {
      auto byte = byte_of_letter(decode_utf8(token.data() + at));
      if (!byte) {
        out.resize(before);
        break;
      }
      out += static_cast<char>(*byte);
      if (at + utf8_size(token[at]) == token.size()) return;
    }
  out += token;
}

std::string byte_token(unsigned char byte) {
  constexpr char kDigits[] = "0123456789ABCDEF";
  return {'<', '0', 'x', kDigits[byte >> 4], kDigits[byte & 15], '>'};
}

std::optional<unsigned char> byte_of_token(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>') return std::nullopt;
  int high = digit_of(token[3]), low = digit_of(token[4]);
  if (high < 0 || low < 0) return std::nullopt;
  return static_cast<unsigned char>(high << 4 | low);
}

}  // namespace rlx::tokenizer

// UTF-8 for the tokenizer: reading and writing code points, and repairing text that is not UTF-8. What a code
// point means (letter, mark, space) is the business of unicode.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace rlx::tokenizer {

/// U+FFFD, which stands for bytes that are no UTF-8.
constexpr std::string_view kReplacementCharacter = "\xef\xbf\xbd";
/// U+2581, as which SentencePiece writes a space.
constexpr std::string_view kSpaceMark = "\xe2\x96\x81";

/// Whether all of `text` is ASCII.
bool is_ascii(std::string_view text);

/// The length of the valid UTF-8 that `text` begins with.
size_t valid_utf8_prefix(std::string_view text);

/// The bytes that the code point beginning with `lead` takes in valid UTF-8.
inline uint32_t utf8_size(char lead) {
  auto byte = static_cast<unsigned char>(lead);
  return byte < 0x80 ? 1 : byte < 0xe0 ? 2 : byte < 0xf0 ? 3 : 4;
}

/// The code point at `at`, in text known to be valid.
inline char32_t decode_utf8(const char* at) {
  auto byte = [&](int i) { return static_cast<char32_t>(static_cast<unsigned char>(at[i])); };
  char32_t lead = byte(0);
  if (lead < 0x80) return lead;
  if (lead < 0xe0) return (lead & 0x1f) << 6 | (byte(1) & 0x3f);
  if (lead < 0xf0) return (lead & 0x0f) << 12 | (byte(1) & 0x3f) << 6 | (byte(2) & 0x3f);
  return (lead & 0x07) << 18 | (byte(1) & 0x3f) << 12 | (byte(2) & 0x3f) << 6 | (byte(3) & 0x3f);
}

/// Where the code point that ends before `end` begins, in valid text; `end` > 0.
inline size_t previous_code_point(std::string_view text, size_t end) {
  do --end;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80);
  return end;
}

void append_utf8(std::string& out, char32_t code);

/// Valid text made from any bytes, and where each of its bytes came from.
struct RepairedText {
  std::string text;
  std::vector<uint32_t> source;  ///< for each byte of `text`, and for its end, the offset in the given bytes
};

/// Puts U+FFFD for each maximal run of bytes that begins a code point and does not complete it, and for each
/// byte that cannot begin one: what Python's bytes.decode("utf-8", "replace") does (The Unicode Standard,
/// section 3.9, "U+FFFD Substitution of Maximal Subparts").
RepairedText repair_utf8(std::string_view bytes);

}  // namespace rlx::tokenizer

// The smaller normalizers; see the header. What new text stands for follows the tokenizers package: what is put in
// place of something has the source of its end, what is put before everything that of the first character.
#include "io/tokenizer/normalizers.h"

#include "io/tokenizer/byte_level.h"
#include "io/tokenizer/unicode.h"
#include "io/tokenizer/utf8.h"
#include "rlx/error.h"

namespace rlx::tokenizer {
namespace {

constexpr size_t kLeastLimit = 4096,
                 kMostGrowth = 64;  // bytes, and times; one character becomes 11 bytes a byte at most

ByteRange placed(uint32_t origin, size_t begin, size_t end) {
  return {static_cast<uint32_t>(origin + begin), static_cast<uint32_t>(origin + end)};
}

/// Each code point of text[begin, end) stands for itself.
void copy(std::string_view text, size_t begin, size_t end, uint32_t origin, NormalizedText& out) {
  while (begin < end) {
    size_t next = begin + utf8_size(text[begin]);
    out.append(text.substr(begin, next - begin), placed(origin, begin, next));
    begin = next;
  }
}

}  // namespace

void SequenceNormalizer::normalize(std::string_view text, uint32_t origin, NormalizedText& out) const {
  out.assign(text, origin);
  for (const auto& part : parts_) {
    NormalizedText next;
    part->normalize(out.text(), 0, next);
    // No model's normalizers come near this; a file of two dozen replacements could ask for all memory.
    if (next.text().size() > kLeastLimit + kMostGrowth * text.size())
      fail(ErrorCode::unsupported, "the normalizers make more than ", kLeastLimit + kMostGrowth * text.size(),
           " bytes of a text of ", text.size());
    next.trace_through(out);
    out = std::move(next);
  }
}

void CharacterNormalizer::normalize(std::string_view text, uint32_t origin, NormalizedText& out) const {
  out.clear();
  for (size_t at = 0; at < text.size();) {
    size_t next = at + utf8_size(text[at]);
    write_(decode_utf8(text.data() + at), placed(origin, at, next), out);
    at = next;
  }
}

void CharacterNormalizer::lowercased(char32_t code, ByteRange source, NormalizedText& out) {
  char32_t lowered[2];
  int count = lowercase(code, lowered);
  for (int i = 0; i < count; ++i) out.append(lowered[i], source);
}

void CharacterNormalizer::without_marks(char32_t code, ByteRange source, NormalizedText& out) {
  if (!is_mark(code)) out.append(code, source);
}

void CharacterNormalizer::nmt(char32_t code, ByteRange source, NormalizedText& out) {
  if ((code >= 0x1 && code <= 0x8) || code == 0xb || (code >= 0xe && code <= 0x1f) || code == 0x7f || code == 0x8f ||
      code == 0x9f)
    return;
  bool space = code == 0x9 || code == 0xa || code == 0xc || code == 0xd || code == 0x1680 ||
               (code >= 0x200b && code <= 0x200f) || code == 0x2028 || code == 0x2029 || code == 0x2581 ||
               code == 0xfeff || code == 0xfffd;
  out.append(space ? U' ' : code, source);
}

void CharacterNormalizer::bytes_as_letters(char32_t code, ByteRange source, NormalizedText& out) {
  std::string bytes;
  append_utf8(bytes, code);
  for (char byte : bytes) out.append(letter_of_byte(static_cast<unsigned char>(byte)), source);
}

void StripNormalizer::normalize(std::string_view text, uint32_t origin, NormalizedText& out) const {
  auto is_space = [&](size_t at) { return (class_of(decode_utf8(text.data() + at)) & kWhitespace) != 0; };
  size_t begin = 0, end = text.size();
  while (left_ && begin < end && is_space(begin)) begin += utf8_size(text[begin]);
  while (right_ && begin < end && is_space(previous_code_point(text, end))) end = previous_code_point(text, end);
  out.assign(text.substr(begin, end - begin), origin + static_cast<uint32_t>(begin));
}

void ReplaceNormalizer::normalize(std::string_view text, uint32_t origin, NormalizedText& out) const {
  std::vector<ByteRange> matches;
  pattern_->find(text, matches);
  if (matches.empty()) {
    out.assign(text, origin);
    return;
  }
  out.clear();
  size_t done = 0;
  for (ByteRange match : matches) {
    copy(text, done, match.begin, origin, out);
    size_t end = match.end;
    out.append(content_, placed(origin, end > 0 ? previous_code_point(text, end) : 0, end));
    done = end;
  }
  copy(text, done, text.size(), origin, out);
}

void PrependNormalizer::normalize(std::string_view text, uint32_t origin, NormalizedText& out) const {
  if (text.empty()) {
    out.assign(text, origin);
    return;
  }
  out.clear();
  out.append(content_, placed(origin, 0, utf8_size(text[0])));
  copy(text, 0, text.size(), origin, out);
}

}  // namespace rlx::tokenizer

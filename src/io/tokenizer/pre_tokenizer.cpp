// Splitting text into words; see the header.
#include "io/tokenizer/pre_tokenizer.h"

#include <utility>

#include "io/tokenizer/unicode.h"
#include "io/tokenizer/utf8.h"

namespace rlx::tokenizer {

void SplittingPreTokenizer::split(NormalizedText& text, std::vector<ByteRange>& words) const {
  std::vector<ByteRange> parts;
  for (ByteRange word : words) split_word(text.text(), word, parts);
  words = std::move(parts);
}

BertPreTokenizer::BertPreTokenizer() {
  for (char32_t code = 0; code < 128; ++code) ascii_[code] = class_of(code) & (kWhitespace | kPunctuation);
}

void BertPreTokenizer::split_word(std::string_view text, ByteRange range, std::vector<ByteRange>& words) const {
  uint32_t begin = range.begin;  // of the word that is being read
  for (uint32_t at = range.begin; at < range.end;) {
    auto byte = static_cast<unsigned char>(text[at]);
    uint32_t size = 1;
    CharClass bits;
    if (byte < 128) {
      bits = ascii_[byte];
    } else {
      size = utf8_size(text[at]);
      bits = class_of(decode_utf8(text.data() + at)) & (kWhitespace | kPunctuation);
    }
    uint32_t next = at + size;
    if (bits != 0) {
      if (begin < at) words.push_back({begin, at});
      if (bits & kPunctuation) words.push_back({at, next});
      begin = next;
    }
    at = next;
  }
  if (begin < range.end) words.push_back({begin, range.end});
}

}  // namespace rlx::tokenizer

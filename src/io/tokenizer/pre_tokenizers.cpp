// The pre-tokenizers but BERT's; see the header.
#include "io/tokenizer/pre_tokenizers.h"

#include "io/tokenizer/byte_level.h"
#include "io/tokenizer/regex.h"
#include "io/tokenizer/unicode.h"
#include "io/tokenizer/utf8.h"

namespace rlx::tokenizer {
namespace {

/// What a pre-tokenizer writes in place of a text and its words.
class Rewriting {
 public:
  explicit Rewriting(const NormalizedText& before) : before_(before) { text.clear(); }

  /// What is put before `word` stands for its first character.
  void put_before(std::string_view inserted, ByteRange word) {
    uint32_t end = word.begin + utf8_size(before_.text()[word.begin]);
    text.append(inserted, before_.source_of({word.begin, end}));
  }
  void begin_word() { begin_ = static_cast<uint32_t>(text.text().size()); }
  void end_word() {
    auto end = static_cast<uint32_t>(text.text().size());
    if (begin_ < end) words.push_back({begin_, end});
  }

  NormalizedText text;
  std::vector<ByteRange> words;

 private:
  const NormalizedText& before_;
  uint32_t begin_ = 0;
};

}  // namespace

void SequencePreTokenizer::split(NormalizedText& text, std::vector<ByteRange>& words) const {
  for (const auto& part : parts_) part->split(text, words);
}

void PatternPreTokenizer::split_word(std::string_view text, ByteRange range, std::vector<ByteRange>& words) const {
  split_by(*pattern_, behavior_, invert_, text, range, words);
}

void WhitespacePreTokenizer::split_word(std::string_view text, ByteRange range, std::vector<ByteRange>& words) const {
  enum class Class { space, word, other };
  Class last = Class::space;
  uint32_t begin = range.begin;
  for (uint32_t at = range.begin; at < range.end;) {
    char32_t code = decode_utf8(text.data() + at);
    Class now = is_word_character(code) ? Class::word : class_of(code) & kWhitespace ? Class::space : Class::other;
    if (now != last) {
      if (last != Class::space) words.push_back({begin, at});
      begin = at;
      last = now;
    }
    at += utf8_size(text[at]);
  }
  if (last != Class::space && begin < range.end) words.push_back({begin, range.end});
}

void FixedLengthPreTokenizer::split_word(std::string_view text, ByteRange range, std::vector<ByteRange>& words) const {
  size_t count = 0;
  uint32_t begin = range.begin;
  for (uint32_t at = range.begin; at < range.end;) {
    at += utf8_size(text[at]);
    if (++count < length_ && at < range.end) continue;
    words.push_back({begin, at});
    begin = at;
    count = 0;
  }
}

ByteLevelPreTokenizer::ByteLevelPreTokenizer(bool add_prefix_space, bool use_regex)
    : add_prefix_space_(add_prefix_space), pattern_(use_regex ? std::make_unique<Regex>(kGpt2Pattern) : nullptr) {}

void ByteLevelPreTokenizer::split(NormalizedText& text, std::vector<ByteRange>& words) const {
  if (add_prefix_space_) {
    Rewriting spaced(text);
    for (ByteRange word : words) {
      spaced.begin_word();
      if (text.text()[word.begin] != ' ') spaced.put_before(" ", word);
      for (uint32_t at = word.begin; at < word.end; ++at)
        spaced.text.append(text.text().substr(at, 1), text.source_of({at, at + 1}));
      spaced.end_word();
    }
    text = std::move(spaced.text);
    words = std::move(spaced.words);
  }
  if (pattern_) {
    std::vector<ByteRange> parts;
    for (ByteRange word : words) split_by(*pattern_, SplitBehavior::isolated, false, text.text(), word, parts);
    words = std::move(parts);
  }
  Rewriting letters(text);
  for (ByteRange word : words) {
    letters.begin_word();
    for (uint32_t at = word.begin; at < word.end;) {
      uint32_t next = at + utf8_size(text.text()[at]);
      ByteRange source = text.source_of({at, next});
      for (; at < next; ++at) letters.text.append(letter_of_byte(static_cast<unsigned char>(text.text()[at])), source);
    }
    letters.end_word();
  }
  text = std::move(letters.text);
  words = std::move(letters.words);
}

void MetaspacePreTokenizer::split(NormalizedText& text, std::vector<ByteRange>& words) const {
  Rewriting marked(text);
  for (ByteRange word : words) {
    marked.begin_word();
    std::string_view rest = text.text().substr(word.begin, word.end - word.begin);
    bool begins = rest.starts_with(' ') || rest.starts_with(mark_);
    bool first = text.source_of({word.begin, word.begin + 1}).begin == 0;
    if (!begins && (prepend_ == Prepend::always || (prepend_ == Prepend::first && first)))
      marked.put_before(mark_, word);
    for (uint32_t at = word.begin; at < word.end;) {
      uint32_t next = at + utf8_size(text.text()[at]);
      std::string_view character = text.text().substr(at, next - at);
      marked.text.append(character == " " ? std::string_view(mark_) : character, text.source_of({at, next}));
      at = next;
    }
    marked.end_word();
  }
  text = std::move(marked.text);
  words = std::move(marked.words);
  if (!splits_) return;
  std::vector<ByteRange> parts;
  for (ByteRange word : words) split_by(pattern_, SplitBehavior::merged_with_next, false, text.text(), word, parts);
  words = std::move(parts);
}

}  // namespace rlx::tokenizer

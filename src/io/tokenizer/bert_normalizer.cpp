// BERT's normalization. Text of plain ASCII goes through a table, byte by byte; other text takes its code
// points through the four steps one at a time, so that nothing is stored in between.
#include <algorithm>
#include <vector>

#include "io/tokenizer/normalizer.h"
#include "io/tokenizer/unicode.h"
#include "io/tokenizer/utf8.h"

namespace rlx::tokenizer {
namespace {

// The last two steps: drops nonspacing marks where accents are stripped, and lowers.
class Writer {
 public:
  Writer(bool strip_marks, bool lower, NormalizedText& out) : strip_marks_(strip_marks), lower_(lower), out_(out) {}

  void put(char32_t code, ByteRange source) {
    if (strip_marks_ && (class_of(code) & kNonspacingMark)) return;
    if (!lower_) return out_.append(code, source);
    char32_t lowered[2];
    int count = lowercase(code, lowered);
    for (int i = 0; i < count; ++i) out_.append(lowered[i], source);
  }
  /// For a code point that is no mark and has no case.
  void put_plain(char32_t code, ByteRange source) { out_.append(code, source); }

 private:
  bool strip_marks_, lower_;
  NormalizedText& out_;
};

// Canonical decomposition with canonical ordering (UAX #15): marks are held back until the next starter, and
// then written in the order of their classes.
//
// What each code point stands for follows the tokenizers package: a mark that was there by itself takes the
// place of the mark that was there at its position before the reordering; one that a decomposition added
// shares the place of the one before it.
class Decomposer {
 public:
  explicit Decomposer(Writer& writer) : writer_(writer) {}

  void put(char32_t code, ByteRange source) {
    char32_t parts[kMaxDecomposition];
    int count = decompose(code, parts);
    for (int i = 0; i < count; ++i) {
      int ccc = combining_class(parts[i]);
      if (ccc == 0) {
        flush();
        writer_.put(parts[i], source);
        last_ = source;
      } else {
        marks_.push_back({parts[i], ccc, i > 0});
        if (i == 0) places_.push_back(source);
      }
    }
  }

  /// For a starter that decomposes into itself.
  void put_plain(char32_t code, ByteRange source) {
    flush();
    writer_.put_plain(code, source);
    last_ = source;
  }

  void flush() {
    if (marks_.empty()) return;
    std::stable_sort(marks_.begin(), marks_.end(), [](const Mark& a, const Mark& b) { return a.ccc < b.ccc; });
    size_t next = 0;
    for (const Mark& mark : marks_) {
      if (!mark.added && next < places_.size()) last_ = places_[next++];
      writer_.put(mark.code, last_);
    }
    marks_.clear();
    places_.clear();
  }

 private:
  struct Mark {
    char32_t code;
    int ccc;
    bool added;  // by a decomposition, behind its first code point
  };
  Writer& writer_;
  std::vector<Mark> marks_;
  std::vector<ByteRange> places_;  // of the marks that were not added
  ByteRange last_;
};

char lower_ascii(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c; }

}  // namespace

BertNormalizer::BertNormalizer(const BertNormalizerOptions& options)
    : clean_text_(options.clean_text), handle_chinese_chars_(options.handle_chinese_chars),
      strip_accents_(options.strip_accents.value_or(options.lowercase)), lowercase_(options.lowercase) {
  for (char32_t code = 0; code < 128; ++code) {
    CharClass bits = class_of(code);
    char c = static_cast<char>(code);
    dropped_[code] = clean_text_ && (bits & kControl);
    ascii_[code] = clean_text_ && (bits & kWhitespace) ? ' ' : lowercase_ ? lower_ascii(c) : c;
  }
}

void BertNormalizer::normalize(std::string_view text, uint32_t origin, NormalizedText& out) const {
  if (normalize_ascii(text, origin, out)) return;
  out.clear();
  Writer writer(strip_accents_, lowercase_, out);
  Decomposer decomposer(writer);
  for (size_t at = 0; at < text.size();) {
    uint32_t size = utf8_size(text[at]);
    auto begin = static_cast<uint32_t>(origin + at);
    ByteRange source{begin, begin + size};
    char32_t code = decode_utf8(text.data() + at);
    at += size;
    if (code < 128) {
      if (!dropped_[code]) decomposer.put_plain(static_cast<unsigned char>(ascii_[code]), source);
      continue;
    }
    CharClass bits = class_of(code);
    if (clean_text_) {
      if ((bits & kControl) || code == 0xfffd) continue;
      if (bits & kWhitespace) {
        decomposer.put_plain(' ', source);
        continue;
      }
    }
    bool ideograph = handle_chinese_chars_ && (bits & kCjkIdeograph);
    if (ideograph) decomposer.put_plain(' ', source);
    if (strip_accents_) decomposer.put(code, source);
    else writer.put(code, source);
    if (ideograph) decomposer.put_plain(' ', source);
  }
  decomposer.flush();
}

bool BertNormalizer::normalize_ascii(std::string_view text, uint32_t origin, NormalizedText& out) const {
  if (!is_ascii(text)) return false;
  bool dropped = false;
  for (char& c : out.assign(text, origin)) {
    auto code = static_cast<unsigned char>(c);
    dropped |= dropped_[code];
    c = ascii_[code];
  }
  return !dropped;
}

}  // namespace rlx::tokenizer

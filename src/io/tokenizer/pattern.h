// Where a text is split or replaced: patterns, and what a split does with what they find. Normalizers, pre-tokenizers
// and decoders share it.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "io/tokenizer/normalized_text.h"

namespace rlx::tokenizer {

class Pattern {
 public:
  virtual ~Pattern() = default;
  /// Appends the matches in `text`, valid UTF-8, in order; they do not overlap, and may be empty.
  virtual void find(std::string_view text, std::vector<ByteRange>& matches) const = 0;
};

/// The text itself; an empty one is found nowhere.
class LiteralPattern : public Pattern {
 public:
  explicit LiteralPattern(std::string text) : text_(std::move(text)) {}
  void find(std::string_view text, std::vector<ByteRange>& matches) const override;

 private:
  std::string text_;
};

/// Each code point of which a predicate is true.
class CharacterPattern : public Pattern {
 public:
  explicit CharacterPattern(bool (*is_match)(char32_t)) : is_match_(is_match) {}
  void find(std::string_view text, std::vector<ByteRange>& matches) const override;

 private:
  bool (*is_match_)(char32_t);
};

/// What becomes of the matches.
enum class SplitBehavior { removed, isolated, merged_with_previous, merged_with_next, contiguous };

/// Appends the parts of text[range) to `words`, none of them empty. `invert`: what is between matches is the match.
void split_by(const Pattern& pattern, SplitBehavior behavior, bool invert, std::string_view text, ByteRange range,
              std::vector<ByteRange>& words);

}  // namespace rlx::tokenizer

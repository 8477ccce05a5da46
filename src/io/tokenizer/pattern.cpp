// Splitting by patterns; see the header. The five behaviors are those of the tokenizers package, step by step.
#include "io/tokenizer/pattern.h"

#include <algorithm>

#include "io/tokenizer/utf8.h"

namespace rlx::tokenizer {
namespace {

struct Part {
  ByteRange range;
  bool is_match;
};

std::vector<Part> parts_of(const Pattern& pattern, bool invert, std::string_view text) {
  std::vector<ByteRange> matches;
  pattern.find(text, matches);
  std::vector<Part> parts;
  parts.reserve(2 * matches.size() + 1);
  uint32_t done = 0;
  for (ByteRange match : matches) {
    if (done < match.begin) parts.push_back({{done, match.begin}, invert});
    parts.push_back({match, !invert});
    done = match.end;
  }
  if (done < text.size()) parts.push_back({{done, static_cast<uint32_t>(text.size())}, invert});
  return parts;
}

}  // namespace

void LiteralPattern::find(std::string_view text, std::vector<ByteRange>& matches) const {
  if (text_.empty()) return;
  for (size_t at = text.find(text_); at != text.npos; at = text.find(text_, at + text_.size()))
    matches.push_back({static_cast<uint32_t>(at), static_cast<uint32_t>(at + text_.size())});
}

void CharacterPattern::find(std::string_view text, std::vector<ByteRange>& matches) const {
  for (uint32_t at = 0; at < text.size();) {
    uint32_t next = at + utf8_size(text[at]);
    if (is_match_(decode_utf8(text.data() + at))) matches.push_back({at, next});
    at = next;
  }
}

void split_by(const Pattern& pattern, SplitBehavior behavior, bool invert, std::string_view text, ByteRange range,
              std::vector<ByteRange>& words) {
  std::vector<Part> parts = parts_of(pattern, invert, text.substr(range.begin, range.end - range.begin));
  std::vector<ByteRange> found;
  bool previous_match = false;
  auto add = [&](const Part& part, bool joins, uint32_t ByteRange::*side) {
    if (joins && !found.empty()) found.back().*side = part.range.*side;
    else found.push_back(part.range);
    previous_match = part.is_match;
  };
  switch (behavior) {
    case SplitBehavior::removed:
      for (const Part& part : parts)
        if (!part.is_match) found.push_back(part.range);
      break;
    case SplitBehavior::isolated:
      for (const Part& part : parts) found.push_back(part.range);
      break;
    case SplitBehavior::contiguous:
      for (const Part& part : parts) add(part, part.is_match == previous_match, &ByteRange::end);
      break;
    case SplitBehavior::merged_with_previous:
      for (const Part& part : parts) add(part, part.is_match && !previous_match, &ByteRange::end);
      break;
    case SplitBehavior::merged_with_next:
      std::reverse(parts.begin(), parts.end());
      for (const Part& part : parts) add(part, part.is_match && !previous_match, &ByteRange::begin);
      std::reverse(found.begin(), found.end());
      break;
  }
  for (ByteRange part : found)
    if (part.begin < part.end) words.push_back({range.begin + part.begin, range.begin + part.end});
}

}  // namespace rlx::tokenizer

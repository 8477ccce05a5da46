// Putting tokens together; see the header.
#include "io/tokenizer/decoder.h"

#include <utility>

namespace rlx::tokenizer {
namespace {

struct Replacement {
  std::string_view from, to;
};
// The list of the tokenizers package, in its order. It is applied to each token with the space before it, so
// the entries that span several tokens never match; they stand here because a token may hold spaces.
constexpr Replacement kCleanup[] = {
    {" .", "."},   {" ?", "?"},           {" !", "!"},   {" ,", ","},     {" ' ", "'"},    {" n't", "n't"},
    {" 'm", "'m"}, {" do not", " don't"}, {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"},
};

void replace_all(std::string& text, Replacement replacement) {
  size_t found = text.find(replacement.from);
  if (found == std::string::npos) return;
  std::string replaced;
  size_t done = 0;
  for (; found != std::string::npos; found = text.find(replacement.from, done)) {
    replaced.append(text, done, found - done).append(replacement.to);
    done = found + replacement.from.size();
  }
  text = replaced.append(text, done);
}

}  // namespace

std::string SpacingDecoder::decode(const std::vector<std::string_view>& tokens) const {
  std::string text;
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (i > 0) text += ' ';
    text += tokens[i];
  }
  return text;
}

WordPieceDecoder::WordPieceDecoder(std::string prefix, bool cleanup) : prefix_(std::move(prefix)), cleanup_(cleanup) {}

std::string WordPieceDecoder::decode(const std::vector<std::string_view>& tokens) const {
  std::string text, spaced;
  for (size_t i = 0; i < tokens.size(); ++i) {
    spaced.clear();
    if (i == 0) spaced = tokens[i];
    else if (tokens[i].starts_with(prefix_)) spaced = tokens[i].substr(prefix_.size());
    else spaced.append(" ").append(tokens[i]);
    if (cleanup_)
      for (Replacement replacement : kCleanup) replace_all(spaced, replacement);
    text += spaced;
  }
  return text;
}

}  // namespace rlx::tokenizer

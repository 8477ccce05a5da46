// Putting tokens together; see the header.
#include "io/tokenizer/decoder.h"

#include <algorithm>
#include <utility>

#include "io/tokenizer/byte_level.h"
#include "io/tokenizer/utf8.h"
#include "rlx/error.h"

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
  if (replacement.from.empty()) return;
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

void clean_up(std::string& text) {
  for (Replacement replacement : kCleanup) replace_all(text, replacement);
}

}  // namespace

void SpacingDecoder::decode(std::vector<std::string>& tokens) const {
  for (size_t i = 1; i < tokens.size(); ++i) tokens[i].insert(0, 1, ' ');
}

void WordPieceDecoder::decode(std::vector<std::string>& tokens) const {
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (i > 0 && tokens[i].starts_with(prefix_)) tokens[i].erase(0, prefix_.size());
    else if (i > 0) tokens[i].insert(0, 1, ' ');
    if (cleanup_) clean_up(tokens[i]);
  }
}

void SequenceDecoder::decode(std::vector<std::string>& tokens) const {
  for (const auto& part : parts_) part->decode(tokens);
}

void ByteLevelDecoder::decode(std::vector<std::string>& tokens) const {
  std::string bytes;
  for (const std::string& token : tokens) append_bytes_of_letters(bytes, token);
  tokens.assign(1, repair_utf8(bytes).text);
}

void ByteFallbackDecoder::decode(std::vector<std::string>& tokens) const {
  std::vector<std::string> out;
  std::string bytes;
  auto close = [&] {
    if (bytes.empty()) return;
    if (valid_utf8_prefix(bytes) == bytes.size()) out.push_back(bytes);
    else out.insert(out.end(), bytes.size(), std::string(kReplacementCharacter));
    bytes.clear();
  };
  for (std::string& token : tokens) {
    if (auto byte = byte_of_token(token)) {
      bytes += static_cast<char>(*byte);
      continue;
    }
    close();
    out.push_back(std::move(token));
  }
  close();
  tokens = std::move(out);
}

void MetaspaceDecoder::decode(std::vector<std::string>& tokens) const {
  for (size_t i = 0; i < tokens.size(); ++i) replace_all(tokens[i], {mark_, i == 0 && prepended_ ? "" : " "});
}

void BpeDecoder::decode(std::vector<std::string>& tokens) const {
  for (size_t i = 0; i < tokens.size(); ++i) replace_all(tokens[i], {suffix_, i + 1 < tokens.size() ? " " : ""});
}

void FuseDecoder::decode(std::vector<std::string>& tokens) const {
  std::string all;
  for (const std::string& token : tokens) all += token;
  tokens.assign(1, std::move(all));
}

void StripDecoder::decode(std::vector<std::string>& tokens) const {
  if (character_.empty()) return;
  for (std::string& token : tokens) {
    std::string_view left = token;
    for (size_t i = 0; i < start_ && left.starts_with(character_); ++i) left.remove_prefix(character_.size());
    for (size_t i = 0; i < stop_ && left.ends_with(character_); ++i) left.remove_suffix(character_.size());
    token = std::string(left);
  }
}

void ReplaceDecoder::decode(std::vector<std::string>& tokens) const {
  std::vector<ByteRange> matches;
  for (std::string& token : tokens) {
    if (valid_utf8_prefix(token) < token.size()) token = repair_utf8(token).text;
    matches.clear();
    pattern_->find(token, matches);
    if (matches.empty()) continue;
    std::string replaced;
    size_t done = 0;
    for (ByteRange match : matches) {
      if (replaced.size() + match.begin + content_.size() > kMaxTextBytes)
        fail(ErrorCode::unsupported, "a decoder makes more than ", kMaxTextBytes, " bytes of a token of ",
             token.size());
      replaced.append(token, done, match.begin - done).append(content_);
      done = match.end;
    }
    token = replaced.append(token, done);
  }
}

void CtcDecoder::decode(std::vector<std::string>& tokens) const {
  tokens.erase(std::unique(tokens.begin(), tokens.end()), tokens.end());
  for (std::string& token : tokens) {
    replace_all(token, {pad_token_, ""});
    if (!cleanup_) continue;
    clean_up(token);
    replace_all(token, {word_delimiter_, " "});
  }
  std::erase_if(tokens, [](const std::string& token) { return token.empty(); });
}

}  // namespace rlx::tokenizer

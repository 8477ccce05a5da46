// Finding added tokens in text; see the header. What a match takes of the text around it is decided in the order of
// the tokenizers package: leftmost and longest first, then single_word, then the stripping. A match that is refused
// still uses up its text; one that begins with white space may begin in what the token before it took.
#include "io/tokenizer/added_tokens.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "io/tokenizer/unicode.h"
#include "io/tokenizer/utf8.h"
#include "rlx/error.h"

namespace rlx::tokenizer {
namespace {

bool ends_with_word(std::string_view text) {
  return !text.empty() && is_word_character(decode_utf8(text.data() + previous_code_point(text, text.size())));
}
bool starts_with_word(std::string_view text) { return !text.empty() && is_word_character(decode_utf8(text.data())); }

bool is_whitespace_at(std::string_view text, size_t at) {
  return (class_of(decode_utf8(text.data() + at)) & kWhitespace) != 0;
}
size_t without_space_before(std::string_view text, size_t end, size_t lowest) {
  while (end > lowest) {
    size_t before = previous_code_point(text, end);
    if (!is_whitespace_at(text, before)) break;
    end = before;
  }
  return end;
}
size_t behind_space(std::string_view text, size_t at) {
  while (at < text.size() && is_whitespace_at(text, at)) at += utf8_size(text[at]);
  return at;
}

Segment segment(size_t begin, size_t end, int32_t id) {
  return {{static_cast<uint32_t>(begin), static_cast<uint32_t>(end)}, id};
}

}  // namespace

AddedTokens::AddedTokens(std::vector<AddedToken> tokens, const Vocabulary& model, const Normalizer& normalizer) {
  for (AddedToken& token : tokens) {
    std::string shown = token.content.substr(0, 80);
    if (token.content.empty()) fail(ErrorCode::parse, "the added token with id ", token.id, " has no text");
    if (valid_utf8_prefix(token.content) < token.content.size())  // it would be found within a character
      fail(ErrorCode::parse, "the added token with id ", token.id, ", '", shown, "', is not UTF-8");
    if (token.content.size() > Vocabulary::kMaxTokenBytes)
      fail(ErrorCode::unsupported, "the added token '", shown, "...' has ", token.content.size(),
           " bytes, more than the ", Vocabulary::kMaxTokenBytes, " that a token may have");
    if (token.id < 0 || token.id > Vocabulary::kMaxId)
      fail(ErrorCode::unsupported, "the added token '", shown, "' has id ", token.id, "; ids are 0 to ",
           Vocabulary::kMaxId, " here");
    int32_t in_model = model.find(token.content);
    if (in_model != Vocabulary::kNone && in_model != token.id)
      fail(ErrorCode::parse, "the added token '", shown, "' has id ", token.id, ", but id ", in_model,
           " in the model's vocabulary");
    if (auto other = model.token(token.id); in_model == Vocabulary::kNone && other)
      fail(ErrorCode::parse, "the added token '", shown, "' has id ", token.id, ", which is that of '",
           other->substr(0, 80), "' in the model's vocabulary");
    auto known = by_content_.find(token.content);
    if (known != by_content_.end() ? known->second != token.id : by_id_.count(token.id) > 0)
      fail(ErrorCode::parse, "the added token '", shown, "' has id ", token.id,
           known != by_content_.end() ? text_of(", but had id ", known->second, " before")
                                      : text_of(", which is that of '", by_id_.at(token.id).text.substr(0, 80), "'"));

    Pattern pattern{token.content, static_cast<int32_t>(token.id), token.single_word, token.lstrip, token.rstrip};
    if (token.normalized) {
      NormalizedText normal;
      normalizer.normalize(token.content, 0, normal);
      pattern.text = normal.text();
      if (pattern.text.empty())
        fail(ErrorCode::parse, "nothing is left of the added token '", shown, "' when it is normalized");
    }
    if (known == by_content_.end() && in_model == Vocabulary::kNone) ++beyond_model_;
    by_content_[token.content] = pattern.id;
    by_id_[token.id] = {pattern.text, token.special};
    if (!token.special) (token.normalized ? plain_normalized_ : plain_raw_).add(pattern);
    (token.normalized ? normalized_ : raw_).add(std::move(pattern));
  }
  for (Matcher* matcher : {&raw_, &normalized_, &plain_raw_, &plain_normalized_}) matcher->prepare();
}

int32_t AddedTokens::find(std::string_view content) const {
  auto found = by_content_.find(content);
  return found == by_content_.end() ? Vocabulary::kNone : found->second;
}

std::optional<std::string_view> AddedTokens::token(int64_t id) const {
  auto found = by_id_.find(id);
  if (found == by_id_.end()) return std::nullopt;
  return found->second.text;
}

bool AddedTokens::is_special(int64_t id) const {
  auto found = by_id_.find(id);
  return found != by_id_.end() && found->second.special;
}

void AddedTokens::Matcher::add(Pattern pattern) { patterns_.push_back(std::move(pattern)); }

void AddedTokens::Matcher::prepare() {
  std::stable_sort(patterns_.begin(), patterns_.end(),
                   [](const Pattern& a, const Pattern& b) { return a.text < b.text; });
  // A file may list a token again and again; of those with one text the first is found.
  patterns_.erase(std::unique(patterns_.begin(), patterns_.end(),
                              [](const Pattern& a, const Pattern& b) { return a.text == b.text; }),
                  patterns_.end());
  for (const Pattern& pattern : patterns_) begins_[static_cast<unsigned char>(pattern.text[0])] = true;
  if (!patterns_.empty() && patterns_.front().text[0] == patterns_.back().text[0]) only_begin_ = patterns_[0].text[0];
}

size_t AddedTokens::Matcher::next_candidate(std::string_view text, size_t at) const {
  if (only_begin_) return std::min(text.find(*only_begin_, at), text.size());
  while (at < text.size() && !begins_[static_cast<unsigned char>(text[at])]) ++at;
  return at;
}

const AddedTokens::Pattern* AddedTokens::Matcher::longest_at(std::string_view rest) const {
  // The patterns that agree with `rest` so far are neighbours; one more byte leaves fewer of them.
  const Pattern* longest = nullptr;
  auto first = patterns_.begin(), last = patterns_.end();
  for (size_t depth = 0; first != last; ++depth) {
    if (first->text.size() == depth) {
      longest = &*first;
      while (first != last && first->text.size() == depth) ++first;
    }
    if (depth == rest.size()) break;
    auto byte = static_cast<unsigned char>(rest[depth]);
    auto byte_of = [&](const Pattern& pattern) { return static_cast<unsigned char>(pattern.text[depth]); };
    first = std::partition_point(first, last, [&](const Pattern& pattern) { return byte_of(pattern) < byte; });
    last = std::partition_point(first, last, [&](const Pattern& pattern) { return byte_of(pattern) == byte; });
  }
  return longest;
}

void AddedTokens::Matcher::split(std::string_view text, std::vector<Segment>& out) const {
  size_t done = 0;
  if (!patterns_.empty()) {
    for (size_t at = next_candidate(text, 0); at < text.size();) {
      const Pattern* pattern = longest_at(text.substr(at));
      if (!pattern) {
        at = next_candidate(text, at + 1);
        continue;
      }
      size_t begin = at, end = at + pattern->text.size();
      at = next_candidate(text, end);
      if (pattern->single_word && (ends_with_word(text.substr(0, begin)) || starts_with_word(text.substr(end))))
        continue;
      if (end <= done) continue;  // white space itself, which the token before has taken
      if (pattern->lstrip) begin = std::max(without_space_before(text, begin, done), done);
      if (pattern->rstrip) end = behind_space(text, end);
      if (done < begin) out.push_back(segment(done, begin, Vocabulary::kNone));
      out.push_back(segment(begin, end, pattern->id));
      done = end;
    }
  }
  if (done < text.size()) out.push_back(segment(done, text.size(), Vocabulary::kNone));
}

}  // namespace rlx::tokenizer

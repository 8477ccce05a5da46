// Byte-pair encoding with a heap of pairs and a list of symbols: a word of n characters takes O(n log n).
#include "io/tokenizer/bpe.h"

#include <algorithm>
#include <queue>

#include "io/tokenizer/byte_level.h"
#include "io/tokenizer/utf8.h"
#include "rlx/error.h"

namespace rlx::tokenizer {

Bpe::Bpe(Vocabulary vocabulary, const Merges& merges, BpeOptions options)
    : vocabulary_(std::move(vocabulary)), options_(std::move(options)), by_score_(false) {
  check_options();
  merges_.reserve(merges.size());
  std::string both;
  for (size_t rank = 0; rank < merges.size(); ++rank) {
    auto [left, right] = merges[rank];
    size_t prefix = options_.continuing_subword_prefix.size();
    both.assign(left).append(right.substr(std::min(prefix, right.size())));
    int32_t left_id = vocabulary_.find(left), right_id = vocabulary_.find(right), id = vocabulary_.find(both);
    for (auto [found, token] : {std::pair(left_id, left), {right_id, right}, {id, std::string_view(both)}})
      if (found == Vocabulary::kNone)
        fail(ErrorCode::parse, "merge ", rank, " is of '", left.substr(0, 60), "' and '", right.substr(0, 60),
             "', but '", token.substr(0, 60), "' is not in the vocabulary");
    auto [known, is_new] = merges_.try_emplace(key(left_id, right_id), Merge{static_cast<uint32_t>(rank), id});
    if (!is_new && !options_.first_of_equal_merges) known->second = {static_cast<uint32_t>(rank), id};
  }
}

Bpe::Bpe(Vocabulary vocabulary, std::vector<float> scores, BpeOptions options)
    : vocabulary_(std::move(vocabulary)), options_(std::move(options)), scores_(std::move(scores)), by_score_(true) {
  check_options();
}

void Bpe::check_options() {
  if (options_.unk_token) {
    unk_id_ = vocabulary_.find(*options_.unk_token);
    if (unk_id_ == Vocabulary::kNone)
      fail(ErrorCode::parse, "the vocabulary of ", vocabulary_.size(), " tokens lacks the unknown token '",
           options_.unk_token->substr(0, 80), "' that unk_token names");
  }
  for (size_t byte = 0; byte < 256; ++byte)
    byte_ids_[byte] =
        options_.byte_fallback ? vocabulary_.find(byte_token(static_cast<unsigned char>(byte))) : Vocabulary::kNone;
}

void Bpe::add_unknown(std::vector<Symbol>& symbols, std::string_view text, ByteRange range) const {
  auto byte_id = [&](uint32_t at) { return byte_ids_[static_cast<unsigned char>(text[at])]; };
  bool all_bytes = options_.byte_fallback;
  for (uint32_t at = range.begin; all_bytes && at < range.end; ++at) all_bytes = byte_id(at) != Vocabulary::kNone;
  if (all_bytes) {
    // Each byte stands for all of the character, which has no parts in the text.
    for (uint32_t at = range.begin; at < range.end; ++at) symbols.push_back({byte_id(at), range, 1, 0, 0});
  } else if (options_.fuse_unk && unk_id_ != Vocabulary::kNone && !symbols.empty() && symbols.back().id == unk_id_) {
    symbols.back().range.end = range.end;
  } else if (unk_id_ != Vocabulary::kNone) {
    symbols.push_back({unk_id_, range, 1, 0, 0});
  }
}

std::vector<Bpe::Symbol> Bpe::characters_of(std::string_view text, ByteRange word) const {
  std::vector<Symbol> symbols;
  symbols.reserve(word.end - word.begin);
  bool is_plain = options_.continuing_subword_prefix.empty() && options_.end_of_word_suffix.empty();
  std::string spelled;
  for (uint32_t at = word.begin; at < word.end;) {
    uint32_t size = utf8_size(text[at]);
    int32_t id;
    if (is_plain) {
      id = vocabulary_.find(text.substr(at, size));
    } else {
      spelled.clear();
      if (at > word.begin) spelled = options_.continuing_subword_prefix;
      spelled += text.substr(at, size);
      if (at + size == word.end) spelled += options_.end_of_word_suffix;
      id = vocabulary_.find(spelled);
    }
    // By score, a character that is no token may still be the beginning of one; what is left of them is seen to at the
    // end.
    if (id != Vocabulary::kNone || by_score_) symbols.push_back({id, {at, at + size}, 1, 0, 0});
    else add_unknown(symbols, text, {at, at + size});
    at += size;
  }
  for (size_t i = 0; i < symbols.size(); ++i) {
    symbols[i].previous = static_cast<int32_t>(i) - 1;
    symbols[i].next = i + 1 < symbols.size() ? static_cast<int32_t>(i) + 1 : -1;
  }
  return symbols;
}

std::optional<Bpe::Candidate> Bpe::candidate(std::string_view text, const std::vector<Symbol>& symbols,
                                             int32_t left) const {
  const Symbol& first = symbols[static_cast<size_t>(left)];
  if (first.next < 0) return std::nullopt;
  const Symbol& second = symbols[static_cast<size_t>(first.next)];
  uint32_t characters = first.characters + second.characters;
  if (by_score_) {
    uint32_t size = second.range.end - first.range.begin;
    if (size > vocabulary_.longest_token_bytes()) return std::nullopt;
    int32_t id = vocabulary_.find(text.substr(first.range.begin, size));
    if (id == Vocabulary::kNone) return std::nullopt;
    double score =
        static_cast<size_t>(id) < scores_.size() ? static_cast<double>(scores_[static_cast<size_t>(id)]) : 0.0;
    return Candidate{-score, left, id, characters};
  }
  auto found = merges_.find(key(first.id, second.id));
  if (found == merges_.end()) return std::nullopt;
  return Candidate{static_cast<double>(found->second.rank), left, found->second.id, characters};
}

void Bpe::tokenize(std::string_view text, ByteRange word, std::vector<Piece>& pieces) const {
  if (options_.ignore_merges && word.end - word.begin <= vocabulary_.longest_token_bytes()) {
    int32_t id = vocabulary_.find(text.substr(word.begin, word.end - word.begin));
    if (id != Vocabulary::kNone) return pieces.push_back({id, word});
  }
  std::vector<Symbol> symbols = characters_of(text, word);
  auto later = [](const Candidate& a, const Candidate& b) {
    return a.rank != b.rank ? a.rank > b.rank : a.left > b.left;
  };
  std::vector<Candidate> first;
  first.reserve(symbols.size());
  for (size_t i = 0; i + 1 < symbols.size(); ++i)
    if (auto found = candidate(text, symbols, static_cast<int32_t>(i))) first.push_back(*found);
  std::priority_queue<Candidate, std::vector<Candidate>, decltype(later)> queue(later, std::move(first));
  auto push = [&](int32_t left) {
    if (left < 0) return;
    if (auto found = candidate(text, symbols, left)) queue.push(*found);
  };
  while (!queue.empty()) {
    Candidate best = queue.top();
    queue.pop();
    Symbol& left = symbols[static_cast<size_t>(best.left)];
    if (left.characters == 0 || left.next < 0) continue;
    Symbol& right = symbols[static_cast<size_t>(left.next)];
    if (left.characters + right.characters != best.characters) continue;
    if (!by_score_) {
      // As many may have come from another pair, which gives another token.
      auto now = merges_.find(key(left.id, right.id));
      if (now == merges_.end() || now->second.id != best.id) continue;
    }
    left.id = best.id;
    left.characters = best.characters;
    left.range.end = std::max(left.range.end, right.range.end);
    left.next = right.next;
    right.characters = 0;
    if (left.next >= 0) symbols[static_cast<size_t>(left.next)].previous = best.left;
    push(best.left);
    push(left.previous);
  }
  std::vector<Symbol> unknown;
  for (const Symbol& symbol : symbols) {
    if (symbol.characters == 0) continue;
    if (symbol.id != Vocabulary::kNone) {
      pieces.push_back({symbol.id, symbol.range});
    } else {
      unknown.clear();
      add_unknown(unknown, text, symbol.range);
      for (const Symbol& part : unknown) pieces.push_back({part.id, part.range});
    }
  }
}

}  // namespace rlx::tokenizer

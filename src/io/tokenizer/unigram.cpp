// Viterbi's search through the tokens that begin at each character. Of two ways of one score, that whose last token
// begins first stands: so the tokenizers package decides.
#include "io/tokenizer/unigram.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "io/tokenizer/byte_level.h"
#include "io/tokenizer/utf8.h"
#include "rlx/error.h"

namespace rlx::tokenizer {
namespace {

constexpr double kUnknownPenalty = 10.0;  // below the lowest score: SentencePiece, unigram_model.cc, kUnkPenalty

Trie trie_of(const Vocabulary& vocabulary, const std::vector<double>& scores) {
  std::vector<std::pair<std::string_view, int32_t>> entries;
  for (size_t id = 0; id < scores.size(); ++id)
    if (auto token = vocabulary.token(static_cast<int64_t>(id)); token && !token->empty() && std::isfinite(scores[id]))
      entries.emplace_back(*token, static_cast<int32_t>(id));
  return Trie(std::move(entries));
}

}  // namespace

Unigram::Unigram(Vocabulary vocabulary, std::vector<double> scores, std::optional<int32_t> unk_id, bool byte_fallback)
    : vocabulary_(std::move(vocabulary)), scores_(std::move(scores)), unk_id_(unk_id),
      trie_(trie_of(vocabulary_, scores_)) {
  if (unk_id && (*unk_id < 0 || static_cast<size_t>(*unk_id) >= scores_.size()))
    fail(ErrorCode::parse, "the unknown token has id ", *unk_id, ", but the vocabulary has ", scores_.size(),
         " tokens");
  double lowest = std::numeric_limits<double>::infinity();
  for (double score : scores_)
    if (std::isfinite(score)) lowest = std::min(lowest, score);
  unk_score_ = (std::isfinite(lowest) ? lowest : 0) - kUnknownPenalty;
  for (size_t byte = 0; byte < 256; ++byte)
    byte_ids_[byte] =
        byte_fallback ? vocabulary_.find(byte_token(static_cast<unsigned char>(byte))) : Vocabulary::kNone;
}

void Unigram::tokenize(std::string_view text, ByteRange word, std::vector<Piece>& pieces) const {
  struct Best {
    double score = 0;
    uint32_t begin = 0;  // of the last token
    int32_t id = Vocabulary::kNone;
    bool reached = false;
  };
  std::string_view characters = text.substr(word.begin, word.end - word.begin);
  auto size = static_cast<uint32_t>(characters.size());
  std::vector<Best> best(size + 1);  // of the ways to write what stands before each byte
  best[0].reached = true;
  auto offer = [&](uint32_t begin, uint32_t end, double score, int32_t id) {
    double sum = best[begin].score + score;
    if (!best[end].reached || sum > best[end].score) best[end] = {sum, begin, id, true};
  };
  for (uint32_t at = 0; at < size;) {
    uint32_t next = std::min(at + utf8_size(characters[at]), size);
    bool has_single = false;
    trie_.for_each_prefix(characters.substr(at), [&](size_t bytes, int32_t id) {
      auto end = static_cast<uint32_t>(at + bytes);
      if (end < next || (end < size && (static_cast<unsigned char>(characters[end]) & 0xc0) == 0x80)) return;
      offer(at, end, scores_[static_cast<size_t>(id)], id);
      has_single |= end == next;
    });
    if (!has_single) offer(at, next, unk_score_, Vocabulary::kNone);
    at = next;
  }
  size_t first = pieces.size();
  uint32_t unknown_end = 0;  // of a row of unknown characters, which are one token
  bool in_unknown = false;
  std::vector<Piece> reversed;
  auto close_unknown = [&](uint32_t begin) {
    if (in_unknown) reversed.push_back({Vocabulary::kNone, {word.begin + begin, word.begin + unknown_end}});
    in_unknown = false;
  };
  for (uint32_t end = size; end > 0; end = best[end].begin) {
    const Best& last = best[end];
    if (last.id == Vocabulary::kNone || (unk_id_ && last.id == *unk_id_)) {
      if (!in_unknown) unknown_end = end;
      in_unknown = true;
      continue;
    }
    close_unknown(end);
    reversed.push_back({last.id, {word.begin + last.begin, word.begin + end}});
  }
  close_unknown(0);
  for (auto piece = reversed.rbegin(); piece != reversed.rend(); ++piece) {
    if (piece->id == Vocabulary::kNone) add_unknown(text, piece->range, pieces);
    else pieces.push_back(*piece);
  }
  if (pieces.size() == first && size > 0)
    fail(ErrorCode::unsupported, "no token stands for '", characters.substr(0, 60), "'");
}

void Unigram::add_unknown(std::string_view text, ByteRange range, std::vector<Piece>& pieces) const {
  std::string_view characters = text.substr(range.begin, range.end - range.begin);
  auto id_of = [&](char c) { return byte_ids_[static_cast<unsigned char>(c)]; };
  if (std::all_of(characters.begin(), characters.end(), [&](char c) { return id_of(c) != Vocabulary::kNone; })) {
    for (char c : characters) pieces.push_back({id_of(c), range});
    return;
  }
  if (!unk_id_)
    fail(ErrorCode::unsupported, "no token stands for '", characters.substr(0, 60),
         "', and the tokenizer has no unknown token");
  pieces.push_back({*unk_id_, range});
}

}  // namespace rlx::tokenizer

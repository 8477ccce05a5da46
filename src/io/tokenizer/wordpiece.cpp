// Greedy WordPiece. Finding a token costs at most one hash step and one lookup per byte of the longest token,
// not of the word, so that a hostile word costs time in proportion to its length.
#include <algorithm>
#include <array>
#include <utility>

#include "io/tokenizer/model.h"
#include "io/tokenizer/utf8.h"
#include "rlx/error.h"

namespace rlx::tokenizer {
namespace {

bool has_more_code_points(std::string_view text, uint64_t limit) {
  if (text.size() <= limit) return false;
  uint64_t count = 0;
  for (char c : text) count += (static_cast<unsigned char>(c) & 0xc0) != 0x80;
  return count > limit;
}

}  // namespace

WordPiece::WordPiece(Vocabulary vocabulary, WordPieceOptions options)
    : vocabulary_(std::move(vocabulary)), options_(std::move(options)),
      prefix_hash_(Vocabulary::extend_hash(vocabulary_.hash_basis(), options_.continuing_subword_prefix)),
      unk_id_(vocabulary_.find(options_.unk_token)) {
  if (unk_id_ == Vocabulary::kNone)
    fail(ErrorCode::parse, "the vocabulary of ", vocabulary_.size(), " tokens lacks the unknown token '",
         options_.unk_token.substr(0, 80), "' that unk_token names");
}

void WordPiece::tokenize(std::string_view text, ByteRange word, std::vector<Piece>& pieces) const {
  std::string_view characters = text.substr(word.begin, word.end - word.begin);
  size_t before = pieces.size();
  if (!has_more_code_points(characters, options_.max_input_chars_per_word)) {
    uint32_t at = 0;
    while (at < characters.size()) {
      Match match = longest_match(characters.substr(at), at > 0);
      if (match.size == 0) break;
      pieces.push_back({match.id, {word.begin + at, word.begin + at + match.size}});
      at += match.size;
    }
    if (at == characters.size()) return;
    pieces.resize(before);
  }
  pieces.push_back({unk_id_, word});
}

WordPiece::Match WordPiece::longest_match(std::string_view rest, bool continues) const {
  std::string_view prefix = continues ? std::string_view(options_.continuing_subword_prefix) : std::string_view();
  if (vocabulary_.longest_token_bytes() <= prefix.size()) return {Vocabulary::kNone, 0};
  rest = rest.substr(0, vocabulary_.longest_token_bytes() - prefix.size());

  // Forward: the hash of each beginning of `rest`. Backward: the longest that is a token. A token ends where
  // a code point ends, because it is valid UTF-8 and so is the word.
  std::array<uint64_t, Vocabulary::kMaxTokenBytes> hashes;
  uint64_t hash = continues ? prefix_hash_ : vocabulary_.hash_basis();
  for (size_t i = 0; i < rest.size(); ++i) hashes[i] = hash = Vocabulary::extend_hash(hash, rest[i]);
  for (size_t size = rest.size(); size > 0; size = previous_code_point(rest, size)) {
    int32_t id = vocabulary_.find(prefix, rest.substr(0, size), hashes[size - 1]);
    if (id != Vocabulary::kNone) return {id, static_cast<uint32_t>(size)};
  }
  return {Vocabulary::kNone, 0};
}

}  // namespace rlx::tokenizer

// Byte-pair encoding (Sennrich, Haddow, Birch 2016): a word is its characters at first; then the pair of neighbours
// that is first in the list of merges becomes one, the leftmost of equal ones, until no pair is in the list.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "io/tokenizer/hash_seed.h"
#include "io/tokenizer/model.h"

namespace rlx::tokenizer {

struct BpeOptions {
  std::optional<std::string> unk_token = std::nullopt;  ///< for characters that are no tokens; else they are dropped
  std::string continuing_subword_prefix = {};           ///< before the characters of a word but the first
  std::string end_of_word_suffix = {};                  ///< behind the last
  bool fuse_unk = false;                                ///< neighbouring unknown characters are one token
  bool byte_fallback = false;          ///< a character that is no token becomes the tokens of its bytes
  bool ignore_merges = false;          ///< a word that is a token is not taken apart
  bool first_of_equal_merges = false;  ///< if a merge comes twice, the first rank counts, and not the last
};

class Bpe : public Model {
 public:
  using Merges = std::vector<std::pair<std::string_view, std::string_view>>;
  /// With a list of merges, by rank. Fails if one is made of, or gives, what is no token.
  Bpe(Vocabulary vocabulary, const Merges& merges, BpeOptions options);
  /// Two neighbours merge if their text together is a token, the one of the highest score first: SentencePiece's BPE,
  /// and tiktoken's with negated ranks. `scores` are by id; an id without one has 0.
  Bpe(Vocabulary vocabulary, std::vector<float> scores, BpeOptions options);

  void tokenize(std::string_view text, ByteRange word, std::vector<Piece>& pieces) const override;
  const Vocabulary& vocabulary() const override { return vocabulary_; }

 private:
  struct Symbol {
    int32_t id;  // kNone: no token (yet)
    ByteRange range;
    uint32_t characters;     // that it was made of; 0: it is part of the one before
    int32_t previous, next;  // -1: none
  };
  struct Candidate {
    double rank;
    int32_t left, id;
    uint32_t characters;  // of both together; another number means that the pair is no more
  };
  struct Merge {
    uint32_t rank;
    int32_t id;
  };
  struct PairHash {
    uint64_t factor;  // odd, and a secret of the process
    PairHash() : factor(mixed(hash_seed()) | 1) {}
    /// Some libraries use the low bits alone: the high ones, on which both tokens have an influence, are folded in.
    size_t operator()(uint64_t key) const noexcept {
      const uint64_t product = key * factor;
      return static_cast<size_t>(product ^ product >> 32);
    }
  };
  void check_options();
  std::vector<Symbol> characters_of(std::string_view text, ByteRange word) const;
  void add_unknown(std::vector<Symbol>& symbols, std::string_view text, ByteRange range) const;
  std::optional<Candidate> candidate(std::string_view text, const std::vector<Symbol>& symbols, int32_t left) const;
  static uint64_t key(int32_t left, int32_t right) {
    return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
  }

  Vocabulary vocabulary_;
  BpeOptions options_;
  std::unordered_map<uint64_t, Merge, PairHash> merges_;
  std::vector<float> scores_;
  bool by_score_;
  int32_t unk_id_ = Vocabulary::kNone;
  int32_t byte_ids_[256];
};

}  // namespace rlx::tokenizer

// The unigram language model (Kudo 2018): of all ways to write a word in tokens, the one with the highest sum of
// scores.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "io/tokenizer/model.h"
#include "io/tokenizer/trie.h"

namespace rlx::tokenizer {

class Unigram : public Model {
 public:
  /// `scores`: the logarithms of the probabilities, by id; a token of -infinity is not used. Without `unk_id` a text
  /// with a character that no token has is an error. `byte_fallback`: such a character becomes the tokens of its bytes,
  /// if there are all.
  Unigram(Vocabulary vocabulary, std::vector<double> scores, std::optional<int32_t> unk_id, bool byte_fallback);
  void tokenize(std::string_view text, ByteRange word, std::vector<Piece>& pieces) const override;
  const Vocabulary& vocabulary() const override { return vocabulary_; }

 private:
  void add_unknown(std::string_view text, ByteRange range, std::vector<Piece>& pieces) const;

  Vocabulary vocabulary_;
  std::vector<double> scores_;
  std::optional<int32_t> unk_id_;
  double unk_score_;
  Trie trie_;
  int32_t byte_ids_[256];
};

}  // namespace rlx::tokenizer

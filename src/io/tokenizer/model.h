// Models: how a word becomes tokens. WordPiece and whole words stand here, byte-pair encoding in bpe.h, the unigram
// model in unigram.h.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "io/tokenizer/normalized_text.h"
#include "io/tokenizer/vocabulary.h"

namespace rlx::tokenizer {

struct Piece {
  int32_t id;
  ByteRange range;  ///< in the text that the word is part of
};

class Model {
 public:
  virtual ~Model() = default;
  /// Appends the tokens of the word text[word.begin, word.end) to `pieces`. The word is valid UTF-8 and not empty;
  /// implementations read whole code points and do not check that.
  virtual void tokenize(std::string_view text, ByteRange word, std::vector<Piece>& pieces) const = 0;
  virtual const Vocabulary& vocabulary() const = 0;
};

struct WordPieceOptions {
  std::string unk_token = "[UNK]";
  std::string continuing_subword_prefix = "##";
  uint64_t max_input_chars_per_word = 100;  ///< longer words are unknown
};

/// WordPiece (Schuster, Nakajima 2012; greedy as in BERT): the longest token that the word begins with, then
/// the longest that the rest begins with, written with the prefix, and so on. If no token fits somewhere, the
/// whole word is one unknown token.
class WordPiece : public Model {
 public:
  /// Fails if `vocabulary` lacks the unknown token.
  WordPiece(Vocabulary vocabulary, WordPieceOptions options);
  void tokenize(std::string_view text, ByteRange word, std::vector<Piece>& pieces) const override;
  const Vocabulary& vocabulary() const override { return vocabulary_; }

 private:
  /// The longest token at the start of `rest`, which continues a word or not; size 0 if there is none.
  struct Match {
    int32_t id;
    uint32_t size;
  };
  Match longest_match(std::string_view rest, bool continues) const;

  Vocabulary vocabulary_;
  WordPieceOptions options_;
  uint64_t prefix_hash_;
  int32_t unk_id_;
};

/// A word is a token, or unknown.
class WordLevel : public Model {
 public:
  /// Without the unknown token in `vocabulary`, a text with another word is an error.
  WordLevel(Vocabulary vocabulary, const std::string& unk_token);
  void tokenize(std::string_view text, ByteRange word, std::vector<Piece>& pieces) const override;
  const Vocabulary& vocabulary() const override { return vocabulary_; }

 private:
  Vocabulary vocabulary_;
  int32_t unk_id_;
};

}  // namespace rlx::tokenizer

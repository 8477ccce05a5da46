// Decoders: how the tokens of ids are put together to text.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "io/tokenizer/pattern.h"

namespace rlx::tokenizer {

class Decoder {
 public:
  virtual ~Decoder() = default;
  /// Makes of tokens the texts that, one behind the other, are the whole; a next decoder may work on them.
  virtual void decode(std::vector<std::string>& tokens) const = 0;
};

/// Spaces between all tokens: for a tokenizer.json whose decoder is null.
class SpacingDecoder : public Decoder {
 public:
  void decode(std::vector<std::string>& tokens) const override;
};

/// Joins tokens that begin with the prefix to the one before; `cleanup` takes back the spaces that splitting
/// put before punctuation and English contractions.
class WordPieceDecoder : public Decoder {
 public:
  WordPieceDecoder(std::string prefix, bool cleanup) : prefix_(std::move(prefix)), cleanup_(cleanup) {}
  void decode(std::vector<std::string>& tokens) const override;

 private:
  std::string prefix_;
  bool cleanup_;
};

class SequenceDecoder : public Decoder {
 public:
  explicit SequenceDecoder(std::vector<std::unique_ptr<const Decoder>> parts) : parts_(std::move(parts)) {}
  void decode(std::vector<std::string>& tokens) const override;

 private:
  std::vector<std::unique_ptr<const Decoder>> parts_;
};

/// Letters of GPT-2's alphabet become bytes; what is no UTF-8 then becomes U+FFFD.
class ByteLevelDecoder : public Decoder {
 public:
  void decode(std::vector<std::string>& tokens) const override;
};

/// A run of tokens like "<0xE2>" becomes what its bytes say, or a U+FFFD for each if that is no UTF-8.
class ByteFallbackDecoder : public Decoder {
 public:
  void decode(std::vector<std::string>& tokens) const override;
};

/// Each mark of a space becomes a space. If `prepended`, the marks in the first token are removed instead.
class MetaspaceDecoder : public Decoder {
 public:
  MetaspaceDecoder(std::string mark, bool prepended) : mark_(std::move(mark)), prepended_(prepended) {}
  void decode(std::vector<std::string>& tokens) const override;

 private:
  std::string mark_;
  bool prepended_;
};

/// The suffix of words becomes a space, and nothing in the last token.
class BpeDecoder : public Decoder {
 public:
  explicit BpeDecoder(std::string suffix) : suffix_(std::move(suffix)) {}
  void decode(std::vector<std::string>& tokens) const override;

 private:
  std::string suffix_;
};

/// All tokens are one text.
class FuseDecoder : public Decoder {
 public:
  void decode(std::vector<std::string>& tokens) const override;
};

/// Takes up to so many of a character off the two ends of each token.
class StripDecoder : public Decoder {
 public:
  StripDecoder(std::string character, size_t start, size_t stop)
      : character_(std::move(character)), start_(start), stop_(stop) {}
  void decode(std::vector<std::string>& tokens) const override;

 private:
  std::string character_;
  size_t start_, stop_;
};

class ReplaceDecoder : public Decoder {
 public:
  ReplaceDecoder(std::unique_ptr<const Pattern> pattern, std::string content)
      : pattern_(std::move(pattern)), content_(std::move(content)) {}
  void decode(std::vector<std::string>& tokens) const override;

 private:
  std::unique_ptr<const Pattern> pattern_;
  std::string content_;
};

/// Connectionist temporal classification: equal neighbours become one token, and the padding token is removed.
/// `cleanup` also turns the word delimiter into a space and takes back spaces, as WordPieceDecoder does.
class CtcDecoder : public Decoder {
 public:
  CtcDecoder(std::string pad_token, std::string word_delimiter, bool cleanup)
      : pad_token_(std::move(pad_token)), word_delimiter_(std::move(word_delimiter)), cleanup_(cleanup) {}
  void decode(std::vector<std::string>& tokens) const override;

 private:
  std::string pad_token_, word_delimiter_;
  bool cleanup_;
};

}  // namespace rlx::tokenizer

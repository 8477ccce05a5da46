// Decoders: how the tokens of ids are put together to text.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace rlx::tokenizer {

class Decoder {
 public:
  virtual ~Decoder() = default;
  virtual std::string decode(const std::vector<std::string_view>& tokens) const = 0;
};

/// Spaces between all tokens: for a tokenizer.json whose decoder is null.
class SpacingDecoder : public Decoder {
 public:
  std::string decode(const std::vector<std::string_view>& tokens) const override;
};

/// Joins tokens that begin with the prefix to the one before; `cleanup` takes back the spaces that splitting
/// put before punctuation and English contractions.
class WordPieceDecoder : public Decoder {
 public:
  WordPieceDecoder(std::string prefix, bool cleanup);
  std::string decode(const std::vector<std::string_view>& tokens) const override;

 private:
  std::string prefix_;
  bool cleanup_;
};

}  // namespace rlx::tokenizer

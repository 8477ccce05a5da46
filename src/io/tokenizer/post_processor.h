// Post-processors: which special tokens stand around the texts, and what type ids all get. The kinds of
// tokenizer.json (TemplateProcessing, BertProcessing, RobertaProcessing) are all templates here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "rlx/tokenizer.h"

namespace rlx::tokenizer {

/// A part of a template: the first or second text, or special tokens.
struct TemplatePiece {
  enum class Kind { first, second, special };
  Kind kind = Kind::first;
  int32_t type_id = 0;
  std::vector<int32_t> ids;         ///< of special tokens
  std::vector<std::string> tokens;  ///< as many
};
using PieceKind = TemplatePiece::Kind;
using Template = std::vector<TemplatePiece>;

class PostProcessor {
 public:
  /// Fails if the template for one text uses a second.
  PostProcessor(Template single, Template pair);
  /// Without any special tokens; the second text has type id 1.
  PostProcessor();
  /// Also takes the spaces at the ends of byte-level tokens out of their offsets, but not a single one before the first
  /// where one may have been put there.
  void trim_offsets(bool had_prefix_space);
  /// Takes over what `other` does. False if both have templates of their own.
  bool add(PostProcessor other);

  /// How many special tokens it adds.
  size_t added_tokens(bool is_pair) const;
  /// Puts the texts into the template; its special tokens are left out if `add_special_tokens` is false.
  Encoding process(Encoding first, Encoding* second, bool add_special_tokens) const;

 private:
  void trim(Encoding& encoding) const;

  Template single_, pair_;
  bool has_template_ = true, trims_ = false, had_prefix_space_ = false;
};

}  // namespace rlx::tokenizer

// Pre-tokenizers: how normalized text is split into the words that the model cuts into tokens. The interface and
// BERT's pre-tokenizer stand here. A new kind is a class in pre_tokenizers.h and a line in text_parts_json.cpp.
#pragma once

#include <string_view>
#include <vector>

#include "io/tokenizer/normalized_text.h"

namespace rlx::tokenizer {

class PreTokenizer {
 public:
  virtual ~PreTokenizer() = default;
  /// Splits each of `words`, parts of `text` in order and not empty, into such words. May write the text anew.
  virtual void split(NormalizedText& text, std::vector<ByteRange>& words) const = 0;
};

/// One that only splits, each word by itself.
class SplittingPreTokenizer : public PreTokenizer {
 public:
  void split(NormalizedText& text, std::vector<ByteRange>& words) const final;

 protected:
  /// Appends the words of text[range.begin, range.end) to `words`, in order, none of them empty.
  virtual void split_word(std::string_view text, ByteRange range, std::vector<ByteRange>& words) const = 0;
};

/// The whole text is one word: for a tokenizer.json whose pre_tokenizer is null.
class WholeTextPreTokenizer : public PreTokenizer {
 public:
  void split(NormalizedText&, std::vector<ByteRange>&) const override {}
};

/// White space separates words and is dropped; each punctuation character is a word of its own.
class BertPreTokenizer : public SplittingPreTokenizer {
 public:
  BertPreTokenizer();

 protected:
  void split_word(std::string_view text, ByteRange range, std::vector<ByteRange>& words) const override;

 private:
  unsigned char ascii_[128];  // classes, for the bytes that most text consists of
};

}  // namespace rlx::tokenizer

// The pre-tokenizers of tokenizer.json but BERT's, each named as there.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "io/tokenizer/pattern.h"
#include "io/tokenizer/pre_tokenizer.h"

namespace rlx::tokenizer {

/// GPT-2 (Radford et al. 2019), encoder.py.
constexpr const char* kGpt2Pattern = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

class SequencePreTokenizer : public PreTokenizer {
 public:
  explicit SequencePreTokenizer(std::vector<std::unique_ptr<const PreTokenizer>> parts) : parts_(std::move(parts)) {}
  void split(NormalizedText& text, std::vector<ByteRange>& words) const override;

 private:
  std::vector<std::unique_ptr<const PreTokenizer>> parts_;
};

/// Split; Punctuation, Digits, Whitespace and the like are such splits, too.
class PatternPreTokenizer : public SplittingPreTokenizer {
 public:
  PatternPreTokenizer(std::unique_ptr<const Pattern> pattern, SplitBehavior behavior, bool invert)
      : pattern_(std::move(pattern)), behavior_(behavior), invert_(invert) {}

 protected:
  void split_word(std::string_view text, ByteRange range, std::vector<ByteRange>& words) const override;

 private:
  std::unique_ptr<const Pattern> pattern_;
  SplitBehavior behavior_;
  bool invert_;
};

/// Words are runs of word characters, and runs of what is neither that nor white space.
class WhitespacePreTokenizer : public SplittingPreTokenizer {
 protected:
  void split_word(std::string_view text, ByteRange range, std::vector<ByteRange>& words) const override;
};

/// Words of so many characters each; the last has what is left.
class FixedLengthPreTokenizer : public SplittingPreTokenizer {
 public:
  explicit FixedLengthPreTokenizer(size_t length) : length_(length) {}

 protected:
  void split_word(std::string_view text, ByteRange range, std::vector<ByteRange>& words) const override;

 private:
  size_t length_;
};

/// Writes each byte as a letter of GPT-2's alphabet; splits by its regular expression before, if asked for.
class ByteLevelPreTokenizer : public PreTokenizer {
 public:
  ByteLevelPreTokenizer(bool add_prefix_space, bool use_regex);
  void split(NormalizedText& text, std::vector<ByteRange>& words) const override;

 private:
  bool add_prefix_space_;
  std::unique_ptr<const Pattern> pattern_;  // null: each word stays one
};

/// Writes spaces as a mark that prints, which begins words.
class MetaspacePreTokenizer : public PreTokenizer {
 public:
  enum class Prepend { always, never, first };
  MetaspacePreTokenizer(std::string mark, Prepend prepend, bool split)
      : mark_(mark), prepend_(prepend), splits_(split), pattern_(std::move(mark)) {}
  void split(NormalizedText& text, std::vector<ByteRange>& words) const override;

 private:
  std::string mark_;
  Prepend prepend_;
  bool splits_;
  LiteralPattern pattern_;
};

}  // namespace rlx::tokenizer

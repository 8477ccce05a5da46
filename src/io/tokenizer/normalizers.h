// The normalizers of tokenizer.json but BERT's, each named as there.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "io/tokenizer/normalizer.h"
#include "io/tokenizer/pattern.h"

namespace rlx::tokenizer {

/// One after the other.
class SequenceNormalizer : public Normalizer {
 public:
  explicit SequenceNormalizer(std::vector<std::unique_ptr<const Normalizer>> parts) : parts_(std::move(parts)) {}
  void normalize(std::string_view text, uint32_t origin, NormalizedText& out) const override;

 private:
  std::vector<std::unique_ptr<const Normalizer>> parts_;
};

/// What becomes of each code point by itself.
class CharacterNormalizer : public Normalizer {
 public:
  /// Appends what stands for `code` to `out`.
  using Write = void (*)(char32_t code, ByteRange source, NormalizedText& out);
  explicit CharacterNormalizer(Write write) : write_(write) {}
  void normalize(std::string_view text, uint32_t origin, NormalizedText& out) const override;

  static void lowercased(char32_t code, ByteRange source, NormalizedText& out);
  static void without_marks(char32_t code, ByteRange source, NormalizedText& out);
  /// The cleaning of Google's machine translation: controls are dropped, white space is a space.
  static void nmt(char32_t code, ByteRange source, NormalizedText& out);
  /// Each byte as a letter of GPT-2's alphabet.
  static void bytes_as_letters(char32_t code, ByteRange source, NormalizedText& out);

 private:
  Write write_;
};

/// The normalization forms of UAX #15.
class UnicodeFormNormalizer : public Normalizer {
 public:
  UnicodeFormNormalizer(bool compatibility, bool compose) : compatibility_(compatibility), compose_(compose) {}
  void normalize(std::string_view text, uint32_t origin, NormalizedText& out) const override;

 private:
  bool compatibility_, compose_;
};

/// Takes white space off the ends.
class StripNormalizer : public Normalizer {
 public:
  StripNormalizer(bool left, bool right) : left_(left), right_(right) {}
  void normalize(std::string_view text, uint32_t origin, NormalizedText& out) const override;

 private:
  bool left_, right_;
};

class ReplaceNormalizer : public Normalizer {
 public:
  ReplaceNormalizer(std::unique_ptr<const Pattern> pattern, std::string content)
      : pattern_(std::move(pattern)), content_(std::move(content)) {}
  void normalize(std::string_view text, uint32_t origin, NormalizedText& out) const override;

 private:
  std::unique_ptr<const Pattern> pattern_;
  std::string content_;
};

/// Puts a text before every text but an empty one.
class PrependNormalizer : public Normalizer {
 public:
  explicit PrependNormalizer(std::string content) : content_(std::move(content)) {}
  void normalize(std::string_view text, uint32_t origin, NormalizedText& out) const override;

 private:
  std::string content_;
};

}  // namespace rlx::tokenizer

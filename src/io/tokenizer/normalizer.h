// Normalizers: what is done to text before it is split into words. The interface and BERT's normalizer stand here, the
// others in normalizers.h and charsmap.h. A new kind is a class there and a line in text_parts_json.cpp.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "io/tokenizer/normalized_text.h"

namespace rlx::tokenizer {

class Normalizer {
 public:
  virtual ~Normalizer() = default;
  /// Writes the normal form of `text`, valid UTF-8 that begins at byte `origin` of the input, to `out`.
  virtual void normalize(std::string_view text, uint32_t origin, NormalizedText& out) const = 0;
};

/// Leaves the text as it is: for a tokenizer.json whose normalizer is null.
class IdentityNormalizer : public Normalizer {
 public:
  void normalize(std::string_view text, uint32_t origin, NormalizedText& out) const override {
    out.assign(text, origin);
  }
};

struct BertNormalizerOptions {
  bool clean_text = true;            ///< drop control characters and U+FFFD, make each white space a space
  bool handle_chinese_chars = true;  ///< put spaces around each CJK ideograph
  std::optional<bool> strip_accents =
      std::nullopt;  ///< decompose and drop nonspacing marks; as `lowercase` if not given
  bool lowercase = true;
};

/// BERT's normalization (Devlin et al. 2018, tokenization.py), in the order of the options.
class BertNormalizer : public Normalizer {
 public:
  explicit BertNormalizer(const BertNormalizerOptions& options);
  void normalize(std::string_view text, uint32_t origin, NormalizedText& out) const override;

 private:
  /// True if it could be done byte by byte.
  bool normalize_ascii(std::string_view text, uint32_t origin, NormalizedText& out) const;

  bool clean_text_, handle_chinese_chars_, strip_accents_, lowercase_;
  char ascii_[128];    // what an ASCII byte becomes
  bool dropped_[128];  // or that it is left out
};

}  // namespace rlx::tokenizer

// Tokens that are found in the text before the model sees it: the special ones ([CLS], [MASK]) and those that were
// added to a trained vocabulary. They are matched in the raw text or, if `normalized`, in the normalized one.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "io/tokenizer/normalized_text.h"
#include "io/tokenizer/normalizer.h"
#include "io/tokenizer/vocabulary.h"

namespace rlx::tokenizer {

struct AddedToken {
  int64_t id = 0;
  std::string content;
  bool single_word = false;  ///< not inside a longer word
  bool lstrip = false;       ///< takes the white space before it
  bool rstrip = false;       ///< takes the white space behind it
  bool normalized = false;   ///< matched, in its normal form, in the normalized text
  bool special = false;      ///< left out by decode()
};

/// A part of a text: an added token, or what stands between two.
struct Segment {
  ByteRange range;
  int32_t id;  ///< Vocabulary::kNone between tokens
};

class AddedTokens {
 public:
  /// Fails if a token has no text (or none after normalization), or if its id is that of another token.
  AddedTokens(std::vector<AddedToken> tokens, const Vocabulary& model, const Normalizer& normalizer);

  /// Cuts text into segments, none of them empty, that cover it; two tokens may share white space.
  /// Without `with_special` the special ones are text like any other.
  void split_raw(std::string_view text, std::vector<Segment>& out, bool with_special = true) const {
    (with_special ? raw_ : plain_raw_).split(text, out);
  }
  void split_normalized(std::string_view text, std::vector<Segment>& out, bool with_special = true) const {
    (with_special ? normalized_ : plain_normalized_).split(text, out);
  }

  /// kNone if no added token has this text.
  int32_t find(std::string_view content) const;
  /// As decode() writes it, in its normal form if it is matched so.
  std::optional<std::string_view> token(int64_t id) const;
  bool is_special(int64_t id) const;
  /// How many of the tokens the model's vocabulary does not have.
  size_t beyond_model() const { return beyond_model_; }

 private:
  struct Pattern {
    std::string text;
    int32_t id;
    bool single_word, lstrip, rstrip;
  };
  /// Finds the leftmost of its patterns, and there the longest.
  class Matcher {
   public:
    void add(Pattern pattern);
    /// To be called when all are added.
    void prepare();
    void split(std::string_view text, std::vector<Segment>& out) const;

   private:
    const Pattern* longest_at(std::string_view rest) const;
    size_t next_candidate(std::string_view text, size_t at) const;
    std::vector<Pattern> patterns_;   // sorted by text
    bool begins_[256] = {};           // some pattern begins with this byte
    std::optional<char> only_begin_;  // if all begin with the same
  };
  struct Known {
    std::string text;
    bool special;
  };

  Matcher raw_, normalized_;
  Matcher plain_raw_, plain_normalized_;  // without the special ones
  std::unordered_map<int64_t, Known> by_id_;
  std::map<std::string, int32_t, std::less<>> by_content_;
  size_t beyond_model_ = 0;
};

}  // namespace rlx::tokenizer

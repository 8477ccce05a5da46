// SentencePiece's normalization: a table from character sequences to what they become, as its models carry it
// (normalizer.cc, "precompiled_charsmap": a double array of Darts-clone, then the texts).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "io/tokenizer/normalizer.h"
#include "io/tokenizer/trie.h"

namespace rlx::tokenizer {

class Charsmap {
 public:
  Charsmap() = default;  // changes nothing
  /// Fails if the size that `bytes` begins with does not fit what follows. Everything else is checked by each match,
  /// which therefore may fail, too.
  explicit Charsmap(std::string_view bytes);

  struct Match {
    size_t size;            ///< how many bytes of the text the entry stands for
    std::string_view text;  ///< what it becomes
  };
  /// The shortest, or the longest, sequence of the table that `text` begins with.
  std::optional<Match> shortest(std::string_view text) const { return match(text, true); }
  std::optional<Match> longest(std::string_view text) const { return match(text, false); }

 private:
  std::optional<Match> match(std::string_view text, bool first) const;
  std::vector<uint32_t> units_;
  std::string texts_;  // each ends with a NUL
};

/// Precompiled of tokenizer.json: by grapheme cluster, or by character where the table does not have the cluster.
class PrecompiledNormalizer : public Normalizer {
 public:
  explicit PrecompiledNormalizer(Charsmap map) : map_(std::move(map)) {}
  void normalize(std::string_view text, uint32_t origin, NormalizedText& out) const override;

 private:
  Charsmap map_;
};

struct SentencePieceOptions {
  bool add_space_prefix = true;
  bool remove_extra_whitespaces = true;
  bool space_is_suffix = false;  ///< the space that is added stands behind the text
};

/// What SentencePiece itself does, longest match first, spaces written as U+2581. `kept`: tokens that it leaves alone.
class SentencePieceNormalizer : public Normalizer {
 public:
  SentencePieceNormalizer(Charsmap map, SentencePieceOptions options, std::vector<std::string> kept);
  void normalize(std::string_view text, uint32_t origin, NormalizedText& out) const override;

 private:
  Charsmap map_;
  SentencePieceOptions options_;
  std::vector<std::string> kept_;
  Trie kept_trie_;
};

}  // namespace rlx::tokenizer

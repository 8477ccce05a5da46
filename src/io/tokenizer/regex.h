// Regular expressions of tokenizer.json and of GGUF's pre-tokenizers, by PCRE2 with Unicode classes. Files write them
// for Oniguruma; what the two read differently is written anew before it is compiled.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "io/tokenizer/pattern.h"

namespace rlx::tokenizer {

/// Safe to use from several threads at once.
class Regex : public Pattern {
 public:
  /// Fails, as unsupported, for what PCRE2 does not compile and for nested sets ("[a[bc]]", "&&").
  explicit Regex(std::string_view pattern);
  ~Regex() override;
  /// Fails if the whole search takes more steps than patterns for words do: in proportion to the text, and some more
  /// for texts that need it. A hostile pattern needs exponentially many, or as many as the limit at each place. A run
  /// of one set of characters counts as one step.
  void find(std::string_view text, std::vector<ByteRange>& matches) const override;

 private:
  struct Compiled;
  class Search;
  std::unique_ptr<const Compiled> compiled_;
  std::string shown_;
};

}  // namespace rlx::tokenizer

// Regular expressions of tokenizer.json and of GGUF's pre-tokenizers, by PCRE2 with Unicode classes. Files write them
// for Oniguruma; what the two read differently is translated before it is compiled.
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
  /// Throws unsupported for what PCRE2 does not compile, for sets inside of sets ("[a[bc]]", "&&"), for \W inside of a
  /// set and for patterns above 64 KiB, and parse for what is not UTF-8.
  explicit Regex(std::string_view pattern);
  ~Regex() override;
  /// Throws unsupported where a match takes more steps at one place than it may: 2^20, in a text of more than 4 KiB
  /// 2^32 over its bytes, but at least 2^14. So end patterns that would take exponential time. By PCRE2's count, a run
  /// of one set of characters ("[a-z]+") is one step, however long it is.
  void find(std::string_view text, std::vector<ByteRange>& matches) const override;

 private:
  struct Compiled;
  class Search;
  std::unique_ptr<const Compiled> compiled_;
  std::string shown_;
};

}  // namespace rlx::tokenizer

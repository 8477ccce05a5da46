// Reads tokens of the textual IR from a string. Errors name the line and quote what stands there. The text is
// hostile input: every function either advances or throws.
#pragma once

#include <charconv>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "rlx/error.h"

namespace rlx {

class Tensor;

class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text) {}

  /// Skips white space and `//` comments, then takes `token` if it stands here.
  bool accept(std::string_view token);
  void expect(std::string_view token);
  /// Takes `word` only where it is not the beginning of a longer name.
  bool accept_word(std::string_view word);
  char peek();
  bool at_end() { return peek() == '\0'; }
  /// A name of letters, digits and `_`.
  std::string_view word();
  /// A string in double quotes, with the escapes that `write_quoted` makes.
  std::string quoted();
  template <class Number>
  Number number() {
    skip_space();
    Number value{};
    auto [end, code] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
    if (code == std::errc::result_out_of_range) unexpected("a number that its type can hold");
    if (code != std::errc{}) unexpected("a number");
    at_ = static_cast<size_t>(end - text_.data());
    return value;
  }
  int64_t line() const;
  [[noreturn]] void unexpected(const std::string& wanted) const;

  /// Sub-graphs nest at most this deep: the parser recurses, and its stack is finite.
  static constexpr int kMaxDepth = 64;
  int depth = 0;
  /// Where constants that the text only names are found; see ir/text.h.
  const std::function<Tensor(std::string_view name)>* tensors = nullptr;

 private:
  void skip_space();
  std::string_view text_;
  size_t at_ = 0;
};

/// Writes `text` in quotes; control characters, quotes and backslashes are escaped (\n, \t, \", \\, \xNN).
void write_quoted(std::ostream& out, std::string_view text);

}  // namespace rlx

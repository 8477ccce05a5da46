// See the header.
#include "ir/binding_text.h"

#include <charconv>

namespace rlx {

void add_binding(Bindings& bindings, std::string_view text, std::string_view what) {
  const size_t equals = text.rfind('=');
  int64_t number = 0;
  bool is_read = equals != std::string_view::npos && equals > 0;
  if (is_read) {
    const std::string_view digits = text.substr(equals + 1);
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
    is_read = error == std::errc() && end == digits.data() + digits.size() && number >= 1;
  }
  if (!is_read)
    fail(ErrorCode::invalid_argument, what, " takes NAME=NUMBER with a number of at least 1, and got '", text, "'");
  const auto [at, is_new] = bindings.emplace(text.substr(0, equals), number);
  if (!is_new && at->second != number)
    fail(ErrorCode::invalid_argument, what, " gives '", at->first, "' both ", at->second, " and ", number);
}

}  // namespace rlx

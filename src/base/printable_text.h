// Text that is safe to show: on a terminal, in an exception of Python, in a log. What comes from files (names, messages
// that quote them) may hold any bytes; it goes through here on its way out, and nowhere else is it escaped.
#pragma once

#include <string>
#include <string_view>

#include "rlx/error.h"

namespace rlx {

/// The bytes of the UTF-8 character that `text` begins with: 1 to 4; 0 if it begins with none.
size_t utf8_character_bytes(std::string_view text);
/// Whether that character, of so many bytes, is a control character: C0, DEL or C1 (ISO 6429).
bool is_control_character(std::string_view text, size_t bytes);
/// \xNN
void append_escaped(std::string& out, char byte);

/// `text` as valid UTF-8 without control characters other than newline and tab. Those of one byte (ESC) and bytes that
/// are no part of a character become \xNN; DEL and U+0080 to U+009F, which JSON leaves as they are, become \u00NN, as
/// JSON may write them. Other text stays as it is.
std::string printable_text(std::string_view text);
/// The same as one line: newlines and tabs become spaces.
std::string printable_line(std::string_view text);

/// `text` in quotes, as a string of JSON; bytes that are no UTF-8 become U+FFFD.
std::string json_quoted(std::string_view text);

/// Writes "rlx: TEXT" and a newline to standard error, printable.
void say_text(std::string_view text);
template <class... Parts>
void say(const Parts&... parts) {
  say_text(text_of(parts...));
}

}  // namespace rlx

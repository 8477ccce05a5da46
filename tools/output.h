// Standard output, checked: a full disk is an error, and a reader that has left is no reason to go on.
#pragma once

#include <string>
#include <string_view>

namespace rlx::tools {

/// Whoever read our output has closed it (`rlx ops | head -1`): there is nobody to tell, and nothing went wrong.
struct ReaderLeft {};

/// Buffered. What text from files may bring is escaped: no control characters but newline and tab, and valid UTF-8 (see
/// base/printable_text.h). Throws ReaderLeft, or an rlx::Error if the system refuses.
void write_out(std::string_view text);
void flush_out();

/// The shortest text that reads back as the same number; "null" for what JSON has no number for.
std::string number_text(float value);
std::string number_text(double value);
/// With that many digits behind the point.
std::string fixed_text(double value, int digits);
/// "91.2 MB": powers of 1000.
std::string bytes_text(double bytes);
/// In quotes, as JSON wants it; what is no UTF-8 becomes U+FFFD.
std::string json_text(std::string_view text);
/// One line for a terminal: newlines and tabs become spaces, other control characters are escaped, and more than `most`
/// characters are cut.
std::string line_text(std::string_view text, size_t most);

}  // namespace rlx::tools

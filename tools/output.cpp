// See the header.
#include "tools/output.h"

#include <array>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <system_error>

#include "base/printable_text.h"
#include "rlx/error.h"
#include "tools/progress_bar.h"

namespace rlx::tools {
namespace {

[[noreturn]] void refused(int error) {
  if (error == EPIPE) throw ReaderLeft{};
  fail(ErrorCode::io, "cannot write to standard output: ", std::generic_category().message(error));
}

template <class Number>
std::string shortest(Number value) {
  if (!std::isfinite(value)) return "null";
  std::array<char, 40> text;
  auto end = std::to_chars(text.data(), text.data() + text.size(), value).ptr;
  return {text.data(), end};
}

}  // namespace

void write_out(std::string_view raw) {
  const std::string text = printable_text(raw);
  ProgressBar::lift();  // a line of ours begins at the left, and not behind a bar
  errno = 0;
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size()) refused(errno);
}
void flush_out() {
  errno = 0;
  if (std::fflush(stdout) != 0 || std::ferror(stdout)) refused(errno ? errno : EIO);
}

std::string number_text(float value) { return shortest(value); }
std::string number_text(double value) { return shortest(value); }

std::string fixed_text(double value, int digits) {
  std::array<char, 400> text;  // the largest double has 309 digits
  int size = std::snprintf(text.data(), text.size(), "%.*f", digits, value);
  return {text.data(), static_cast<size_t>(size)};
}

std::string bytes_text(double bytes) {
  constexpr std::array<const char*, 5> kUnits = {" B", " kB", " MB", " GB", " TB"};
  size_t unit = 0;
  for (; bytes >= 999.95 && unit + 1 < kUnits.size(); ++unit) bytes /= 1000;
  return fixed_text(bytes, unit == 0 ? 0 : 1) + kUnits[unit];
}

std::string json_text(std::string_view text) { return json_quoted(text); }

std::string line_text(std::string_view text, size_t most) {
  const std::string line = printable_line(text);
  size_t end = 0;
  for (size_t characters = 0; end < line.size(); ++characters) {
    if (characters == most) return line.substr(0, end) + "...";
    end += utf8_character_bytes(std::string_view(line).substr(end));
  }
  return line;
}

}  // namespace rlx::tools

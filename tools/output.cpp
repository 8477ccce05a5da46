// See the header.
#include "tools/output.h"

#include <array>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <system_error>

#include "rlx/error.h"

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

void write_out(std::string_view text) {
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

std::string json_text(std::string_view text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string line_text(std::string_view text, size_t most) {
  std::string line;
  size_t characters = 0;
  for (char c : text) {
    bool begins = (static_cast<unsigned char>(c) & 0xC0) != 0x80;  // not a UTF-8 continuation byte
    if (begins && ++characters > most) return line + "...";
    line += static_cast<unsigned char>(c) < 0x20 || c == 0x7F ? ' ' : c;
  }
  return line;
}

}  // namespace rlx::tools

// See the header.
#include "base/printable_text.h"

#include <cstdio>

namespace rlx {
namespace {

unsigned char byte_at(std::string_view text, size_t i) { return static_cast<unsigned char>(text[i]); }

constexpr char kHexDigits[] = "0123456789abcdef";

}  // namespace

bool is_control_character(std::string_view text, size_t bytes) {
  const unsigned char first = byte_at(text, 0);
  if (bytes == 1) return first < 0x20 || first == 0x7f;
  return bytes == 2 && first == 0xc2 && byte_at(text, 1) < 0xa0;
}

void append_escaped(std::string& out, char byte) {
  const auto code = static_cast<unsigned char>(byte);
  (out += "\\x") += {kHexDigits[code >> 4], kHexDigits[code & 15]};
}

// Well-formed sequences are those of table 3-7 of the Unicode Standard: no overlong forms, no surrogates, nothing past
// U+10FFFF.
size_t utf8_character_bytes(std::string_view text) {
  if (text.empty()) return 0;
  const unsigned lead = byte_at(text, 0);
  if (lead < 0x80) return 1;
  if (lead < 0xc2 || lead > 0xf4) return 0;
  const size_t size = lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
  if (text.size() < size) return 0;
  // The first continuation byte is limited further after four of the leads; the others are 80..bf.
  unsigned low = lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80;
  unsigned high = lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf;
  for (size_t i = 1; i < size; ++i) {
    if (byte_at(text, i) < low || byte_at(text, i) > high) return 0;
    low = 0x80;
    high = 0xbf;
  }
  return size;
}

std::string printable_text(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const size_t whole = utf8_character_bytes(text), bytes = whole ? whole : 1;
    if (text[0] == '\n' || text[0] == '\t' || (whole && !is_control_character(text, whole))) {
      out += text.substr(0, bytes);
    } else if (whole && byte_at(text, 0) >= 0x7f) {
      const unsigned char code = byte_at(text, bytes - 1);  // of C1 the second byte is the number
      (out += "\\u00") += {kHexDigits[code >> 4], kHexDigits[code & 15]};
    } else {
      append_escaped(out, text[0]);
    }
    text.remove_prefix(bytes);
  }
  return out;
}

std::string printable_line(std::string_view text) {
  std::string line = printable_text(text);
  for (char& c : line)
    if (c == '\n' || c == '\t') c = ' ';
  return line;
}

std::string json_quoted(std::string_view text) {
  std::string out = "\"";
  while (!text.empty()) {
    const size_t whole = utf8_character_bytes(text), bytes = whole ? whole : 1;
    const char c = text[0];
    if (!whole) out += "\xef\xbf\xbd";
    else if (c == '"' || c == '\\') (out += '\\') += c;
    else if (c == '\n') out += "\\n";
    else if (c == '\t') out += "\\t";
    else if (is_control_character(text, whole)) {
      const unsigned char code = byte_at(text, bytes - 1);
      (out += "\\u00") += {kHexDigits[code >> 4], kHexDigits[code & 15]};
    } else {
      out += text.substr(0, bytes);
    }
    text.remove_prefix(bytes);
  }
  return out += '"';
}

void say_text(std::string_view text) {
  const std::string line = "rlx: " + printable_text(text) + (text.ends_with('\n') ? "" : "\n");
  std::fwrite(line.data(), 1, line.size(), stderr);
}

}  // namespace rlx

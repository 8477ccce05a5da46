// The tokens of the textual IR; see the header.
#include "rlx/scanner.h"

#include <algorithm>

#include "base/printable_text.h"

namespace rlx {
namespace {

bool is_name_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}
bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

}  // namespace

void Scanner::skip_space() {
  for (;;) {
    while (at_ < text_.size() && is_space(text_[at_])) ++at_;
    if (!text_.substr(at_).starts_with("//")) return;
    at_ = std::min(text_.find('\n', at_), text_.size());
  }
}

bool Scanner::accept(std::string_view token) {
  skip_space();
  if (!text_.substr(at_).starts_with(token)) return false;
  at_ += token.size();
  return true;
}

void Scanner::expect(std::string_view token) {
  if (!accept(token)) unexpected(text_of("'", token, "'"));
}

bool Scanner::accept_word(std::string_view word) {
  skip_space();
  std::string_view rest = text_.substr(at_);
  if (!rest.starts_with(word) || (rest.size() > word.size() && is_name_char(rest[word.size()]))) return false;
  at_ += word.size();
  return true;
}

char Scanner::peek() {
  skip_space();
  return at_ < text_.size() ? text_[at_] : '\0';
}

std::string_view Scanner::word() {
  skip_space();
  size_t end = at_;
  while (end < text_.size() && is_name_char(text_[end])) ++end;
  if (end == at_) unexpected("a name");
  std::string_view found = text_.substr(at_, end - at_);
  at_ = end;
  return found;
}

std::string Scanner::quoted() {
  expect("\"");
  std::string out;
  for (;; ++at_) {
    if (at_ >= text_.size() || text_[at_] == '\n') unexpected("a closing quote");
    char c = text_[at_];
    if (c == '"') break;
    if (c != '\\') {
      out += c;
      continue;
    }
    char escape = ++at_ < text_.size() ? text_[at_] : '\0';
    if (escape == 'n') out += '\n';
    else if (escape == 't') out += '\t';
    else if (escape == '"' || escape == '\\') out += escape;
    else if (escape == 'x' && at_ + 2 < text_.size()) {
      unsigned code = 0;
      auto [end, error] = std::from_chars(text_.data() + at_ + 1, text_.data() + at_ + 3, code, 16);
      if (error != std::errc{} || end != text_.data() + at_ + 3) unexpected("two hexadecimal digits");
      out += static_cast<char>(code);
      at_ += 2;
    } else {
      unexpected("an escape: \\n, \\t, \\\", \\\\ or \\xNN");
    }
  }
  ++at_;
  return out;
}

int64_t Scanner::line() const {
  return 1 + std::count(text_.begin(), text_.begin() + static_cast<std::ptrdiff_t>(std::min(at_, text_.size())), '\n');
}

void Scanner::unexpected(const std::string& wanted) const {
  std::ostringstream here;
  if (at_ >= text_.size()) here << "the end of the text";
  else if (text_[at_] == '\n') here << "the end of the line";
  else write_quoted(here, text_.substr(at_, std::min<size_t>(24, text_.find('\n', at_) - at_)));
  fail(ErrorCode::parse, "line ", line(), ": expected ", wanted, " before ", here.str());
}

void write_quoted(std::ostream& out, std::string_view text) {
  out << '"';
  while (!text.empty()) {
    const size_t whole = utf8_character_bytes(text), bytes = whole ? whole : 1;
    const char c = text[0];
    if (c == '\n') out << "\\n";
    else if (c == '\t') out << "\\t";
    else if (c == '"' || c == '\\') out << '\\' << c;
    else if (whole && !is_control_character(text, whole)) out << text.substr(0, bytes);
    else {
      std::string escaped;
      for (const char byte : text.substr(0, bytes)) append_escaped(escaped, byte);
      out << escaped;
    }
    text.remove_prefix(bytes);
  }
  out << '"';
}

}  // namespace rlx

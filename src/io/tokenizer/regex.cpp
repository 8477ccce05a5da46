// PCRE2 behind the interface of the header.
#define PCRE2_CODE_UNIT_WIDTH 8
#include "io/tokenizer/regex.h"

#include <pcre2.h>

#include <algorithm>

#include "io/tokenizer/utf8.h"
#include "rlx/error.h"

namespace rlx::tokenizer {
namespace {

constexpr size_t kMaxPatternBytes = 1 << 16;
// Of one match. The patterns of known tokenizers need a few steps a byte of the word that they find.
constexpr uint32_t kMatchSteps = 1 << 22;
constexpr uint32_t kHeapKiB = 1 << 16;

// What stands in a set for what Oniguruma knows by a letter. White space is White_Space of Unicode: PCRE2's \s has
// U+180E as well, which is none since Unicode 6.3. Marks are word characters.
constexpr std::string_view kSpaces =
    R"(\t-\r\x{20}\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000})";
constexpr std::string_view kAllButSpaces =
    R"(\x{0}-\x{8}\x{e}-\x{1f}\x{21}-\x{84}\x{86}-\x{9f}\x{a1}-\x{167f}\x{1681}-\x{1fff}\x{200b}-\x{2027})"
    R"(\x{202a}-\x{202e}\x{2030}-\x{205e}\x{2060}-\x{2fff}\x{3001}-\x{10ffff})";
constexpr std::string_view kWord = R"(\p{L}\p{M}\p{N}\p{Pc})";
constexpr std::string_view kHex = "0-9a-fA-F";
constexpr std::string_view kAllButHex = R"(\x{0}-/:-@G-`g-\x{10ffff})";

/// A pattern of Oniguruma's as PCRE2 reads it.
class Translation {
 public:
  explicit Translation(std::string_view pattern) : pattern_(pattern) {}

  std::string text() {
    while (at_ < pattern_.size()) {
      char c = pattern_[at_];
      if (c == '\\') escape();
      else if (in_set_) inside_set(c);
      else if (c == '[') open_set();
      else put(1);
    }
    return std::move(out_);
  }

 private:
  void put(size_t count) {
    out_ += pattern_.substr(at_, count);
    at_ += count;
  }

  void open_set() {
    in_set_ = true;
    put(1);
    if (at_ < pattern_.size() && pattern_[at_] == '^') put(1);
    if (at_ < pattern_.size() && pattern_[at_] == ']') put(1);
  }

  void inside_set(char c) {
    std::string_view rest = pattern_.substr(at_);
    if (rest.starts_with("[:")) {
      size_t end = rest.find(":]");
      return put(end == rest.npos ? rest.size() : end + 2);
    }
    if (c == '[' || rest.starts_with("&&"))
      fail(ErrorCode::unsupported, "the pattern has a set inside of a set, at byte ", at_, ": '",
           std::string(rest.substr(0, 20)), "'; write it as one set");
    in_set_ = c != ']';
    put(1);
  }

  void escape() {
    char c = at_ + 1 < pattern_.size() ? pattern_[at_ + 1] : '\0';
    const auto replace = [&](std::string_view set, bool complement = false, std::string_view others = {}) {
      if (in_set_) out_ += complement ? others : set;
      else (out_ += complement ? "[^" : "[").append(set) += ']';
      at_ += 2;
    };
    switch (c) {
      case 's': return replace(kSpaces);
      case 'S': return replace(kSpaces, true, kAllButSpaces);
      case 'w': return replace(kWord);
      case 'W':
        if (in_set_)
          fail(ErrorCode::unsupported, "the pattern has \\W inside of a set, at byte ", at_,
               "; write the complement of the set, with \\w in it");
        return replace(kWord, true);
      case 'h': return replace(kHex);
      case 'H': return replace(kHex, true, kAllButHex);
      case 'u':
        if (at_ + 6 > pattern_.size()) return put(2);
        out_ += "\\x{" + std::string(pattern_.substr(at_ + 2, 4)) + "}";
        at_ += 6;
        return;
      default: return put(std::min<size_t>(2, pattern_.size() - at_));
    }
  }

  std::string_view pattern_;
  std::string out_;
  size_t at_ = 0;
  bool in_set_ = false;
};

std::string message_of(int error) {
  PCRE2_UCHAR text[256] = {};
  pcre2_get_error_message(error, text, sizeof text);
  return reinterpret_cast<const char*>(text);
}

}  // namespace

struct Regex::Compiled {
  pcre2_code* code = nullptr;
  pcre2_match_context* context = nullptr;
  ~Compiled() {
    pcre2_match_context_free(context);
    pcre2_code_free(code);
  }
};

Regex::Regex(std::string_view pattern) : shown_(pattern.substr(0, 60)) {
  if (pattern.size() > kMaxPatternBytes)
    fail(ErrorCode::unsupported, "the pattern '", shown_, "...' has ", pattern.size(), " bytes, more than the ",
         kMaxPatternBytes, " that one may have");
  if (valid_utf8_prefix(pattern) < pattern.size()) fail(ErrorCode::parse, "a pattern is not UTF-8");
  std::string text = Translation(pattern).text();
  auto compiled = std::make_unique<Compiled>();
  int error = 0;
  PCRE2_SIZE offset = 0;
  // Lines end at "\n", and "$" stands before each: so Oniguruma reads what it calls Ruby's syntax.
  struct CompileContext {
    pcre2_compile_context* context = pcre2_compile_context_create(nullptr);
    ~CompileContext() { pcre2_compile_context_free(context); }
  } compile;
  if (compile.context) pcre2_set_newline(compile.context, PCRE2_NEWLINE_LF);
  compiled->code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(),
                                 PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C, &error, &offset,
                                 compile.context);
  if (!compiled->code)
    fail(ErrorCode::unsupported, "the pattern '", shown_, "' cannot be compiled: ", message_of(error), ", at byte ",
         offset, " of '", text.substr(0, 120), "'");
  // Without machine code (a platform or a policy that forbids it) the interpreter does the same, more slowly.
  (void)pcre2_jit_compile(compiled->code, PCRE2_JIT_COMPLETE);
  compiled->context = pcre2_match_context_create(nullptr);
  if (!compiled->context) fail(ErrorCode::out_of_memory, "there is no memory to match a pattern");
  pcre2_set_match_limit(compiled->context, kMatchSteps);
  pcre2_set_heap_limit(compiled->context, kHeapKiB);
  compiled_ = std::move(compiled);
}

Regex::~Regex() = default;

void Regex::find(std::string_view text, std::vector<ByteRange>& matches) const {
  std::unique_ptr<pcre2_match_data, decltype(&pcre2_match_data_free)> data(
      pcre2_match_data_create_from_pattern(compiled_->code, nullptr), pcre2_match_data_free);
  if (!data) fail(ErrorCode::out_of_memory, "there is no memory to match a pattern");
  auto subject = reinterpret_cast<PCRE2_SPTR>(text.data() ? text.data() : "");
  size_t last_end = std::string_view::npos;
  for (size_t at = 0; at <= text.size();) {
    int found =
        pcre2_match(compiled_->code, subject, text.size(), at, PCRE2_NO_UTF_CHECK, data.get(), compiled_->context);
    if (found == PCRE2_ERROR_JIT_STACKLIMIT)
      found = pcre2_match(compiled_->code, subject, text.size(), at, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, data.get(),
                          compiled_->context);
    if (found == PCRE2_ERROR_NOMATCH) return;
    if (found < 0)
      fail(ErrorCode::unsupported, "the search for the pattern '", shown_, "' in a text of ", text.size(),
           " bytes was given up at byte ", at, ": ", message_of(found));
    const PCRE2_SIZE* place = pcre2_get_ovector_pointer(data.get());
    size_t begin = place[0], end = place[1];
    if (end < begin || begin < at)
      fail(ErrorCode::unsupported, "the pattern '", shown_, "' matches before where it begins");
    if (begin == end && end == last_end) {  // Oniguruma's users skip what is empty and touches the match before
      at += at < text.size() ? utf8_size(text[at]) : 1;
      continue;
    }
    matches.push_back({static_cast<uint32_t>(begin), static_cast<uint32_t>(end)});
    at = last_end = end;
  }
}

}  // namespace rlx::tokenizer

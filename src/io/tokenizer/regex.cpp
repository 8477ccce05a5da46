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
constexpr uint32_t kHeapKiB = 1 << 16;

/// The steps that a match may take at each place of a text where it may begin. PCRE2 counts them anew at each place, so
/// a limit alone does not bound a search; this one falls with the size of the text, so that all places together take
/// 2^32 steps at most, some seconds, and in texts above 256 KiB 2^14 a byte. Patterns of known tokenizers take some
/// tens a place, and as many as a run of digits has where they look ahead to its end.
uint32_t most_steps(size_t text_bytes) {
  constexpr uint64_t kAllTogether = uint64_t{1} << 32, kLeast = 1 << 14, kMost = 1 << 20;
  return static_cast<uint32_t>(std::clamp(kAllTogether / (text_bytes + 1), kLeast, kMost));
}

// What stands in a set for what Oniguruma knows by a letter. White space is White_Space of Unicode: PCRE2's \s has
// U+180E as well, which is none since Unicode 6.3. Word characters are those of Unicode's UTS 18: what is Alphabetic
// (with the circled letters, which are no letters by category), marks, decimal digits and connectors, but no other
// numbers than those of Latin-1, of which Oniguruma has a table of its own.
constexpr std::string_view kSpaces =
    R"(\t-\r\x{20}\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000})";
constexpr std::string_view kAllButSpaces =
    R"(\x{0}-\x{8}\x{e}-\x{1f}\x{21}-\x{84}\x{86}-\x{9f}\x{a1}-\x{167f}\x{1681}-\x{1fff}\x{200b}-\x{2027})"
    R"(\x{202a}-\x{202e}\x{2030}-\x{205e}\x{2060}-\x{2fff}\x{3001}-\x{10ffff})";
constexpr std::string_view kWord = R"(\p{L}\p{M}\p{Nd}\p{Nl}\p{Pc}\x{b2}\x{b3}\x{b9}\x{bc}-\x{be})"
                                   R"(\x{24b6}-\x{24e9}\x{1f130}-\x{1f149}\x{1f150}-\x{1f169}\x{1f170}-\x{1f189})";
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

  /// Between a word character and something else, or not so: PCRE2 has word characters of its own.
  void boundary(bool is_one) {
    const std::string word = "[" + std::string(kWord) + "]";
    out_ += is_one ? "(?:(?<=" + word + ")(?!" + word + ")|(?<!" + word + ")(?=" + word + "))"
                   : "(?:(?<=" + word + ")(?=" + word + ")|(?<!" + word + ")(?!" + word + "))";
    at_ += 2;
  }

  void escape() {
    char c = at_ + 1 < pattern_.size() ? pattern_[at_ + 1] : '\0';
    const auto replace = [&](std::string_view set, bool complement = false, std::string_view others = {}) {
      if (in_set_) out_ += complement ? others : set;
      else (out_ += complement ? "[^" : "[").append(set) += ']';
      at_ += 2;
    };
    switch (c) {
      case 'b':
      case 'B': return in_set_ ? put(2) : boundary(c == 'b');
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
  ~Compiled() { pcre2_code_free(code); }
};

/// What PCRE2 needs to search one text.
class Regex::Search {
 public:
  Search(const Compiled& compiled, std::string_view text)
      : code_(compiled.code), text_(text),
        data_(pcre2_match_data_create_from_pattern(code_, nullptr), pcre2_match_data_free),
        context_(pcre2_match_context_create(nullptr), pcre2_match_context_free) {
    if (!data_ || !context_) fail(ErrorCode::out_of_memory, "there is no memory to match a pattern");
    pcre2_set_heap_limit(context_.get(), kHeapKiB);
    pcre2_set_match_limit(context_.get(), most_steps(text.size()));
  }

  /// PCRE2's result for the first match that begins at `at` or behind it.
  int next(size_t at) {
    auto subject = reinterpret_cast<PCRE2_SPTR>(text_.data() ? text_.data() : "");
    const auto run = [&](uint32_t options) {
      return pcre2_match(code_, subject, text_.size(), at, PCRE2_NO_UTF_CHECK | options, data_.get(), context_.get());
    };
    const int found = run(0);
    return found == PCRE2_ERROR_JIT_STACKLIMIT ? run(PCRE2_NO_JIT) : found;
  }
  ByteRange range() const {
    const PCRE2_SIZE* place = pcre2_get_ovector_pointer(data_.get());
    return {static_cast<uint32_t>(place[0]), static_cast<uint32_t>(place[1])};
  }

 private:
  const pcre2_code* code_;
  std::string_view text_;
  std::unique_ptr<pcre2_match_data, decltype(&pcre2_match_data_free)> data_;
  std::unique_ptr<pcre2_match_context, decltype(&pcre2_match_context_free)> context_;
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
  // Without machine code (a platform or a policy that forbids it) the interpreter does the same, more slowly and
  // in more steps.
  (void)pcre2_jit_compile(compiled->code, PCRE2_JIT_COMPLETE);
  compiled_ = std::move(compiled);
}

Regex::~Regex() = default;

void Regex::find(std::string_view text, std::vector<ByteRange>& matches) const {
  Search search(*compiled_, text);
  size_t last_end = std::string_view::npos;
  for (size_t at = 0; at <= text.size();) {
    const int found = search.next(at);
    if (found == PCRE2_ERROR_NOMATCH) return;
    if (found == PCRE2_ERROR_MATCHLIMIT)
      fail(ErrorCode::unsupported, "the search for the pattern '", shown_, "' in a text of ", text.size(),
           " bytes was given up behind byte ", at, ": a match there takes more than ", most_steps(text.size()),
           " steps");
    if (found < 0)
      fail(ErrorCode::unsupported, "the search for the pattern '", shown_, "' in a text of ", text.size(),
           " bytes was given up behind byte ", at, ": ", message_of(found));
    const ByteRange match = search.range();
    if (match.end < match.begin || match.begin < at)
      fail(ErrorCode::unsupported, "the pattern '", shown_, "' matches before where it begins");
    if (match.begin == match.end && match.end == last_end) {
      // Oniguruma's users skip what is empty and touches the match before.
      at += at < text.size() ? utf8_size(text[at]) : 1;
      continue;
    }
    matches.push_back(match);
    at = last_end = match.end;
  }
}

}  // namespace rlx::tokenizer

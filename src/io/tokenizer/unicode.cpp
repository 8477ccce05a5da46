// Classes, lower case, decomposition and combining classes of code points; see the header for the versions, and
// unicode_later.h for what utf8proc has otherwise.
#include "io/tokenizer/unicode.h"

#include <algorithm>
#include <iterator>
#include <span>
#include <vector>

#include <utf8proc.h>

#include "io/tokenizer/unicode_categories.h"
#include "io/tokenizer/unicode_later.h"

namespace rlx::tokenizer {
namespace {

// White_Space of PropList.txt, unchanged since Unicode 6.3.
constexpr CodePointRange kWhitespaces[] = {
    {0x09, 0x0d},     {0x20, 0x20},     {0x85, 0x85},     {0xa0, 0xa0},     {0x1680, 0x1680},
    {0x2000, 0x200a}, {0x2028, 0x2029}, {0x202f, 0x202f}, {0x205f, 0x205f}, {0x3000, 0x3000},
};
constexpr CodePointRange kAsciiPunctuations[] = {{0x21, 0x2f}, {0x3a, 0x40}, {0x5b, 0x60}, {0x7b, 0x7e}};
constexpr CodePointRange kAsciiControls[] = {{0x00, 0x08}, {0x0b, 0x0c}, {0x0e, 0x1f}, {0x7f, 0x7f}};
// BERT's list (tokenization.py, _is_chinese_char) as the tokenizers package has it: without U+2B820..2B91F.
constexpr CodePointRange kCjkIdeographs[] = {
    {0x3400, 0x4dbf},   {0x4e00, 0x9fff},   {0xf900, 0xfaff},   {0x20000, 0x2a6df},
    {0x2a700, 0x2b73f}, {0x2b740, 0x2b81f}, {0x2b920, 0x2ceaf}, {0x2f800, 0x2fa1f},
};

template <class Range>
const Range* find_range(std::span<const Range> ranges, char32_t code) {
  auto at = std::partition_point(ranges.begin(), ranges.end(), [&](const Range& range) { return range.last < code; });
  return at != ranges.end() && at->first <= code ? &*at : nullptr;
}
bool contains(std::span<const CodePointRange> ranges, char32_t code) { return find_range(ranges, code) != nullptr; }

int decompose_as(char32_t code, char32_t* out, int room, int options) {
  utf8proc_int32_t parts[kMaxCompatibility];
  int boundary = 0;
  utf8proc_ssize_t count = utf8proc_decompose_char(static_cast<utf8proc_int32_t>(code), parts, room,
                                                   static_cast<utf8proc_option_t>(options), &boundary);
  if (count < 1 || count > room || (count > 1 && contains(kLaterDecompositions, code))) {
    out[0] = code;
    return 1;
  }
  std::copy(parts, parts + count, out);
  return static_cast<int>(count);
}

// One byte for each code point of the planes that text is made of; the higher ones hold few classes and are searched.
constexpr char32_t kTabulated = 0x20000;

std::vector<CharClass> tabulate_classes() {
  std::vector<CharClass> table(kTabulated);
  auto mark = [&](std::span<const CodePointRange> ranges, CharClass bit) {
    for (CodePointRange range : ranges)
      for (uint32_t code = range.first; code <= range.last && code < kTabulated; ++code)
        table[code] = static_cast<CharClass>(table[code] | bit);
  };
  mark(kWhitespaces, kWhitespace);
  mark(kAsciiControls, kControl);
  mark(others(), kControl);
  mark(nonspacing_marks(), kNonspacingMark);
  mark(kAsciiPunctuations, kPunctuation);
  mark(punctuations(), kPunctuation);
  mark(kCjkIdeographs, kCjkIdeograph);
  return table;
}

}  // namespace

CharClass class_of(char32_t code) {
  static const std::vector<CharClass> table = tabulate_classes();
  if (code < kTabulated) return table[code];
  int bits = (contains(others(), code) ? kControl : 0) | (contains(nonspacing_marks(), code) ? kNonspacingMark : 0) |
             (contains(kCjkIdeographs, code) ? kCjkIdeograph : 0);
  return static_cast<CharClass>(bits);
}

bool is_word_character(char32_t code) {
  // \p{Alphabetic}\p{M}\p{Nd}\p{Pc}\p{Join_Control} (UTS #18, annex C): the alphabetic ones that are no
  // letters, numbers or marks are the circled and squared letters.
  constexpr CodePointRange kAlphabeticSymbols[] = {
      {0x200c, 0x200d}, {0x24b6, 0x24e9}, {0x1f130, 0x1f149}, {0x1f150, 0x1f169}, {0x1f170, 0x1f189}};
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(code))) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_PC: return true;
    default: return contains(kAlphabeticSymbols, code) || contains(kLaterWordCharacters, code);
  }
}

int lowercase(char32_t code, char32_t* out) {
  if (code == 0x130) {  // the one unconditional entry of SpecialCasing.txt: i and a dot above
    out[0] = 'i';
    out[1] = 0x307;
    return 2;
  }
  out[0] = static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(code)));
  if (out[0] == code && code >= kLaterLowerCases[0].first)
    if (const LowerCase* later = find_range<LowerCase>(kLaterLowerCases, code))
      out[0] = later->lower + (code - later->first);
  return 1;
}

int decompose(char32_t code, char32_t* out) { return decompose_as(code, out, kMaxDecomposition, UTF8PROC_DECOMPOSE); }

int decompose_compatibly(char32_t code, char32_t* out) {
  return decompose_as(code, out, kMaxCompatibility, UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT);
}

char32_t composed(char32_t first, char32_t second) {
  if (second < 0x300) return 0;  // nothing below combines
  utf8proc_int32_t pair[2] = {static_cast<utf8proc_int32_t>(first), static_cast<utf8proc_int32_t>(second)};
  utf8proc_ssize_t count =
      utf8proc_normalize_utf32(pair, 2, static_cast<utf8proc_option_t>(UTF8PROC_COMPOSE | UTF8PROC_STABLE));
  auto code = static_cast<char32_t>(pair[0]);
  return count == 1 && !contains(kLaterDecompositions, code) ? code : 0;
}

bool is_mark(char32_t code) {
  auto category = utf8proc_category(static_cast<utf8proc_int32_t>(code));
  if (category == UTF8PROC_CATEGORY_MN || category == UTF8PROC_CATEGORY_MC || category == UTF8PROC_CATEGORY_ME)
    return !contains(kLaterMarks, code);
  return contains(kFormerMarks, code);
}

bool is_numeric(char32_t code) {
  auto category = utf8proc_category(static_cast<utf8proc_int32_t>(code));
  return category == UTF8PROC_CATEGORY_ND || category == UTF8PROC_CATEGORY_NL || category == UTF8PROC_CATEGORY_NO ||
         contains(kLaterNumbers, code);
}

int combining_class(char32_t code) {
  int ccc = utf8proc_get_property(static_cast<utf8proc_int32_t>(code))->combining_class;
  return ccc != 0 && contains(kLaterCombining, code) ? 0 : ccc;
}

}  // namespace rlx::tokenizer

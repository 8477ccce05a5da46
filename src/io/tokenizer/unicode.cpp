// Classes, lower case, decomposition and combining classes of code points; see the header for the versions.
#include "io/tokenizer/unicode.h"

#include <algorithm>
#include <iterator>
#include <span>
#include <vector>

#include <utf8proc.h>

#include "io/tokenizer/unicode_categories.h"

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

// Given a combining class after Unicode 9.0: 0 for the tokenizers package.
constexpr CodePointRange kLaterCombining[] = {
    {0x07fd, 0x07fd},   {0x0897, 0x089f},   {0x08ca, 0x08d3},   {0x09fe, 0x09fe},   {0x0c3c, 0x0c3c},
    {0x0d3b, 0x0d3c},   {0x0eba, 0x0eba},   {0x1715, 0x1715},   {0x1abf, 0x1aff},   {0x1df6, 0x1dfa},
    {0xa82c, 0xa82c},   {0x10d24, 0x10d27}, {0x10d69, 0x10d6d}, {0x10eab, 0x10eac}, {0x10efa, 0x10eff},
    {0x10f46, 0x10f50}, {0x10f82, 0x10f85}, {0x11070, 0x11070}, {0x1133b, 0x1133b}, {0x113ce, 0x113d0},
    {0x113e1, 0x113e2}, {0x1145e, 0x1145e}, {0x11839, 0x1183a}, {0x1193d, 0x1193e}, {0x11943, 0x11943},
    {0x119e0, 0x119e0}, {0x11a34, 0x11a34}, {0x11a47, 0x11a47}, {0x11a99, 0x11a99}, {0x11d42, 0x11d42},
    {0x11d44, 0x11d45}, {0x11d97, 0x11d97}, {0x11f41, 0x11f42}, {0x1612f, 0x1612f}, {0x16ff0, 0x16ff1},
    {0x1e08f, 0x1e08f}, {0x1e130, 0x1e136}, {0x1e2ae, 0x1e2ae}, {0x1e2ec, 0x1e2ef}, {0x1e4ec, 0x1e4ef},
    {0x1e5ee, 0x1e5ef},
};

// Decomposed by Unicode 13.0 (the first) and 16.0, not by 12.1.
constexpr CodePointRange kLaterDecompositions[] = {
    {0x105c9, 0x105c9}, {0x105e4, 0x105e4}, {0x11383, 0x11383}, {0x11385, 0x11385},
    {0x1138e, 0x1138e}, {0x11391, 0x11391}, {0x113c5, 0x113c5}, {0x113c7, 0x113c8},
    {0x11938, 0x11938}, {0x16121, 0x16128}, {0x16d68, 0x16d6a},
};

// What Unicode 15.1 and 16.0 added to the word characters of 15.0.
constexpr CodePointRange kLaterWordCharacters[] = {
    {0x897, 0x897},     {0x1c89, 0x1c8a},   {0xa7cb, 0xa7cd},   {0xa7da, 0xa7dc},   {0x105c0, 0x105f3},
    {0x10d40, 0x10d65}, {0x10d69, 0x10d6d}, {0x10d6f, 0x10d85}, {0x10ec2, 0x10ec4}, {0x10efc, 0x10efc},
    {0x11380, 0x11389}, {0x1138b, 0x1138b}, {0x1138e, 0x1138e}, {0x11390, 0x113b5}, {0x113b7, 0x113c0},
    {0x113c2, 0x113c2}, {0x113c5, 0x113c5}, {0x113c7, 0x113ca}, {0x113cc, 0x113d3}, {0x113e1, 0x113e2},
    {0x116d0, 0x116e3}, {0x11bc0, 0x11be0}, {0x11bf0, 0x11bf9}, {0x11f5a, 0x11f5a}, {0x13460, 0x143fa},
    {0x16100, 0x16139}, {0x16d40, 0x16d6c}, {0x16d70, 0x16d79}, {0x18cff, 0x18cff}, {0x1ccf0, 0x1ccf9},
    {0x1e5d0, 0x1e5fa}, {0x2ebf0, 0x2ee5d},
};

// Marks since Unicode 9.0: none for the tokenizers package. And two that Unicode 12.0 made letters, which it has as
// marks.
constexpr CodePointRange kLaterMarks[] = {
    {0x7fd, 0x7fd},     {0x898, 0x89f},     {0x8ca, 0x8d3},     {0x9fe, 0x9fe},     {0xafa, 0xaff},
    {0xb55, 0xb55},     {0xc04, 0xc04},     {0xc3c, 0xc3c},     {0xcf3, 0xcf3},     {0xd00, 0xd00},
    {0xd3b, 0xd3c},     {0xd81, 0xd81},     {0xeba, 0xeba},     {0xece, 0xece},     {0x1715, 0x1715},
    {0x180f, 0x180f},   {0x1abf, 0x1ace},   {0x1cf7, 0x1cf7},   {0x1df6, 0x1dfa},   {0xa82c, 0xa82c},
    {0xa8ff, 0xa8ff},   {0x10d24, 0x10d27}, {0x10eab, 0x10eac}, {0x10efd, 0x10eff}, {0x10f46, 0x10f50},
    {0x10f82, 0x10f85}, {0x11070, 0x11070}, {0x11073, 0x11074}, {0x110c2, 0x110c2}, {0x11145, 0x11146},
    {0x111c9, 0x111c9}, {0x111ce, 0x111cf}, {0x11241, 0x11241}, {0x1133b, 0x1133b}, {0x1145e, 0x1145e},
    {0x1182c, 0x1183a}, {0x11930, 0x11935}, {0x11937, 0x11938}, {0x1193b, 0x1193e}, {0x11940, 0x11940},
    {0x11942, 0x11943}, {0x119d1, 0x119d7}, {0x119da, 0x119e0}, {0x119e4, 0x119e4}, {0x11a01, 0x11a0a},
    {0x11a33, 0x11a39}, {0x11a3b, 0x11a3e}, {0x11a47, 0x11a47}, {0x11a51, 0x11a5b}, {0x11a8a, 0x11a99},
    {0x11d31, 0x11d36}, {0x11d3a, 0x11d3a}, {0x11d3c, 0x11d3d}, {0x11d3f, 0x11d45}, {0x11d47, 0x11d47},
    {0x11d8a, 0x11d8e}, {0x11d90, 0x11d91}, {0x11d93, 0x11d97}, {0x11ef3, 0x11ef6}, {0x11f00, 0x11f01},
    {0x11f03, 0x11f03}, {0x11f34, 0x11f3a}, {0x11f3e, 0x11f42}, {0x13440, 0x13440}, {0x13447, 0x13455},
    {0x16f4f, 0x16f4f}, {0x16f7f, 0x16f87}, {0x16fe4, 0x16fe4}, {0x16ff0, 0x16ff1}, {0x1cf00, 0x1cf2d},
    {0x1cf30, 0x1cf46}, {0x1e08f, 0x1e08f}, {0x1e130, 0x1e136}, {0x1e2ae, 0x1e2ae}, {0x1e2ec, 0x1e2ef},
    {0x1e4ec, 0x1e4ef},
};
constexpr CodePointRange kFormerMarks[] = {{0x1cf2, 0x1cf3}};

// What Unicode 16.0 and 17.0 added to the numbers of 15.0.
constexpr CodePointRange kLaterNumbers[] = {
    {0x10d40, 0x10d49}, {0x116d0, 0x116e3}, {0x11bf0, 0x11bf9}, {0x11de0, 0x11de9}, {0x16130, 0x16139},
    {0x16d70, 0x16d79}, {0x16ff4, 0x16ff6}, {0x1ccf0, 0x1ccf9}, {0x1e5f1, 0x1e5fa},
};

struct LowerCase {
  uint32_t first, last, lower;  ///< `first` becomes `lower`, the next ones the next ones
};
// What Unicode 16.0 and 17.0 added to the lower cases of 15.0.
constexpr LowerCase kLaterLowerCases[] = {
    {0x1c89, 0x1c89, 0x1c8a},    {0xa7cb, 0xa7cb, 0x0264},    {0xa7cc, 0xa7cc, 0xa7cd}, {0xa7ce, 0xa7ce, 0xa7cf},
    {0xa7d2, 0xa7d2, 0xa7d3},    {0xa7d4, 0xa7d4, 0xa7d5},    {0xa7da, 0xa7da, 0xa7db}, {0xa7dc, 0xa7dc, 0x019b},
    {0x10d50, 0x10d65, 0x10d70}, {0x16ea0, 0x16eb8, 0x16ebb},
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

// What the tokenizer asks about a code point: its class, its lower case, its canonical decomposition.
//
// The judge is the Python package `tokenizers` (0.23.3), whose parts follow different versions of Unicode:
// general categories are those of 8.0, combining classes those of 9.0, decompositions those of 12.1, word
// characters those of 16.0, numbers and lower case those of 17.0. A model was trained on the pieces that those tables
// gave, so newer tables would be wrong here. Categories stand in unicode_categories.cpp; the rest comes from
// utf8proc (2.8: Unicode 15.0), with what was added to Unicode later or too late listed in unicode_later.h.
// tests/golden/tokenizer/codepoints.txt holds every code point to it, marks and numbers too.
#pragma once

#include <cstdint>

namespace rlx::tokenizer {

using CharClass = uint8_t;
constexpr CharClass kWhitespace = 1;  ///< White_Space
constexpr CharClass kControl = 2;  ///< Cc, Cf, Co, but not tab, line feed, carriage return: the text is cleaned of them
constexpr CharClass kNonspacingMark = 4;  ///< Mn
constexpr CharClass kPunctuation = 8;     ///< P*, and the ASCII symbols
constexpr CharClass kCjkIdeograph = 16;   ///< the blocks that BERT's tokenizer puts spaces around

CharClass class_of(char32_t code);

/// Letters, marks, decimal digits, connectors: `\w` of a regular expression.
bool is_word_character(char32_t code);

/// Writes the lower case of `code` and returns how many code points it has: 1, or 2 for U+0130.
int lowercase(char32_t code, char32_t* out);

/// Writes the canonical decomposition of `code`, at most kMaxDecomposition code points, and returns their number.
int decompose(char32_t code, char32_t* out);
constexpr int kMaxDecomposition = 8;

/// The same for the compatibility decomposition, of at most kMaxCompatibility.
int decompose_compatibly(char32_t code, char32_t* out);
constexpr int kMaxCompatibility = 20;

/// The code point that canonically decomposes into these two and is composed of them; 0 if there is none.
char32_t composed(char32_t first, char32_t second);

/// M* of Unicode 9.0, N* of 17.0.
bool is_mark(char32_t code);
bool is_numeric(char32_t code);

/// The canonical combining class; 0 begins a new sequence.
int combining_class(char32_t code);

}  // namespace rlx::tokenizer

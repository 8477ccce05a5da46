// The general categories that the tokenizer tells apart, as ranges of code points of Unicode 8.0.
#pragma once

#include <cstdint>
#include <span>

namespace rlx::tokenizer {

struct CodePointRange {
  uint32_t first, last;
};

std::span<const CodePointRange> nonspacing_marks();  ///< Mn
std::span<const CodePointRange> punctuations();      ///< P*
std::span<const CodePointRange> others();            ///< Cc, Cf, Co

}  // namespace rlx::tokenizer

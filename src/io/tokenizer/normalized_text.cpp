// Text with its alignment to the input; see the header.
#include "io/tokenizer/normalized_text.h"

#include "io/tokenizer/utf8.h"

namespace rlx::tokenizer {

std::string& NormalizedText::assign(std::string_view text, uint32_t origin) {
  text_ = text;
  sources_.clear();
  origin_ = origin;
  return text_;
}

void NormalizedText::clear() {
  text_.clear();
  sources_.clear();
}

void NormalizedText::append(char32_t code, ByteRange source) {
  append_utf8(text_, code);
  sources_.resize(text_.size(), source);
}

}  // namespace rlx::tokenizer

// Text with its alignment to the input; see the header.
#include "io/tokenizer/normalized_text.h"

#include "io/tokenizer/utf8.h"
#include "rlx/error.h"

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
  origin_ = 0;
}

void NormalizedText::require_room(size_t bytes) const {
  if (bytes > kMaxTextBytes - text_.size())
    fail(ErrorCode::unsupported, "a normalized text has more than the ", kMaxTextBytes,
         " bytes that a tokenizer takes at once; encode the text in parts");
}

void NormalizedText::append(char32_t code, ByteRange source) {
  require_room(4);
  append_utf8(text_, code);
  sources_.resize(text_.size(), source);
}

void NormalizedText::append(std::string_view text, ByteRange source) {
  require_room(text.size());
  text_ += text;
  sources_.resize(text_.size(), source);
}

void NormalizedText::trace_through(const NormalizedText& before) {
  if (sources_.empty() && before.sources_.empty()) {
    origin_ += before.origin_;
    return;
  }
  if (sources_.empty()) {
    sources_.resize(text_.size());
    for (uint32_t i = 0; i < text_.size(); ++i) sources_[i] = {origin_ + i, origin_ + i + 1};
  }
  for (ByteRange& source : sources_) {
    if (source.begin < source.end) {
      source = before.source_of(source);
    } else {  // what was put in stands for nothing, at a place
      uint32_t at = before.text_.empty()                 ? before.origin_
                    : source.begin < before.text_.size() ? before.source_of({source.begin, source.begin + 1}).begin
                                                         : before.source_of({source.begin - 1, source.begin}).end;
      source = {at, at};
    }
  }
}

NormalizedText NormalizedText::part(ByteRange range) const {
  NormalizedText out;
  out.text_ = text_.substr(range.begin, range.end - range.begin);
  out.origin_ = origin_ + range.begin;
  if (!sources_.empty()) out.sources_.assign(sources_.begin() + range.begin, sources_.begin() + range.end);
  return out;
}

}  // namespace rlx::tokenizer

// A piece of text after normalization, which remembers for each byte what part of the input it stands for.
// Normalizers write it; pre-tokenizers and added tokens read it; the tokenizer turns its ranges into offsets
// in the input.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace rlx::tokenizer {

/// Bytes that a text may have, before and after it is normalized: what is counted in 32 bits stays far from their end.
constexpr size_t kMaxTextBytes = size_t{1} << 30;

/// Bytes [begin, end) of some text.
struct ByteRange {
  uint32_t begin = 0, end = 0;
  bool operator==(const ByteRange&) const = default;
};

class NormalizedText {
 public:
  std::string_view text() const { return text_; }

  /// Begins anew with text whose byte i stands for byte `origin + i` of the input; the caller may change
  /// bytes of the result, one by one.
  std::string& assign(std::string_view text, uint32_t origin);

  /// Begins anew with nothing, to be filled by append().
  void clear();
  void append(char32_t code, ByteRange source);
  /// Several code points that stand for the same.
  void append(std::string_view text, ByteRange source);
  /// The sources of this text are places in `before`; what they stand for takes their place.
  void trace_through(const NormalizedText& before);
  /// A part as a text of its own.
  NormalizedText part(ByteRange range) const;

  /// What a range of text(), not empty, stands for.
  ByteRange source_of(ByteRange range) const {
    if (sources_.empty()) return {origin_ + range.begin, origin_ + range.end};
    return {sources_[range.begin].begin, std::max(sources_[range.begin].begin, sources_[range.end - 1].end)};
  }

 private:
  void require_room(size_t bytes) const;

  std::string text_;
  // One for each byte of text_; empty while each byte stands for itself, as in most English text.
  std::vector<ByteRange> sources_;
  uint32_t origin_ = 0;
};

}  // namespace rlx::tokenizer

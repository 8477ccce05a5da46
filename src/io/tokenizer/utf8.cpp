// Reading, writing and repairing UTF-8; see the header. Well-formed sequences are those of table 3-7 of the
// Unicode Standard: no overlong forms, no surrogates, nothing past U+10FFFF.
#include "io/tokenizer/utf8.h"

#include <cstring>

namespace rlx::tokenizer {
namespace {

struct Sequence {
  size_t size;    ///< the bytes of the code point, or of the part of one that is there
  bool complete;  ///< whether it is a whole code point
};

Sequence sequence_at(std::string_view text, size_t at) {
  auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  unsigned lead = byte(at);
  if (lead < 0x80) return {1, true};
  if (lead < 0xc2 || lead > 0xf4) return {1, false};
  size_t size = lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
  // The first continuation byte is limited further after four of the leads; the others are 80..bf.
  unsigned low = lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80;
  unsigned high = lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf;
  for (size_t i = 1; i < size; ++i) {
    if (at + i >= text.size() || byte(at + i) < low || byte(at + i) > high) return {i, false};
    low = 0x80;
    high = 0xbf;
  }
  return {size, true};
}

size_t ascii_prefix(std::string_view text, size_t at) {
  for (; at + 8 <= text.size(); at += 8) {
    uint64_t word;
    std::memcpy(&word, text.data() + at, 8);
    if (word & 0x8080808080808080u) break;
  }
  while (at < text.size() && static_cast<unsigned char>(text[at]) < 0x80) ++at;
  return at;
}

}  // namespace

bool is_ascii(std::string_view text) { return ascii_prefix(text, 0) == text.size(); }

size_t valid_utf8_prefix(std::string_view text) {
  size_t at = 0;
  for (;;) {
    at = ascii_prefix(text, at);
    if (at == text.size()) return at;
    Sequence sequence = sequence_at(text, at);
    if (!sequence.complete) return at;
    at += sequence.size;
  }
}

void append_utf8(std::string& out, char32_t code) {
  auto put = [&](char32_t byte) { out.push_back(static_cast<char>(byte)); };
  if (code < 0x80) {
    put(code);
  } else if (code < 0x800) {
    put(0xc0 | code >> 6);
    put(0x80 | (code & 0x3f));
  } else if (code < 0x10000) {
    put(0xe0 | code >> 12);
    put(0x80 | (code >> 6 & 0x3f));
    put(0x80 | (code & 0x3f));
  } else {
    put(0xf0 | code >> 18);
    put(0x80 | (code >> 12 & 0x3f));
    put(0x80 | (code >> 6 & 0x3f));
    put(0x80 | (code & 0x3f));
  }
}

RepairedText repair_utf8(std::string_view bytes) {
  RepairedText repaired;
  repaired.text.reserve(bytes.size() + 8);
  repaired.source.reserve(bytes.size() + 9);
  for (size_t at = 0; at < bytes.size();) {
    Sequence sequence = sequence_at(bytes, at);
    std::string_view piece = sequence.complete ? bytes.substr(at, sequence.size) : kReplacementCharacter;
    repaired.text += piece;
    repaired.source.insert(repaired.source.end(), piece.size(), static_cast<uint32_t>(at));
    at += sequence.size;
  }
  repaired.source.push_back(static_cast<uint32_t>(bytes.size()));
  return repaired;
}

}  // namespace rlx::tokenizer

// NFC, NFD, NFKC and NFKD (UAX #15), with what each code point stands for: a composed one for its starter.
#include <algorithm>
#include <vector>

#include "io/tokenizer/normalizers.h"
#include "io/tokenizer/unicode.h"
#include "io/tokenizer/utf8.h"

namespace rlx::tokenizer {
namespace {

struct Character {
  char32_t code;
  int ccc;
  ByteRange source;
};

/// A starter and the marks behind it, in canonical order; composed if asked for, and written.
class Writer {
 public:
  Writer(bool compose, NormalizedText& out) : compose_(compose), out_(out) {}

  void put(char32_t code, ByteRange source) {
    int ccc = combining_class(code);
    if (ccc == 0) order();
    // A starter may compose with the one before it (Hangul), if no mark stands between.
    if (ccc == 0 && !(compose_ && held_.size() == 1 && composes_with_starter(code))) flush();
    held_.push_back({code, ccc, source});
    if (ccc == 0 && held_.size() == 2) compose_held();
  }

  void finish() {
    order();
    flush();
  }

 private:
  bool composes_with_starter(char32_t code) const { return held_[0].ccc == 0 && composed(held_[0].code, code) != 0; }

  void order() {
    std::stable_sort(held_.begin(), held_.end(), [](const Character& a, const Character& b) { return a.ccc < b.ccc; });
    if (compose_) compose_held();
  }

  /// Each that is not blocked from the starter and composes with it, is taken into it.
  void compose_held() {
    if (held_.empty() || held_[0].ccc != 0) return;
    size_t kept = 1;
    int last = 0;  // the class of the last that was kept
    for (size_t i = 1; i < held_.size(); ++i) {
      char32_t both = last < held_[i].ccc || kept == 1 ? composed(held_[0].code, held_[i].code) : 0;
      if (both != 0) {
        held_[0].code = both;
      } else {
        last = held_[i].ccc;
        held_[kept++] = held_[i];
      }
    }
    held_.resize(kept);
  }

  void flush() {
    for (const Character& character : held_) out_.append(character.code, character.source);
    held_.clear();
  }

  bool compose_;
  NormalizedText& out_;
  std::vector<Character> held_;
};

}  // namespace

void UnicodeFormNormalizer::normalize(std::string_view text, uint32_t origin, NormalizedText& out) const {
  if (is_ascii(text)) {
    out.assign(text, origin);
    return;
  }
  out.clear();
  Writer writer(compose_, out);
  for (size_t at = 0; at < text.size();) {
    size_t next = at + utf8_size(text[at]);
    ByteRange source{static_cast<uint32_t>(origin + at), static_cast<uint32_t>(origin + next)};
    char32_t code = decode_utf8(text.data() + at);
    char32_t parts[kMaxCompatibility];
    int count = compatibility_ ? decompose_compatibly(code, parts) : decompose(code, parts);
    for (int i = 0; i < count; ++i) writer.put(parts[i], source);
    at = next;
  }
  writer.finish();
}

}  // namespace rlx::tokenizer

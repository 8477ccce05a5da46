// SentencePiece's table of characters; see the header. The table comes from a file: each step checks where it leads.
#include "io/tokenizer/charsmap.h"

#include <algorithm>
#include <utility>

#include <utf8proc.h>

#include "io/tokenizer/utf8.h"
#include "rlx/error.h"

namespace rlx::tokenizer {
namespace {

constexpr size_t kLongestCluster = 5;  // bytes; the tokenizers package looks longer ones up by character only

// Bytes of a sequence or of what it becomes; those of SentencePiece's own tables have some 30.
constexpr size_t kLongestKey = 512;

// The fields of a unit of Darts-clone's double array (Yata, darts.h, DoubleArrayUnit).
bool has_leaf(uint32_t unit) { return (unit >> 8 & 1) != 0; }
uint32_t value_of(uint32_t unit) { return unit & 0x7fffffffu; }
uint32_t label_of(uint32_t unit) { return unit & 0x800000ffu; }
uint32_t offset_of(uint32_t unit) { return unit >> 10 << ((unit & 1u << 9) >> 6); }

uint32_t read_u32(std::string_view bytes, size_t at) {
  uint32_t value = 0;
  for (size_t i = 0; i < 4; ++i) value |= static_cast<uint32_t>(static_cast<unsigned char>(bytes[at + i])) << 8 * i;
  return value;
}

}  // namespace

Charsmap::Charsmap(std::string_view bytes) {
  if (bytes.empty()) return;
  size_t size = bytes.size() >= 4 ? read_u32(bytes, 0) : 0;
  if (size == 0 || size % 4 != 0 || size > bytes.size() - 4)
    fail(ErrorCode::parse, "a normalization table of ", bytes.size(), " bytes has no room for the double array of ",
         size, " bytes that it begins with");
  for (size_t at = 4; at < 4 + size; at += 4) units_.push_back(read_u32(bytes, at));
  texts_ = bytes.substr(4 + size);
}

std::optional<Charsmap::Match> Charsmap::match(std::string_view text, bool first) const {
  std::optional<Match> found;
  if (units_.empty()) return found;
  size_t node = offset_of(units_[0]);
  // An array of a file may run in circles, and its texts without end.
  for (size_t i = 0; i < std::min(text.size(), kLongestKey); ++i) {
    auto byte = static_cast<unsigned char>(text[i]);
    node ^= byte;
    if (byte == 0 || node >= units_.size() || label_of(units_[node]) != byte) break;
    bool leaf = has_leaf(units_[node]);
    node ^= offset_of(units_[node]);
    if (node >= units_.size()) break;
    // What ends within a character matches none: who goes on behind it counts on whole ones.
    if (!leaf || (i + 1 < text.size() && (static_cast<unsigned char>(text[i + 1]) & 0xc0) == 0x80)) continue;
    size_t begin = value_of(units_[node]);
    if (begin >= texts_.size()) fail(ErrorCode::parse, "a normalization table points behind its end, to ", begin);
    size_t end = begin;
    while (end < texts_.size() && texts_[end] != '\0') {
      if (++end - begin > kLongestKey)
        fail(ErrorCode::unsupported, "a normalization table has a text of more than ", kLongestKey, " bytes");
    }
    found = Match{i + 1, std::string_view(texts_).substr(begin, end - begin)};
    if (first) break;
  }
  if (found && valid_utf8_prefix(found->text) < found->text.size())
    fail(ErrorCode::parse, "a normalization table has a text that is not UTF-8");
  return found;
}

void PrecompiledNormalizer::normalize(std::string_view text, uint32_t origin, NormalizedText& out) const {
  out.clear();
  auto source = [&](size_t at) {
    auto begin = static_cast<uint32_t>(origin + at);
    return ByteRange{begin, begin + utf8_size(text[at])};
  };
  // The characters of what text[begin, end) becomes stand for its characters in turn, and what is left for the last.
  auto replace = [&](size_t begin, size_t end, std::string_view with) {
    for (size_t at = 0; at < with.size(); at += utf8_size(with[at])) {
      out.append(with.substr(at, utf8_size(with[at])), source(begin));
      if (begin + utf8_size(text[begin]) < end) begin += utf8_size(text[begin]);
    }
  };
  for (size_t begin = 0; begin < text.size();) {
    size_t end = begin + utf8_size(text[begin]);
    utf8proc_int32_t state = 0;
    while (end < text.size() &&
           !utf8proc_grapheme_break_stateful(
               static_cast<utf8proc_int32_t>(decode_utf8(text.data() + previous_code_point(text, end))),
               static_cast<utf8proc_int32_t>(decode_utf8(text.data() + end)), &state))
      end += utf8_size(text[end]);
    std::optional<Charsmap::Match> cluster;
    if (end - begin <= kLongestCluster) cluster = map_.shortest(text.substr(begin, end - begin));
    if (cluster) {
      replace(begin, end, cluster->text);
      begin = end;
    }
    while (begin < end) {
      size_t next = begin + utf8_size(text[begin]);
      if (auto match = map_.shortest(text.substr(begin, next - begin))) replace(begin, next, match->text);
      else out.append(text.substr(begin, next - begin), source(begin));
      begin = next;
    }
  }
}

SentencePieceNormalizer::SentencePieceNormalizer(Charsmap map, SentencePieceOptions options,
                                                 std::vector<std::string> kept)
    : map_(std::move(map)), options_(options), kept_(std::move(kept)) {
  std::vector<std::pair<std::string_view, int32_t>> entries;
  for (const std::string& token : kept_)
    if (!token.empty() && valid_utf8_prefix(token) == token.size()) entries.emplace_back(token, 0);
  kept_trie_ = Trie(std::move(entries));
}

void SentencePieceNormalizer::normalize(std::string_view text, uint32_t origin, NormalizedText& out) const {
  out.clear();
  bool prefix = options_.add_space_prefix && !options_.space_is_suffix, has_prefix = false, in_word = false;
  ByteRange source{};
  for (size_t at = 0; at < text.size();) {
    std::string_view rest = text.substr(at), becomes = rest.substr(0, utf8_size(text[at]));
    size_t size = becomes.size(), kept = 0;
    kept_trie_.for_each_prefix(rest, [&](size_t bytes, int32_t) { kept = bytes; });
    if (kept > 0) {
      size = kept;
      becomes = rest.substr(0, kept);
    } else if (auto match = map_.longest(rest)) {
      size = match->size;
      becomes = match->text;
    }
    source = {static_cast<uint32_t>(origin + at), static_cast<uint32_t>(origin + at + size)};
    for (size_t i = 0; i < becomes.size();) {
      size_t next = i + utf8_size(becomes[i]);
      if (becomes[i] != ' ') {
        if (!in_word && ((prefix && !has_prefix) || options_.remove_extra_whitespaces)) {
          out.append(kSpaceMark, {source.begin, source.begin});
          has_prefix = true;
        }
        in_word = true;
        out.append(becomes.substr(i, next - i), source);
      } else {
        in_word = false;
        if (!options_.remove_extra_whitespaces) out.append(kSpaceMark, source);
      }
      i = next;
    }
    at += size;
  }
  if (options_.add_space_prefix && options_.space_is_suffix) out.append(kSpaceMark, {source.end, source.end});
}

}  // namespace rlx::tokenizer

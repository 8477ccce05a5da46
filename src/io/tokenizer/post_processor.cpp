// Applying templates; see the header.
#include "io/tokenizer/post_processor.h"

#include <algorithm>
#include <span>
#include <utility>

#include "io/tokenizer/encoding.h"
#include "rlx/error.h"

namespace rlx::tokenizer {
namespace {

constexpr std::string_view kSpaceLetter = "\xc4\xa0";  // a space in GPT-2's alphabet of bytes

bool uses(std::span<const TemplatePiece> pieces, PieceKind kind) {
  return std::any_of(pieces.begin(), pieces.end(), [&](const TemplatePiece& piece) { return piece.kind == kind; });
}

void set_type_ids(Encoding& encoding, int32_t type_id) {
  encoding.type_ids.assign(encoding.size(), type_id);
  for (Encoding& piece : encoding.overflowing) set_type_ids(piece, type_id);
}

Encoding special_tokens(const TemplatePiece& piece) {
  Encoding encoding;
  encoding.ids = piece.ids;
  encoding.tokens = piece.tokens;
  size_t count = piece.ids.size();
  encoding.type_ids.assign(count, piece.type_id);
  encoding.attention_mask.assign(count, 1);
  encoding.special_tokens_mask.assign(count, 1);
  encoding.words.assign(count, -1);
  encoding.offsets.assign(count, TextSpan{});
  return encoding;
}

}  // namespace

PostProcessor::PostProcessor(Template single, Template pair) : single_(std::move(single)), pair_(std::move(pair)) {
  if (uses(single_, PieceKind::second)) fail(ErrorCode::parse, "the template for a single text uses a second text, B");
}

PostProcessor::PostProcessor()
    : single_{{PieceKind::first, 0, {}, {}}}, pair_{{PieceKind::first, 0, {}, {}}, {PieceKind::second, 1, {}, {}}},
      has_template_(false) {}

void PostProcessor::trim_offsets(bool had_prefix_space) {
  trims_ = true;
  had_prefix_space_ = had_prefix_space;
}

bool PostProcessor::add(PostProcessor other) {
  if (other.trims_) trim_offsets(other.had_prefix_space_);
  if (!other.has_template_) return true;
  if (has_template_) return false;
  single_ = std::move(other.single_);
  pair_ = std::move(other.pair_);
  return has_template_ = true;
}

void PostProcessor::trim(Encoding& encoding) const {
  for (Encoding& piece : encoding.overflowing) trim(piece);
  for (size_t i = 0; i < encoding.size(); ++i) {
    std::string_view token = encoding.tokens[i], rest = token;
    TextSpan& span = encoding.offsets[i];
    auto count = [&](auto&& has, auto&& remove) {
      size_t spaces = 0;
      for (; has(rest, kSpaceLetter) || has(rest, " "); ++spaces)
        remove(rest, has(rest, " ") ? 1 : kSpaceLetter.size());
      return spaces;
    };
    size_t leading = count([](auto text, auto what) { return text.starts_with(what); },
                           [](auto& text, size_t size) { text.remove_prefix(size); });
    rest = token;
    size_t trailing = count([](auto text, auto what) { return text.ends_with(what); },
                            [](auto& text, size_t size) { text.remove_suffix(size); });
    if (leading > 0) {
      // One space may be the one that was put there; of more, none was.
      if ((i == 0 || span.begin == 0) && had_prefix_space_ && leading == 1) {
        leading = 0;
        if (rest.empty()) {  // a token of its own, which has the source of the character behind it
          span.end = span.begin;
          continue;
        }
      }
      span.begin = std::min(span.begin + leading, span.end);
    }
    if (trailing > 0 && span.end >= trailing) span.end = std::max(span.end - trailing, span.begin);
  }
}

size_t PostProcessor::added_tokens(bool is_pair) const {
  size_t count = 0;
  for (const TemplatePiece& piece : is_pair ? pair_ : single_) count += piece.ids.size();
  return count;
}

Encoding PostProcessor::process(Encoding first, Encoding* second, bool add_special_tokens) const {
  if (second && !(uses(pair_, PieceKind::first) && uses(pair_, PieceKind::second)))
    fail(ErrorCode::unsupported, "the tokenizer has no template for two texts that uses both");
  if (trims_) {
    trim(first);
    if (second) trim(*second);
  }
  const Template& pieces = second ? pair_ : single_;
  Encoding result;
  reserve(result, added_tokens(second != nullptr) + first.size() + (second ? second->size() : 0));
  for (auto piece = pieces.begin(); piece != pieces.end(); ++piece) {
    if (piece->kind == PieceKind::special) {
      if (add_special_tokens) append(result, special_tokens(*piece));
      continue;
    }
    Encoding& text = piece->kind == PieceKind::first ? first : *second;
    set_type_ids(text, piece->type_id);
    bool is_used_again = uses({piece + 1, pieces.end()}, piece->kind);
    append(result, is_used_again ? text : std::move(text));
  }
  return result;
}

}  // namespace rlx::tokenizer

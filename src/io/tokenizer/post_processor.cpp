// Applying templates; see the header.
#include "io/tokenizer/post_processor.h"

#include <algorithm>
#include <span>
#include <utility>

#include "io/tokenizer/encoding.h"
#include "rlx/error.h"

namespace rlx::tokenizer {
namespace {

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
    : single_{{PieceKind::first, 0, {}, {}}}, pair_{{PieceKind::first, 0, {}, {}}, {PieceKind::second, 1, {}, {}}} {}

size_t PostProcessor::added_tokens(bool is_pair) const {
  size_t count = 0;
  for (const TemplatePiece& piece : is_pair ? pair_ : single_) count += piece.ids.size();
  return count;
}

Encoding PostProcessor::process(Encoding first, Encoding* second, bool add_special_tokens) const {
  if (second && !(uses(pair_, PieceKind::first) && uses(pair_, PieceKind::second)))
    fail(ErrorCode::unsupported, "the tokenizer has no template for two texts that uses both");
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

// The way of a text through the parts of a tokenizer: added tokens, normalizer, pre-tokenizer, model,
// truncation, post-processor, padding.
#include "rlx/tokenizer.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "io/tokenizer/encoding.h"
#include "io/tokenizer/parts.h"
#include "io/tokenizer/utf8.h"
#include "rlx/error.h"

namespace rlx {
namespace {

using namespace tokenizer;

constexpr size_t kBytesPerToken = 3;  // English has some 4.5, and a little room costs less than growing
constexpr size_t kNoLimit = std::numeric_limits<size_t>::max();

/// Encodes texts without special tokens. Keeps its buffers from text to text.
class TextEncoder {
 public:
  TextEncoder(const Tokenizer::Parts& parts, bool special_in_text) : parts_(parts), special_in_text_(special_in_text) {}

  /// Words behind the first `limit` tokens are left out.
  Encoding encode(std::string_view text, size_t limit) {
    if (text.size() > kMaxTextBytes)
      fail(ErrorCode::unsupported, "a text of ", text.size(), " bytes is more than the ", kMaxTextBytes,
           " that a tokenizer takes at once; encode it in parts");
    if (valid_utf8_prefix(text) == text.size()) return encode_valid(text, limit);
    RepairedText repaired = repair_utf8(text);
    Encoding encoding = encode_valid(repaired.text, limit);
    for (TextSpan& span : encoding.offsets) span = {repaired.source[span.begin], repaired.source[span.end]};
    return encoding;
  }

 private:
  Encoding encode_valid(std::string_view text, size_t limit) {
    Encoding out;
    reserve(out, std::min(text.size() / kBytesPerToken + 8, limit));
    int32_t word = 0;
    segments_.clear();
    parts_.added_tokens->split_raw(text, segments_, special_in_text_);
    for (const Segment& segment : segments_) {
      if (out.size() >= limit) break;
      ByteRange range = segment.range;
      std::string_view part = text.substr(range.begin, range.end - range.begin);
      if (segment.id != Vocabulary::kNone) put(out, segment.id, range, word++, part);
      else encode_segment(part, range.begin, limit, word, out);
    }
    out.type_ids.assign(out.size(), 0);
    out.attention_mask.assign(out.size(), 1);
    out.special_tokens_mask.assign(out.size(), 0);
    return out;
  }

  void encode_segment(std::string_view part, uint32_t origin, size_t limit, int32_t& word, Encoding& out) {
    parts_.normalizer->normalize(part, origin, normalized_);
    std::string_view text = normalized_.text();
    normalized_segments_.clear();
    parts_.added_tokens->split_normalized(text, normalized_segments_, special_in_text_);
    if (normalized_segments_.size() == 1 && normalized_segments_[0].id == Vocabulary::kNone)
      return encode_words(normalized_, limit, word, out);
    for (const Segment& segment : normalized_segments_) {
      ByteRange range = segment.range;
      if (segment.id != Vocabulary::kNone) {
        put(out, segment.id, normalized_.source_of(range), word++, text.substr(range.begin, range.end - range.begin));
        continue;
      }
      if (out.size() >= limit) return;
      between_ = normalized_.part(range);
      encode_words(between_, limit, word, out);
    }
  }

  /// Of all of `text`, which the pre-tokenizer may change.
  void encode_words(NormalizedText& text, size_t limit, int32_t& word, Encoding& out) {
    words_.assign(1, {0, static_cast<uint32_t>(text.text().size())});
    parts_.pre_tokenizer->split(text, words_);
    for (ByteRange characters : words_) {
      if (out.size() >= limit) return;
      pieces_.clear();
      parts_.model->tokenize(text.text(), characters, pieces_);
      for (const Piece& piece : pieces_)
        put(out, piece.id, text.source_of(piece.range), word,
            parts_.model->vocabulary().token(piece.id).value_or(std::string_view()));
      ++word;
    }
  }

  static void put(Encoding& out, int32_t id, ByteRange source, int32_t word, std::string_view token) {
    out.ids.push_back(id);
    out.words.push_back(word);
    out.offsets.push_back({source.begin, source.end});
    out.tokens.emplace_back(token);
  }

  const Tokenizer::Parts& parts_;
  bool special_in_text_;
  NormalizedText normalized_, between_;
  std::vector<Segment> segments_, normalized_segments_;
  std::vector<ByteRange> words_;
  std::vector<Piece> pieces_;
};

size_t room_for_text(const Tokenizer::Parts& parts, const Truncation& truncation, bool is_pair) {
  size_t added = parts.post_processor.added_tokens(is_pair);
  if (truncation.max_length < added)
    fail(ErrorCode::invalid_argument, "truncation to ", truncation.max_length, " tokens leaves no room for the ", added,
         " special tokens of ", is_pair ? "two texts" : "a text", "; choose a max_length of ", added,
         " or more, or encode without special tokens");
  return truncation.max_length - added;
}

Encoding encode_texts(const Tokenizer::Parts& parts, const std::optional<Truncation>& truncation, TextEncoder& encoder,
                      std::string_view first_text, const std::string_view* second_text, bool add_special_tokens) {
  // Where the end of a text is cut off and not wanted, it need not be encoded. One token more than fit tells
  // that it was cut; of two texts, the lengths decide what each keeps.
  bool only_the_start = truncation && !second_text && truncation->side == Side::right && !truncation->keep_overflow;
  size_t limit = only_the_start ? std::min(truncation->max_length, kNoLimit - 1) + 1 : kNoLimit;
  Encoding first = encoder.encode(first_text, limit);
  Encoding second = second_text ? encoder.encode(*second_text, limit) : Encoding();
  Encoding* pair = second_text ? &second : nullptr;
  if (truncation) {
    size_t room = add_special_tokens ? room_for_text(parts, *truncation, pair != nullptr) : truncation->max_length;
    truncate(first, pair, room, *truncation);
  }
  return parts.post_processor.process(std::move(first), pair, add_special_tokens);
}

template <class Text>
std::vector<Encoding> encode_texts(const Tokenizer::Parts& parts, const std::optional<Truncation>& truncation,
                                   const std::optional<Padding>& padding, std::span<const Text> texts,
                                   bool add_special_tokens, bool special_in_text) {
  TextEncoder encoder(parts, special_in_text);
  std::vector<Encoding> encodings;
  encodings.reserve(texts.size());
  size_t longest = 0;
  for (const Text& text : texts) {
    encodings.push_back(encode_texts(parts, truncation, encoder, text, nullptr, add_special_tokens));
    longest = std::max(longest, encodings.back().size());
  }
  if (padding)
    for (Encoding& encoding : encodings) pad(encoding, padded_length(longest, *padding), *padding);
  return encodings;
}

}  // namespace

Tokenizer::Tokenizer(std::shared_ptr<const Parts> parts) : parts_(std::move(parts)) {
  set_truncation(parts_->truncation);
  set_padding(parts_->padding);
}

Encoding Tokenizer::encode(std::string_view text, bool add_special_tokens) const {
  return std::move(encode_batch(std::span(&text, 1), add_special_tokens)[0]);
}

Encoding Tokenizer::encode_pair(std::string_view first, std::string_view second, bool add_special_tokens) const {
  TextEncoder encoder(*parts_, !encode_special_tokens_);
  Encoding encoding = encode_texts(*parts_, truncation_, encoder, first, &second, add_special_tokens);
  if (padding_) pad(encoding, padded_length(encoding.size(), *padding_), *padding_);
  return encoding;
}

std::vector<Encoding> Tokenizer::encode_batch(std::span<const std::string> texts, bool add_special_tokens) const {
  return encode_texts(*parts_, truncation_, padding_, texts, add_special_tokens, !encode_special_tokens_);
}
std::vector<Encoding> Tokenizer::encode_batch(std::span<const std::string_view> texts, bool add_special_tokens) const {
  return encode_texts(*parts_, truncation_, padding_, texts, add_special_tokens, !encode_special_tokens_);
}

std::string Tokenizer::decode(std::span<const int32_t> ids, bool skip_special_tokens) const {
  std::vector<std::string> tokens;
  tokens.reserve(ids.size());
  for (int32_t id : ids) {
    auto token = parts_->added_tokens->token(id);
    if (skip_special_tokens && token && parts_->added_tokens->is_special(id)) continue;
    if (!token) token = parts_->model->vocabulary().token(id);
    if (token) tokens.emplace_back(*token);
  }
  parts_->decoder->decode(tokens);
  std::string text;
  for (const std::string& token : tokens) text += token;
  if (valid_utf8_prefix(text) < text.size()) text = repair_utf8(text).text;
  return text;
}

size_t Tokenizer::vocab_size() const {
  return parts_->model->vocabulary().size() + parts_->added_tokens->beyond_model();
}

std::optional<int32_t> Tokenizer::token_to_id(std::string_view token) const {
  int32_t id = parts_->added_tokens->find(token);
  if (id == Vocabulary::kNone) id = parts_->model->vocabulary().find(token);
  if (id == Vocabulary::kNone) return std::nullopt;
  return id;
}

std::optional<std::string> Tokenizer::id_to_token(int32_t id) const {
  auto token = parts_->added_tokens->token(id);
  if (!token) token = parts_->model->vocabulary().token(id);
  if (!token) return std::nullopt;
  return std::string(*token);
}

void Tokenizer::set_truncation(const std::optional<Truncation>& truncation) {
  if (truncation) {
    size_t room = room_for_text(*parts_, *truncation, false);
    if (truncation->keep_overflow && truncation->stride > 0 && truncation->stride >= room)
      fail(ErrorCode::invalid_argument, "a stride of ", truncation->stride, " needs pieces of more tokens than ", room,
           ", which is what a max_length of ", truncation->max_length, " leaves beside special tokens");
  }
  truncation_ = truncation;
}

void Tokenizer::set_padding(const std::optional<Padding>& padding) {
  if (padding && std::max(padding->length.value_or(0), padding->pad_to_multiple_of) > kMaxPaddedLength)
    fail(ErrorCode::invalid_argument, "padding to ", padding->length.value_or(0), " tokens, a multiple of ",
         padding->pad_to_multiple_of, ", is beyond the ", kMaxPaddedLength, " that an encoding is padded to");
  padding_ = padding;
}

}  // namespace rlx

// Any bytes as a tokenizer.json or the metadata of a GGUF file and a text behind it (after the first NUL, which neither
// can hold), as a text for tokenizers with many settings, and as a vocab.txt: each is refused with an rlx::Error, or
// what comes out is consistent.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string_view>

#include "rlx/error.h"
#include "rlx/tokenizer.h"

using namespace rlx;

namespace {

void require(bool holds) {
  if (!holds) std::abort();
}

void check(const Encoding& encoding, size_t first_bytes, size_t second_bytes) {
  size_t size = encoding.size();
  require(encoding.type_ids.size() == size && encoding.attention_mask.size() == size);
  require(encoding.special_tokens_mask.size() == size && encoding.words.size() == size);
  require(encoding.offsets.size() == size && encoding.tokens.size() == size);
  for (TextSpan span : encoding.offsets)
    require(span.begin <= span.end && span.end <= (first_bytes > second_bytes ? first_bytes : second_bytes));
  for (const Encoding& piece : encoding.overflowing) check(piece, first_bytes, second_bytes);
}

void encode(const Tokenizer& tokenizer, std::string_view text) {
  try {
    Encoding encoding = tokenizer.encode(text);
    check(encoding, text.size(), 0);
    (void)tokenizer.decode(encoding.ids, false);
    DecodeStream stream(tokenizer);
    for (int32_t id : std::span(encoding.ids).first(std::min<size_t>(encoding.ids.size(), 64))) (void)stream.put(id);
    (void)stream.finish();
    std::string_view half = text.substr(0, text.size() / 2);
    check(tokenizer.encode_pair(half, text, text.size() % 2 == 0), half.size(), text.size());
  } catch (const Error& error) {
    require(*error.what() != '\0');
  }
}

Tokenizer with_settings(const char* normalizer) {
  Tokenizer tokenizer = Tokenizer::from_json(
      R"({"model": {"type": "WordPiece", "unk_token": "?", "continuing_subword_prefix": "##",
      "max_input_chars_per_word": 20, "vocab": {"?": 0, "a": 1, "##a": 2, "ab": 3, "the": 4, "é": 5, "##é": 6, "北": 7,
      "e": 8, "##e": 9, ".": 10, "[CLS]": 11}},
      "pre_tokenizer": {"type": "BertPreTokenizer"}, "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": true},
      "post_processor": {"type": "BertProcessing", "cls": ["[CLS]", 11], "sep": [".", 10]}, "added_tokens": [
      {"id": 11, "content": "[CLS]", "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": true},
      {"id": 12, "content": "<m>", "single_word": false, "lstrip": true, "rstrip": true, "normalized": false, "special": false},
      {"id": 13, "content": "a É", "single_word": true, "lstrip": true, "rstrip": false, "normalized": true, "special": false},
      {"id": 14, "content": " b", "single_word": false, "lstrip": false, "rstrip": true, "normalized": true, "special": true}],
      "normalizer": )" +
      std::string(normalizer) + "}");
  return tokenizer;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view bytes(reinterpret_cast<const char*>(data), size);
  static const Tokenizer lowering = with_settings(
      R"({"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true, "strip_accents": null, "lowercase": true})");
  static const Tokenizer stripping = with_settings(
      R"({"type": "BertNormalizer", "clean_text": false, "handle_chinese_chars": false, "strip_accents": true, "lowercase": false})");
  static const Tokenizer plain = with_settings("null");

  if (bytes.starts_with("{")) {
    size_t end = bytes.find('\0');
    std::string_view text = end == bytes.npos ? "the text" : bytes.substr(end + 1);
    try {
      encode(Tokenizer::from_gguf(parse_gguf_json(bytes.substr(0, end))), text);
    } catch (const Error& error) {
      require(*error.what() != '\0');
    }
    try {
      Tokenizer tokenizer = Tokenizer::from_json(bytes.substr(0, end));
      if (tokenizer.padding() && tokenizer.padding()->length > 1000) tokenizer.set_padding(std::nullopt);
      encode(tokenizer, text);
    } catch (const Error& error) {
      require(*error.what() != '\0');
    }
    return 0;
  }
  for (const Tokenizer* tokenizer : {&lowering, &stripping, &plain}) encode(*tokenizer, bytes);
  if (size > 0) {
    Tokenizer cut = lowering;
    cut.set_truncation(Truncation{.max_length = 3 + data[0] % 8u,
                                  .strategy = static_cast<Truncation::Strategy>(data[0] / 8u % 3),
                                  .side = data[0] & 64 ? Side::left : Side::right,
                                  .keep_overflow = (data[0] & 128) != 0});
    cut.set_padding(Padding{.pad_to_multiple_of = data[size - 1] % 7u});
    encode(cut, bytes.substr(0, 256));  // pieces of overflow multiply
  }
  try {
    encode(Tokenizer::from_vocabulary(bytes), bytes);
  } catch (const Error& error) {
    require(*error.what() != '\0');
  }
  return 0;
}

// The C ABI of tokenizers and sentence encoders; see rlx/c.h. Settings come as text in the form of
// attributes.
#include <limits>
#include <nlohmann/json.hpp>

#include "c_api/handles.h"
#include "rlx/models.h"

struct rlx_decode_stream {
  rlx::DecodeStream stream;
};
struct rlx_encodings {
  std::vector<rlx::Encoding> all;
};
struct rlx_encoder {
  rlx::SentenceEncoder encoder;
};

namespace {

using namespace rlx::c;
using rlx::ErrorCode;
using rlx::fail;
using rlx::field;

// ---- settings as text ----
struct TruncationText {
  int64_t max_length = 512;
  rlx::Truncation::Strategy strategy = rlx::Truncation::Strategy::longest_first;
  rlx::Side side = rlx::Side::right;
  bool keep_overflow = false;
  int64_t stride = 0;
  RLX_FIELDS(TruncationText, field("max_length", &TruncationText::max_length),
             field("strategy", &TruncationText::strategy), field("side", &TruncationText::side),
             field("keep_overflow", &TruncationText::keep_overflow), field("stride", &TruncationText::stride));
};
struct PaddingText {
  std::optional<int64_t> length;
  int64_t pad_to_multiple_of = 0;
  rlx::Side side = rlx::Side::right;
  int64_t id = 0, type_id = 0;
  std::string token = "[PAD]";
  RLX_FIELDS(PaddingText, field("length", &PaddingText::length),
             field("pad_to_multiple_of", &PaddingText::pad_to_multiple_of), field("side", &PaddingText::side),
             field("id", &PaddingText::id), field("type_id", &PaddingText::type_id),
             field("token", &PaddingText::token));
};

/// Numbers of tokens and ids are i32.
template <class T>
T number_of(int64_t value, int64_t least, const char* what) {
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  if (value < least || value > kMost)
    fail(ErrorCode::invalid_argument, what, " is ", value, "; it goes from ", least, " to ", kMost);
  return static_cast<T>(value);
}
std::optional<rlx::Truncation> truncation_from(const std::string& text) {
  if (text.empty()) return std::nullopt;
  const auto t = read_over(TruncationText{}, text, "truncation");
  return rlx::Truncation{number_of<size_t>(t.max_length, 0, "max_length"), t.strategy, t.side, t.keep_overflow,
                         number_of<size_t>(t.stride, 0, "stride")};
}
std::optional<rlx::Padding> padding_from(const std::string& text) {
  if (text.empty()) return std::nullopt;
  const auto p = read_over(PaddingText{}, text, "padding");
  rlx::Padding padding;
  if (p.length) padding.length = number_of<size_t>(*p.length, 0, "length");
  padding.pad_to_multiple_of = number_of<size_t>(p.pad_to_multiple_of, 0, "pad_to_multiple_of");
  padding.side = p.side, padding.token = p.token;
  padding.id = number_of<int32_t>(p.id, 0, "id"), padding.type_id = number_of<int32_t>(p.type_id, 0, "type_id");
  return padding;
}

nlohmann::ordered_json json_of(const std::optional<rlx::Truncation>& t) {
  if (!t) return nullptr;
  return {{"max_length", t->max_length},
          {"strategy", names_of(t->strategy)[static_cast<size_t>(t->strategy)]},
          {"side", names_of(t->side)[static_cast<size_t>(t->side)]},
          {"keep_overflow", t->keep_overflow},
          {"stride", t->stride}};
}
nlohmann::ordered_json json_of(const std::optional<rlx::Padding>& p) {
  if (!p) return nullptr;
  nlohmann::ordered_json length = nullptr;
  if (p->length) length = *p->length;
  return {{"length", length},
          {"pad_to_multiple_of", p->pad_to_multiple_of},
          {"side", names_of(p->side)[static_cast<size_t>(p->side)]},
          {"id", p->id},
          {"type_id", p->type_id},
          {"token", p->token}};
}
std::string dumped(const nlohmann::ordered_json& json) {
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::vector<std::string> texts_from(const rlx_buffer* texts, size_t count) {
  std::vector<std::string> all;
  for (const rlx_buffer& text : array_from(texts, count, "texts")) {
    const auto bytes = bytes_from(text.data, text.size);
    all.emplace_back(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  return all;
}
const rlx::Encoding& encoding_in(const rlx_encodings* encodings, size_t index) {
  const auto& all = required(encodings, "encodings").all;
  if (index >= all.size())
    fail(ErrorCode::invalid_argument, "there are ", all.size(), " encodings, and ", index, " is asked for");
  return all[index];
}

rlx::Tensor offsets_of(const rlx::Encoding& encoding) {
  rlx::Tensor offsets(rlx::i64, {static_cast<int64_t>(encoding.offsets.size()), 2});
  for (size_t i = 0; i < encoding.offsets.size(); ++i) {
    rlx::store<int64_t>(offsets, 2 * i, static_cast<int64_t>(encoding.offsets[i].begin));
    rlx::store<int64_t>(offsets, 2 * i + 1, static_cast<int64_t>(encoding.offsets[i].end));
  }
  return offsets;
}
rlx::Tensor known_of(const rlx::Encoding& encoding, std::string_view what) {
  if (what == "offsets") return offsets_of(encoding);
  const std::pair<std::string_view, const std::vector<int32_t>*> all[] = {
      {"ids", &encoding.ids},
      {"type_ids", &encoding.type_ids},
      {"attention_mask", &encoding.attention_mask},
      {"special_tokens_mask", &encoding.special_tokens_mask},
      {"words", &encoding.words}};
  for (const auto& [name, values] : all)
    if (name == what) return rlx::Tensor::of<int32_t>({static_cast<int64_t>(values->size())}, *values);
  fail(ErrorCode::not_found, "an encoding has no '", what,
       "'; it has ids, type_ids, attention_mask, special_tokens_mask, words and offsets");
}

}  // namespace

extern "C" {

// ---- tokenizers ----
rlx_status rlx_tokenizer_load(const char* path, rlx_tokenizer** tokenizer, rlx_error** error) {
  return guarded(error, [&] {
    auto& result = required(tokenizer, "tokenizer");
    result = new rlx_tokenizer{rlx::Tokenizer::load(required_text(path, "path"))};
  });
}
rlx_status rlx_tokenizer_set(rlx_tokenizer* tokenizer, const char* truncation, const char* padding, rlx_error** error) {
  return guarded(error, [&] {
    rlx::Tokenizer changed = required(tokenizer, "tokenizer").tokenizer;  // both change, or neither
    if (truncation) changed.set_truncation(truncation_from(truncation));
    if (padding) changed.set_padding(padding_from(padding));
    tokenizer->tokenizer = std::move(changed);
  });
}
rlx_status rlx_tokenizer_describe(rlx_tokenizer* tokenizer, const char** json, rlx_error** error) {
  return guarded(error, [&] {
    auto& result = required(json, "json");
    auto& t = required(tokenizer, "tokenizer");
    t.json = dumped({{"vocab_size", t.tokenizer.vocab_size()},
                     {"truncation", json_of(t.tokenizer.truncation())},
                     {"padding", json_of(t.tokenizer.padding())}});
    result = t.json.c_str();
  });
}
rlx_status rlx_tokenizer_encode(const rlx_tokenizer* tokenizer, const rlx_buffer* texts, size_t count, int pair,
                                int add_special_tokens, rlx_encodings** encodings, rlx_error** error) {
  return guarded(error, [&] {
    auto& result = required(encodings, "encodings");
    const rlx::Tokenizer& t = required(tokenizer, "tokenizer").tokenizer;
    const auto all = texts_from(texts, count);
    auto made = std::make_unique<rlx_encodings>();
    if (pair && count % 2) fail(ErrorCode::invalid_argument, "pairs of texts are an even number, got ", count);
    if (!pair) made->all = t.encode_batch(std::span<const std::string>(all), add_special_tokens != 0);
    else
      for (size_t i = 0; i < count; i += 2)
        made->all.push_back(t.encode_pair(all[i], all[i + 1], add_special_tokens != 0));
    result = made.release();
  });
}
rlx_status rlx_tokenizer_decode(const rlx_tokenizer* tokenizer, const int32_t* ids, size_t count,
                                int skip_special_tokens, char** text, size_t* size, rlx_error** error) {
  return guarded(error, [&] {
    auto& result = required(text, "text");
    const rlx::Tokenizer& t = required(tokenizer, "tokenizer").tokenizer;
    result = own_text(t.decode(array_from(ids, count, "ids"), skip_special_tokens != 0), size);
  });
}
rlx_status rlx_tokenizer_token_to_id(const rlx_tokenizer* tokenizer, const char* token, int32_t* id,
                                     rlx_error** error) {
  return guarded(error, [&] {
    auto& result = required(id, "id");
    result = required(tokenizer, "tokenizer").tokenizer.token_to_id(required_text(token, "token")).value_or(-1);
  });
}
rlx_status rlx_tokenizer_id_to_token(const rlx_tokenizer* tokenizer, int32_t id, char** text, size_t* size,
                                     rlx_error** error) {
  return guarded(error, [&] {
    auto& result = required(text, "text");
    const rlx::Tokenizer& t = required(tokenizer, "tokenizer").tokenizer;
    const auto token = t.id_to_token(id);
    if (!token)
      fail(ErrorCode::not_found, "no token has the id ", id, "; the tokenizer has ", t.vocab_size(), " tokens");
    result = own_text(*token, size);
  });
}
rlx_status rlx_tokenizer_set_encode_special_tokens(rlx_tokenizer* tokenizer, int as_text, rlx_error** error) {
  return guarded(error, [&] { required(tokenizer, "tokenizer").tokenizer.set_encode_special_tokens(as_text != 0); });
}
void rlx_tokenizer_free(rlx_tokenizer* tokenizer) { delete tokenizer; }

rlx_status rlx_decode_stream_new(const rlx_tokenizer* tokenizer, int skip_special_tokens, rlx_decode_stream** stream,
                                 rlx_error** error) {
  return guarded(error, [&] {
    auto& result = required(stream, "stream");
    const rlx::Tokenizer& t = required(tokenizer, "tokenizer").tokenizer;
    result = new rlx_decode_stream{rlx::DecodeStream(t, skip_special_tokens != 0)};
  });
}
rlx_status rlx_decode_stream_put(rlx_decode_stream* stream, int32_t id, char** text, size_t* size, rlx_error** error) {
  return guarded(error, [&] {
    auto& result = required(text, "text");
    result = own_text(required(stream, "stream").stream.put(id), size);
  });
}
rlx_status rlx_decode_stream_finish(rlx_decode_stream* stream, char** text, size_t* size, rlx_error** error) {
  return guarded(error, [&] {
    auto& result = required(text, "text");
    result = own_text(required(stream, "stream").stream.finish(), size);
  });
}
void rlx_decode_stream_free(rlx_decode_stream* stream) { delete stream; }

size_t rlx_encodings_count(const rlx_encodings* encodings) { return encodings ? encodings->all.size() : 0; }
rlx_status rlx_encodings_tensor(const rlx_encodings* encodings, size_t index, const char* what, rlx_tensor** tensor,
                                rlx_error** error) {
  return guarded(error, [&] {
    auto& result = required(tensor, "tensor");
    result = new rlx_tensor{known_of(encoding_in(encodings, index), required_text(what, "what"))};
  });
}
const char* rlx_encodings_token(const rlx_encodings* encodings, size_t index, size_t place, size_t* size) {
  if (size) *size = 0;
  if (!encodings || index >= encodings->all.size() || place >= encodings->all[index].tokens.size()) return nullptr;
  const std::string& token = encodings->all[index].tokens[place];
  if (size) *size = token.size();
  return token.c_str();
}
rlx_status rlx_encodings_overflow(const rlx_encodings* encodings, size_t index, rlx_encodings** overflow,
                                  rlx_error** error) {
  return guarded(error, [&] {
    auto& result = required(overflow, "overflow");
    result = new rlx_encodings{encoding_in(encodings, index).overflowing};
  });
}
void rlx_encodings_free(rlx_encodings* encodings) { delete encodings; }

// ---- sentence encoders ----
rlx_status rlx_encoder_load(const char* folder, const char* device, const rlx_encoder_options* options,
                            const rlx_compile_options* compile, rlx_encoder** encoder, rlx_error** error) {
  return guarded(error, [&] {
    auto& result = required(encoder, "encoder");
    const auto given = options_of(options);
    if (given.most_tokens < 0)
      fail(ErrorCode::invalid_argument, "most_tokens is ", given.most_tokens, "; a batch has 1 token or more");
    rlx::SentenceEncoder::Options all;
    all.device = device_from(device);
    all.threads = given.threads;
    if (given.most_tokens > 0) all.most_tokens = given.most_tokens;
    all.compile = compile_options_from(compile);
    result = new rlx_encoder{rlx::SentenceEncoder::load(required_text(folder, "folder"), std::move(all))};
  });
}
rlx_status rlx_encoder_embed(const rlx_encoder* encoder, const rlx_buffer* texts, size_t count, rlx_tensor** tensor,
                             rlx_error** error) {
  return guarded(error, [&] {
    auto& result = required(tensor, "tensor");
    const auto all = texts_from(texts, count);
    result = new rlx_tensor{required(encoder, "encoder").encoder.embed(all)};
  });
}
rlx_status rlx_encoder_embed_ids(const rlx_encoder* encoder, const rlx_tensor* ids, const rlx_tensor* mask,
                                 rlx_tensor** tensor, rlx_error** error) {
  return guarded(error, [&] {
    auto& result = required(tensor, "tensor");
    result = new rlx_tensor{
        required(encoder, "encoder").encoder.embed_ids(required(ids, "ids").tensor, required(mask, "mask").tensor)};
  });
}
int64_t rlx_encoder_width(const rlx_encoder* encoder) { return encoder ? encoder->encoder.width() : 0; }
rlx_status rlx_encoder_tokenizer(const rlx_encoder* encoder, rlx_tokenizer** tokenizer, rlx_error** error) {
  return guarded(error, [&] {
    auto& result = required(tokenizer, "tokenizer");
    result = new rlx_tokenizer{required(encoder, "encoder").encoder.tokenizer()};
  });
}
rlx_status rlx_encoder_report(const rlx_encoder* encoder, char** json, rlx_error** error) {
  return guarded(error, [&] {
    auto& result = required(json, "json");
    result = own_text(required(encoder, "encoder").encoder.compiled().report().json());
  });
}
void rlx_encoder_free(rlx_encoder* encoder) { delete encoder; }

}  // extern "C"

// A tokenizer.json from the keys of a GGUF file: tokenizer_json_of_gguf of gguf_tokenizer_writer.h.
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "io/names_in_messages.h"
#include "io/tokenizer/compared_tokenizers.h"
#include "io/tokenizer/gguf_tokenizer.h"
#include "io/tokenizer/gguf_tokenizer_writer.h"
#include "io/tokenizer/utf8.h"
#include "rlx/error.h"

namespace rlx::tokenizer {
namespace gguf_writer {  // a unity build puts all of the folder into one file
namespace {

using Json = nlohmann::json;  // not the ordered one, which looks for each key from the first one on

template <class Item>
const std::vector<Item>& list_in(const GgufMetadata& m, const char* key) {  // the reader has seen that they are right
  static const std::vector<Item> none;
  const GgufValue* value = find_value(m, key);
  const auto* array = value ? std::get_if<GgufArray>(value) : nullptr;
  const auto* items = array ? std::get_if<std::vector<Item>>(&array->items) : nullptr;
  return items ? *items : none;
}

Json replaced_json(const char* type, const char* from, const char* to) {
  return {{"type", type}, {"pattern", {{"String", from}}}, {"content", to}};
}

/// A merge for each way in which two tokens are a third, the one of the highest score first: as transformers makes them
/// of SentencePiece's files (convert_slow_tokenizer.py).
Json merges_by_score(const std::vector<std::string>& texts, const std::vector<float>& scores,
                     const std::vector<int32_t>& types) {
  std::unordered_map<std::string, size_t> ids;
  for (size_t id = 0; id < texts.size(); ++id)
    if (types.empty() || types[id] == token_type::kNormal || types[id] == token_type::kUserDefined)
      ids.emplace(texts[id], id);
  struct Merge {
    float score;
    size_t left, right;
  };
  std::vector<Merge> merges;
  for (const auto& [text, id] : ids)
    for (size_t split = utf8_size(text.empty() ? 'a' : text[0]); split < text.size(); split += utf8_size(text[split])) {
      const auto left = ids.find(text.substr(0, split)), right = ids.find(text.substr(split));
      if (left != ids.end() && right != ids.end())
        merges.push_back({id < scores.size() ? scores[id] : 0, left->second, right->second});
    }
  std::sort(merges.begin(), merges.end(), [](const Merge& a, const Merge& b) {
    return std::tuple(-a.score, a.left, a.right) < std::tuple(-b.score, b.left, b.right);
  });
  Json all = Json::array();
  for (const Merge& m : merges) all.push_back(Json::array({texts[m.left], texts[m.right]}));
  return all;
}

Json around_json(const Around& around, const std::vector<std::string>& texts) {
  Json single = Json::array(), pair = Json::array(), special = Json::object();
  const auto put = [&](Json& to, std::optional<int32_t> id, int type_id) {
    if (!id) return;
    const std::string& text = texts[static_cast<size_t>(*id)];
    to.push_back({{"SpecialToken", {{"id", text}, {"type_id", type_id}}}});
    special[text] = {{"id", text}, {"ids", Json::array({*id})}, {"tokens", Json::array({text})}};
  };
  const auto text = [&](Json& to, const char* name, int type_id) {
    put(to, around.before, type_id);
    to.push_back({{"Sequence", {{"id", name}, {"type_id", type_id}}}});
    put(to, around.behind, type_id);
  };
  text(single, "A", 0), text(pair, "A", 0), text(pair, "B", 1);
  return {{"type", "TemplateProcessing"}, {"single", single}, {"pair", pair}, {"special_tokens", special}};
}

/// "\u2581word" and "part" as "word" and "##part".
std::string word_piece_text(const std::string& text, bool is_added) {
  if (text.starts_with(kSpaceMark)) return text.substr(kSpaceMark.size());
  const bool is_bracketed = text.size() > 2 && text.front() == '[' && text.back() == ']';
  return is_bracketed || is_added ? text : "##" + text;
}

std::string base64_of(const std::vector<uint8_t>& bytes) {
  constexpr const char* kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (size_t i = 0; i < bytes.size(); i += 3) {
    uint32_t group = 0;
    for (size_t k = 0; k < 3; ++k) group = group << 8 | (i + k < bytes.size() ? bytes[i + k] : 0);
    for (size_t k = 0; k < 4; ++k) text += k <= bytes.size() - i ? kDigits[group >> (18 - 6 * k) & 63] : '=';
  }
  return text;
}

/// Model, normalizer, pre_tokenizer and decoder of Unigram, as transformers makes them of SentencePiece's files
/// (convert_slow_tokenizer.py, SpmConverter).
void unigram_json(const GgufMetadata& m, Json& json, Json& model) {
  const auto& texts = list_in<std::string>(m, "tokenizer.ggml.tokens");
  const auto& scores = list_in<float>(m, "tokenizer.ggml.scores");
  const auto& types = list_in<int32_t>(m, "tokenizer.ggml.token_type");
  const auto is_unused = [&](size_t id) { return !types.empty() && types[id] == token_type::kUnused; };
  size_t count = texts.size();
  while (count > 0 && is_unused(count - 1)) --count;  // rows that fill the table up
  float lowest = 0;
  for (size_t id = 0; id < count; ++id)
    if (!scores.empty() && !is_unused(id)) {
      if (!std::isfinite(scores[id]))
        fail(ErrorCode::unsupported, "the score of token ", id, ", ", quoted_name(texts[id]), ", is ", scores[id],
             ", for which JSON has no number");
      lowest = std::min(lowest, scores[id]);
    }
  Json vocab = Json::array();
  for (size_t id = 0; id < count; ++id)
    vocab.push_back(Json::array({texts[id], is_unused(id) ? lowest : scores.empty() ? 0 : scores[id]}));
  const GgufValue* unk = find_value(m, "tokenizer.ggml.unknown_token_id");
  model = {
      {"type", "Unigram"}, {"unk_id", unk ? std::get<uint32_t>(*unk) : 2}, {"vocab", vocab}, {"byte_fallback", false}};
  const auto flag = [&](const char* key) {
    const GgufValue* value = find_value(m, key);
    return value && std::get<bool>(*value);
  };
  const std::string mark(kSpaceMark);
  Json steps = Json::array();
  if (const auto& table = list_in<uint8_t>(m, "tokenizer.ggml.precompiled_charsmap"); !table.empty())
    steps.push_back({{"type", "Precompiled"}, {"precompiled_charsmap", base64_of(table)}});
  if (flag("tokenizer.ggml.remove_extra_whitespaces")) {
    steps.push_back({{"type", "Strip"}, {"strip_left", false}, {"strip_right", true}});
    steps.push_back({{"type", "Replace"}, {"pattern", {{"Regex", " {2,}"}}}, {"content", mark}});
  }
  json["normalizer"] = {{"type", "Sequence"}, {"normalizers", steps}};
  const bool has_prefix = flag("tokenizer.ggml.add_space_prefix") || flag("tokenizer.ggml.remove_extra_whitespaces");
  const Json spaces = {{"type", "Metaspace"},
                       {"replacement", mark},
                       {"prepend_scheme", has_prefix ? "always" : "never"},
                       {"split", true}};
  json["pre_tokenizer"] = spaces, json["decoder"] = spaces;
}

}  // namespace
}  // namespace gguf_writer

std::string tokenizer_json_of_gguf(const GgufMetadata& metadata) {
  using namespace gguf_writer;  // NOLINT(google-build-using-namespace)
  return with_context("writing a tokenizer.json", [&] {
    const Tokenizer original = Tokenizer::from_gguf(metadata);
    const auto& texts = list_in<std::string>(metadata, "tokenizer.ggml.tokens");
    const auto& types = list_in<int32_t>(metadata, "tokenizer.ggml.token_type");
    const auto text_of_key = [&](const char* key) {
      const GgufValue* value = find_value(metadata, key);
      const auto* text = value ? std::get_if<std::string>(value) : nullptr;
      return text ? *text : std::string();
    };
    const std::string kind = text_of_key("tokenizer.ggml.model");
    if (kind != "gpt2" && kind != "llama" && kind != "t5" && kind != "bert")
      fail(ErrorCode::unsupported, "tokenizer.ggml.model is '", kind.substr(0, 60),
           "'; what can be written is bert, gpt2, llama and t5");
    Json model = {{"type", "BPE"},
                  {"dropout", nullptr},
                  {"unk_token", nullptr},
                  {"continuing_subword_prefix", nullptr},
                  {"end_of_word_suffix", nullptr},
                  {"fuse_unk", kind == "llama"},
                  {"byte_fallback", kind == "llama"},
                  {"ignore_merges", false}};
    Json vocab = Json::object(), added = Json::array();
    std::unordered_set<std::string> known;
    for (size_t id = 0; id < texts.size(); ++id) {
      const int32_t type = types.empty() ? token_type::kNormal : types[id];
      if (texts[id].empty() || !known.insert(texts[id]).second || type == token_type::kUnused) continue;
      const bool is_added =
          type == token_type::kControl || type == token_type::kUnknown || type == token_type::kUserDefined;
      vocab[kind == "bert" ? word_piece_text(texts[id], is_added) : texts[id]] = id;
      if (type != token_type::kControl && type != token_type::kUnknown && type != token_type::kUserDefined) continue;
      added.push_back({{"id", id},
                       {"content", texts[id]},
                       {"single_word", false},
                       {"lstrip", false},
                       {"rstrip", takes_space_behind(metadata, texts[id], id, type != token_type::kUserDefined)},
                       {"normalized", false},
                       {"special", type != token_type::kUserDefined}});
    }
    model["vocab"] = std::move(vocab);
    const auto flag = [&](const char* key, bool otherwise) {
      const GgufValue* value = find_value(metadata, key);
      return value ? std::get<bool>(*value) : otherwise;
    };
    const Around around = around_of(original);
    Json json = {{"version", "1.0"},
                 {"truncation", nullptr},
                 {"padding", nullptr},
                 {"added_tokens", std::move(added)},
                 {"normalizer", nullptr},
                 {"pre_tokenizer", nullptr},
                 {"post_processor", around_json(around, texts)}};
    if (kind == "gpt2") {
      const PreKind pre = pre_kind(text_of_key("tokenizer.ggml.pre"));
      if (pre.raw_utf8) fail(ErrorCode::unsupported, "tokenizer.ggml.pre is of tokens that are no bytes");
      Json steps = Json::array();
      for (const char* pattern : pre.patterns)
        steps.push_back(
            {{"type", "Split"}, {"pattern", {{"Regex", pattern}}}, {"behavior", "Isolated"}, {"invert", false}});
      const Json bytes = {
          {"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", false}};
      steps.push_back(bytes);
      json["pre_tokenizer"] = {{"type", "Sequence"}, {"pretokenizers", steps}};
      json["decoder"] = bytes;
      model["ignore_merges"] = pre.ignore_merges;
      Json merges = Json::array();
      for (const std::string& pair : list_in<std::string>(metadata, "tokenizer.ggml.merges")) {
        const size_t space = pair.find(' ', 1);
        merges.push_back(Json::array({pair.substr(0, space), pair.substr(space + 1)}));
      }
      model["merges"] = std::move(merges);
    } else if (kind == "bert") {
      const GgufValue* unk = find_value(metadata, "tokenizer.ggml.unknown_token_id");
      model = {{"type", "WordPiece"},
               {"unk_token", unk ? texts.at(std::get<uint32_t>(*unk)) : "[UNK]"},
               {"continuing_subword_prefix", "##"},
               {"max_input_chars_per_word", 1'000'000},
               {"vocab", std::move(model["vocab"])}};
      const bool lowercase = flag("tokenizer.ggml.normalizer.lowercase", true);
      json["normalizer"] = {{"type", "BertNormalizer"},
                            {"clean_text", true},
                            {"handle_chinese_chars", true},
                            {"strip_accents", flag("tokenizer.ggml.normalizer.strip_accents", lowercase)},
                            {"lowercase", lowercase}};
      json["pre_tokenizer"] = {{"type", "BertPreTokenizer"}};
      json["decoder"] = {{"type", "WordPiece"}, {"prefix", "##"}, {"cleanup", true}};
    } else if (kind == "t5") {
      unigram_json(metadata, json, model);
    } else {
      const bool has_prefix = flag("tokenizer.ggml.add_space_prefix", true);
      const std::string mark(kSpaceMark);
      const Json spaces = replaced_json("Replace", " ", mark.c_str());
      json["normalizer"] =
          has_prefix ? Json{{"type", "Sequence"}, {"normalizers", {{{"type", "Prepend"}, {"prepend", mark}}, spaces}}}
                     : spaces;
      Json steps = {replaced_json("Replace", mark.c_str(), " "), {{"type", "ByteFallback"}}, {{"type", "Fuse"}}};
      if (has_prefix) steps.push_back({{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
      json["decoder"] = {{"type", "Sequence"}, {"decoders", steps}};
      if (const GgufValue* unk = find_value(metadata, "tokenizer.ggml.unknown_token_id"))
        model["unk_token"] = texts.at(std::get<uint32_t>(*unk));
      model["merges"] = merges_by_score(texts, list_in<float>(metadata, "tokenizer.ggml.scores"), types);
    }
    json["model"] = std::move(model);
    std::string text = json.dump(-1, ' ', false, Json::error_handler_t::replace);
    const Source made(text);
    const std::string difference = first_difference(made, original, made.charsmap() ? without_marks : nullptr);
    if (!difference.empty())
      fail(ErrorCode::unsupported,
           "the tokenizer has no form in tokenizer.json that gives the same tokens: ", difference);
    return text;
  });
}

}  // namespace rlx::tokenizer

// Reads tokenizer.json, the format of the Python package `tokenizers`: what stands around the text here, what changes
// it in text_parts_json.cpp, the model in model_json.cpp. Each section names its kind in `type`; a kind that is not
// offered is an error that says which ones are.
#include "io/tokenizer/tokenizer_json.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "io/tokenizer/json_value.h"
#include "io/tokenizer/model_json.h"
#include "io/tokenizer/parts.h"
#include "io/tokenizer/text_parts_json.h"
#include "rlx/error.h"

namespace rlx::tokenizer {
namespace {

constexpr int64_t kAny = std::numeric_limits<int64_t>::max();
constexpr int64_t kAnyId = std::numeric_limits<int32_t>::max();
// Of a template. Known ones have up to two texts and some ten special tokens; each text is as long as it is given, and
// each piece has the special tokens that it names for its own.
constexpr size_t kMaxTemplateTexts = 16, kMaxTemplateTokens = 4096;

void add_token(const std::string& token, const JsonTree& id, Vocabulary& vocabulary) {
  // Its path is written only when something is wrong: there are tens of thousands of them.
  if (!id.is_natural() || id.natural() > Vocabulary::kMaxId)
    JsonValue(id, "model.vocab['" + token.substr(0, 60) + "']").integer(0, Vocabulary::kMaxId);
  vocabulary.add(token, id.integer());
}

std::vector<AddedToken> read_added_tokens(const std::optional<JsonValue>& section) {
  std::vector<AddedToken> tokens;
  if (!section) return tokens;
  section->for_each([&](const JsonValue& value) {
    AddedToken token;
    token.id = value.at("id").integer(0, kAnyId);
    token.content = value.at("content").string();
    token.single_word = value.at("single_word").boolean();
    token.lstrip = value.at("lstrip").boolean();
    token.rstrip = value.at("rstrip").boolean();
    token.normalized = value.at("normalized").boolean();
    token.special = value.at("special").boolean();
    tokens.push_back(std::move(token));
  });
  return tokens;
}

TemplatePiece special_piece(int32_t type_id, int32_t id, const std::string& token) {
  return {PieceKind::special, type_id, {id}, {token}};
}

Template read_template(const JsonValue& pieces, const JsonValue& special_tokens) {
  Template result;
  size_t texts = 0, tokens = 0;
  pieces.for_each([&](const JsonValue& value) {
    TemplatePiece piece;
    if (auto sequence = value.find("Sequence")) {
      if (++texts > kMaxTemplateTexts)
        value.refuse(ErrorCode::unsupported, "the template puts in ", texts, " texts or more, more than the ",
                     kMaxTemplateTexts, " that one may");
      const std::string& id = sequence->at("id").string();
      if (id != "A" && id != "B") sequence->at("id").refuse(ErrorCode::parse, "expected 'A' or 'B'");
      piece.kind = id == "A" ? PieceKind::first : PieceKind::second;
      piece.type_id = static_cast<int32_t>(sequence->at("type_id").integer(0, kAnyId));
    } else if (auto special = value.find("SpecialToken")) {
      piece.kind = PieceKind::special;
      piece.type_id = static_cast<int32_t>(special->at("type_id").integer(0, kAnyId));
      JsonValue token = special_tokens.at(special->at("id").string());
      token.at("ids").for_each(
          [&](const JsonValue& id) { piece.ids.push_back(static_cast<int32_t>(id.integer(0, kAnyId))); });
      token.at("tokens").for_each([&](const JsonValue& text) {
        if (text.string().size() > Vocabulary::kMaxTokenBytes)
          text.refuse(ErrorCode::unsupported, "the token has ", text.string().size(), " bytes, more than the ",
                      Vocabulary::kMaxTokenBytes, " that a token may have");
        piece.tokens.push_back(text.string());
      });
      if (piece.ids.size() != piece.tokens.size())
        token.refuse(ErrorCode::parse, piece.ids.size(), " ids do not belong to ", piece.tokens.size(), " tokens");
      tokens += piece.ids.size();
      if (tokens > kMaxTemplateTokens)
        value.refuse(ErrorCode::unsupported, "with the ", piece.ids.size(), " ids of this piece the template has ",
                     tokens, " special tokens, more than the ", kMaxTemplateTokens, " that one may have");
    } else {
      value.refuse(ErrorCode::parse, "expected a Sequence or a SpecialToken");
    }
    result.push_back(std::move(piece));
  });
  return result;
}

/// `["[SEP]", 102]`
TemplatePiece read_token_and_id(const JsonValue& value) {
  std::vector<JsonValue> elements;
  value.for_each([&](const JsonValue& element) { elements.push_back(element); });
  value.expect(elements.size() == 2, "a token and its id");
  return special_piece(0, static_cast<int32_t>(elements[1].integer(0, kAnyId)), elements[0].string());
}

PostProcessor read_post_processor(const std::optional<JsonValue>& section) {
  if (!section) return PostProcessor();
  const std::string& type = section->at("type").string();
  const auto trim_offsets_of = [&](PostProcessor& made) {
    if (section->flag("trim_offsets", true)) made.trim_offsets(section->flag("add_prefix_space", true));
  };
  if (type == "TemplateProcessing") {
    JsonValue special_tokens = section->at("special_tokens");
    return PostProcessor(read_template(section->at("single"), special_tokens),
                         read_template(section->at("pair"), special_tokens));
  }
  TemplatePiece first{PieceKind::first, 0, {}, {}}, second{PieceKind::second, 0, {}, {}};
  if (type == "BertProcessing") {
    TemplatePiece cls = read_token_and_id(section->at("cls")), sep = read_token_and_id(section->at("sep"));
    TemplatePiece last_sep = sep;
    second.type_id = last_sep.type_id = 1;
    return PostProcessor({cls, first, sep}, {cls, first, sep, second, last_sep});
  }
  if (type == "RobertaProcessing") {
    TemplatePiece cls = read_token_and_id(section->at("cls")), sep = read_token_and_id(section->at("sep"));
    PostProcessor made({cls, first, sep}, {cls, first, sep, sep, second, sep});
    trim_offsets_of(made);
    return made;
  }
  if (type == "ByteLevel") {
    PostProcessor made;
    trim_offsets_of(made);
    return made;
  }
  if (type == "Sequence") {
    // Known files have one that trims and one with a template; of two templates the second would stand around the
    // first.
    PostProcessor made;
    section->at("processors").for_each([&](const JsonValue& value) {
      if (!made.add(read_post_processor(value)))
        value.refuse(ErrorCode::unsupported, "a second post-processor with special tokens is not offered");
    });
    return made;
  }
  refuse_kind(*section, "post-processor",
              "BertProcessing, ByteLevel, RobertaProcessing, Sequence, TemplateProcessing, null");
}

Side read_side(const JsonValue& value) {
  const std::string& side = value.string();
  if (side != "Left" && side != "Right") value.refuse(ErrorCode::parse, "expected 'Left' or 'Right'");
  return side == "Left" ? Side::left : Side::right;
}

std::optional<Truncation> read_truncation(const std::optional<JsonValue>& section) {
  if (!section) return std::nullopt;
  Truncation truncation;
  truncation.max_length = static_cast<size_t>(section->at("max_length").integer(0, kAny));
  truncation.stride = static_cast<size_t>(section->at("stride").integer(0, kAny));
  if (auto direction = section->find("direction")) truncation.side = read_side(*direction);
  JsonValue strategy = section->at("strategy");
  if (strategy.string() == "LongestFirst") truncation.strategy = Truncation::Strategy::longest_first;
  else if (strategy.string() == "OnlyFirst") truncation.strategy = Truncation::Strategy::only_first;
  else if (strategy.string() == "OnlySecond") truncation.strategy = Truncation::Strategy::only_second;
  else strategy.refuse(ErrorCode::parse, "expected 'LongestFirst', 'OnlyFirst' or 'OnlySecond'");
  return truncation;
}

std::optional<Padding> read_padding(const std::optional<JsonValue>& section) {
  if (!section) return std::nullopt;
  Padding padding;
  JsonValue strategy = section->at("strategy");
  if (!strategy.is_string()) padding.length = static_cast<size_t>(strategy.at("Fixed").integer(0, kAny));
  else if (strategy.string() != "BatchLongest")
    strategy.refuse(ErrorCode::parse, "expected 'BatchLongest' or {'Fixed': n}");
  padding.side = read_side(section->at("direction"));
  if (auto multiple = section->find("pad_to_multiple_of"))
    padding.pad_to_multiple_of = static_cast<size_t>(multiple->integer(0, kAny));
  padding.id = static_cast<int32_t>(section->at("pad_id").integer(0, kAnyId));
  padding.type_id = static_cast<int32_t>(section->at("pad_type_id").integer(0, kAnyId));
  padding.token = section->at("pad_token").string();
  return padding;
}

}  // namespace

std::shared_ptr<const Tokenizer::Parts> parts_from_json(std::string_view text) {
  return with_context("reading a tokenizer from JSON", [&] {
    Vocabulary vocabulary;
    vocabulary.reserve(std::min<size_t>(text.size() / 16, 1 << 16));  // a token and its id take some 16 bytes
    const JsonTree document = parse_json(text, "model", "vocab", [&](const std::string& token, const JsonTree& id) {
      add_token(token, id, vocabulary);
    });
    JsonValue root(document, "");
    if (auto version = root.find("version"); version && version->string() != "1.0")
      version->refuse(ErrorCode::unsupported, "expected '1.0'");
    auto parts = std::make_shared<Tokenizer::Parts>();
    parts->normalizer = read_normalizer(root.find("normalizer"));
    parts->pre_tokenizer = read_pre_tokenizer(root.find("pre_tokenizer"));
    parts->model = read_model(root.at("model"), std::move(vocabulary));
    parts->added_tokens = std::make_unique<AddedTokens>(read_added_tokens(root.find("added_tokens")),
                                                        parts->model->vocabulary(), *parts->normalizer);
    parts->post_processor = read_post_processor(root.find("post_processor"));
    parts->decoder = read_decoder(root.find("decoder"));
    parts->truncation = read_truncation(root.find("truncation"));
    parts->padding = read_padding(root.find("padding"));
    return std::shared_ptr<const Tokenizer::Parts>(std::move(parts));
  });
}

VocabularyFileOptions vocabulary_file_options(std::string_view tokenizer_config) {
  const JsonTree document = parse_json(tokenizer_config);
  JsonValue root(document, "");
  VocabularyFileOptions options;
  if (auto value = root.find("do_lower_case")) options.lowercase = value->boolean();
  if (auto value = root.find("strip_accents")) options.strip_accents = value->boolean();
  if (auto value = root.find("tokenize_chinese_chars")) options.handle_chinese_chars = value->boolean();
  return options;
}

}  // namespace rlx::tokenizer

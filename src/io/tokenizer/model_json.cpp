// Reads BPE, Unigram, WordLevel and WordPiece. Old files do not name the kind; what they have tells.
#include "io/tokenizer/model_json.h"

#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "io/tokenizer/bpe.h"
#include "io/tokenizer/text_parts_json.h"
#include "io/tokenizer/unigram.h"

namespace rlx::tokenizer {
namespace {

std::unique_ptr<const Model> read_word_piece(const JsonValue& section, Vocabulary vocabulary) {
  WordPieceOptions options;
  options.unk_token = section.at("unk_token").string();
  options.continuing_subword_prefix = section.at("continuing_subword_prefix").string();
  options.max_input_chars_per_word =
      static_cast<uint64_t>(section.at("max_input_chars_per_word").integer(0, std::numeric_limits<int64_t>::max()));
  return std::make_unique<WordPiece>(std::move(vocabulary), std::move(options));
}

std::unique_ptr<const Model> read_bpe(const JsonValue& section, Vocabulary vocabulary) {
  BpeOptions options;
  if (auto unk = section.find("unk_token")) options.unk_token = unk->string();
  if (auto prefix = section.find("continuing_subword_prefix")) options.continuing_subword_prefix = prefix->string();
  if (auto suffix = section.find("end_of_word_suffix")) options.end_of_word_suffix = suffix->string();
  for (const std::string* each : {&options.continuing_subword_prefix, &options.end_of_word_suffix})
    if (each->size() > Vocabulary::kMaxTokenBytes)  // written before or behind each character of a text
      fail(ErrorCode::unsupported, "a prefix or suffix of ", each->size(), " bytes is longer than the ",
           Vocabulary::kMaxTokenBytes, " that a token may have");
  options.fuse_unk = section.flag("fuse_unk", false);
  options.byte_fallback = section.flag("byte_fallback", false);
  options.ignore_merges = section.flag("ignore_merges", false);
  // Without dropout (Provilkov et al. 2020) the same text gives the same tokens; a trained model is run so.
  if (auto dropout = section.find("dropout"); dropout && dropout->number() != 0)
    dropout->refuse(ErrorCode::unsupported, "merges are dropped at random only in training; set it to null");

  // "a b", or ["a", "b"] where a token may hold a space. The texts belong to the document, which outlives the merges.
  Bpe::Merges merges;
  section.at("merges").for_each([&](const JsonValue& value) {
    if (value.is_string()) {
      std::string_view pair = value.string();
      size_t space = pair.find(' ');
      if (space == pair.npos || pair.find(' ', space + 1) != pair.npos)
        value.refuse(ErrorCode::parse, "expected two tokens and a space between, but it is '", pair.substr(0, 60), "'");
      merges.emplace_back(pair.substr(0, space), pair.substr(space + 1));
      return;
    }
    std::vector<std::string_view> pair;
    value.for_each([&](const JsonValue& token) { pair.push_back(token.string()); });
    value.expect(pair.size() == 2, "two tokens");
    merges.emplace_back(pair[0], pair[1]);
  });
  return std::make_unique<Bpe>(std::move(vocabulary), merges, std::move(options));
}

std::unique_ptr<const Model> read_unigram(const JsonValue& section) {
  Vocabulary vocabulary;
  std::vector<double> scores;
  section.at("vocab").for_each([&](const JsonValue& value) {
    std::vector<JsonValue> entry;
    value.for_each([&](const JsonValue& part) { entry.push_back(part); });
    value.expect(entry.size() == 2, "a token and its score");
    vocabulary.add(entry[0].string(), static_cast<int64_t>(scores.size()));
    scores.push_back(entry[1].number());
  });
  std::optional<int32_t> unk_id;
  if (auto unk = section.find("unk_id")) unk_id = static_cast<int32_t>(unk->integer(0, Vocabulary::kMaxId));
  auto fallback = section.find("byte_fallback");
  return std::make_unique<Unigram>(std::move(vocabulary), std::move(scores), unk_id, fallback && fallback->boolean());
}

}  // namespace

std::unique_ptr<const Model> read_model(const JsonValue& section, Vocabulary vocabulary) {
  auto type = section.find("type");
  std::string kind = type                                        ? type->string()
                     : section.find("merges")                    ? "BPE"
                     : section.at("vocab").is_array()            ? "Unigram"
                     : section.find("continuing_subword_prefix") ? "WordPiece"
                                                                 : "WordLevel";
  if (kind == "Unigram") return read_unigram(section);
  if (kind == "BPE" || kind == "WordPiece" || kind == "WordLevel") section.at("vocab").expect_object();
  if (kind == "BPE") return read_bpe(section, std::move(vocabulary));
  if (kind == "WordPiece") return read_word_piece(section, std::move(vocabulary));
  if (kind == "WordLevel") return std::make_unique<WordLevel>(std::move(vocabulary), section.at("unk_token").string());
  refuse_kind(section, "model", "BPE, Unigram, WordLevel, WordPiece");
}

}  // namespace rlx::tokenizer

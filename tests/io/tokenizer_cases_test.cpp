// The tokenizer against what the Python package `tokenizers` does with the same tokenizer.json and the same
// texts; tokenizer_cases.py writes tokenizer_cases.json.
#include <doctest/doctest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "rlx/error.h"
#include "rlx/tokenizer.h"

using namespace rlx;
using nlohmann::json;

namespace {

const json& recorded() {
  static const json cases = json::parse(std::ifstream("tests/io/tokenizer_cases.json"));
  return cases;
}

/// A group's tokenizer.json: what it leaves out is that of the first group.
Tokenizer tokenizer_of(json file) {
  const json& whole = recorded()["groups"][0]["tokenizer"];
  for (const auto& [key, value] : whole.items())
    if (!file.contains(key)) file[key] = value;
  if (!file["model"].contains("vocab")) file["model"]["vocab"] = whole["model"]["vocab"];
  return Tokenizer::from_json(file.dump());
}

std::string digits(const std::vector<int32_t>& column) {
  std::string text;
  for (int32_t value : column) text += std::to_string(value);
  return text;
}

json as_json(const Encoding& encoding, bool with_offsets) {
  json offsets = json::array();
  for (TextSpan span : encoding.offsets) {
    offsets.push_back(span.begin);
    offsets.push_back(span.end);
  }
  json result = {{"ids", encoding.ids},
                 {"type_ids", digits(encoding.type_ids)},
                 {"attention_mask", digits(encoding.attention_mask)},
                 {"special_tokens_mask", digits(encoding.special_tokens_mask)},
                 {"words", encoding.words},
                 {"tokens", encoding.tokens},
                 {"offsets", with_offsets ? offsets : json()}};
  for (const Encoding& piece : encoding.overflowing) result["overflowing"].push_back(as_json(piece, with_offsets));
  return result;
}

Encoding encode(const Tokenizer& tokenizer, const json& entry) {
  std::vector<std::string> texts = entry["texts"];
  if (texts.size() == 1) return tokenizer.encode(texts[0], entry["special"]);
  return tokenizer.encode_pair(texts[0], texts[1], entry["special"]);
}

void check_case(const Tokenizer& tokenizer, json entry) {
  std::string texts = entry["texts"].dump();
  CAPTURE(texts);
  if (entry.contains("fails")) {
    CHECK_THROWS_AS(encode(tokenizer, entry), Error);
    return;
  }
  json got = as_json(encode(tokenizer, entry), !entry["offsets"].is_null());
  entry.erase("texts");
  entry.erase("special");
  for (const auto& [key, value] : entry.items()) {
    std::string column = key;  // older compilers do not capture `key`
    CAPTURE(column);
    CHECK(got[key].dump() == value.dump());
  }
  CHECK(got.size() == entry.size());
}

}  // namespace

TEST_CASE("every part of an encoding is that of the tokenizers package, under all settings") {
  for (const json& group : recorded()["groups"]) {
    CAPTURE(group["name"].get<std::string>());
    Tokenizer tokenizer = tokenizer_of(group["tokenizer"]);
    CHECK(tokenizer.vocab_size() == group["vocab_size"].get<size_t>());
    if (auto truncation = tokenizer.truncation()) {
      truncation->keep_overflow = true;
      tokenizer.set_truncation(truncation);
    }
    for (const json& entry : group["cases"]) check_case(tokenizer, entry);
    for (const json& entry : group["decoded"]) {
      std::vector<int32_t> ids = entry["ids"];
      CAPTURE(entry.dump());
      CHECK(tokenizer.decode(ids, entry["skip"]) == entry["text"].get<std::string>());
    }
  }
}

TEST_CASE("without the overflow, truncation keeps the same tokens") {
  for (const json& group : recorded()["groups"]) {
    Tokenizer tokenizer = tokenizer_of(group["tokenizer"]);
    if (!tokenizer.truncation()) continue;
    CAPTURE(group["name"].get<std::string>());
    for (const json& entry : group["cases"]) {
      CAPTURE(entry["texts"].dump());
      bool fails = entry.contains("fails");
      Encoding encoding;
      // What only the overflow makes impossible (a stride that leaves no step) works without it.
      try {
        encoding = encode(tokenizer, entry);
      } catch (const Error&) {
        CHECK(fails);
        continue;
      }
      CHECK(encoding.overflowing.empty());
      if (!fails) CHECK(json(encoding.ids) == entry["ids"]);
    }
  }
}

TEST_CASE("bytes that are not UTF-8 are replaced as Python replaces them") {
  Tokenizer tokenizer = tokenizer_of(recorded()["bytes"]["tokenizer"]);
  for (const json& entry : recorded()["bytes"]["cases"]) {
    std::string hex = entry["hex"], bytes;
    CAPTURE(hex);
    for (size_t i = 0; i < hex.size(); i += 2) bytes += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
    CHECK(json(tokenizer.encode(bytes).tokens) == entry["tokens"]);
  }
}

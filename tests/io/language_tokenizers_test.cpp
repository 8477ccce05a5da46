// Tokenizers of language models against what the Python package `tokenizers` does with the same tokenizer.json and the
// same lines; language_tokenizers.py writes language_tokenizers.json. And hostile files and texts.
#include <doctest/doctest.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "io/tokenizer/gguf_tokenizer.h"
#include "io/tokenizer/regex.h"
#include "rlx/error.h"
#include "rlx/tokenizer.h"
#include "support/sanitized.h"

using namespace rlx;
using nlohmann::json;

namespace {

std::string streamed(const Tokenizer& tokenizer, const std::vector<int32_t>& ids) {
  DecodeStream stream(tokenizer);
  std::string text;
  for (int32_t id : ids) text += stream.put(id);
  return text + stream.finish();
}

std::string bpe_json(const std::string& vocab, const std::string& merges) {
  return R"({"model": {"type": "BPE", "vocab": )" + vocab + R"(, "merges": )" + merges + "}}";
}

GgufMetadata gguf_of(const std::string& model, const std::vector<std::string>& tokens) {
  std::vector<float> scores;
  for (size_t i = 0; i < tokens.size(); ++i) scores.push_back(-static_cast<float>(i));
  return {{"tokenizer.ggml.model", model},
          {"tokenizer.ggml.tokens", GgufArray{tokens}},
          {"tokenizer.ggml.scores", GgufArray{scores}}};
}

}  // namespace

TEST_CASE("tokenizers of language models give what the tokenizers package gives, on all kinds of text") {
  const json recorded = json::parse(std::ifstream("tests/io/language_tokenizers.json"));
  const std::vector<std::string> lines = recorded["lines"];
  for (const json& group : recorded["groups"]) {
    CAPTURE(group["name"].get<std::string>());
    Tokenizer tokenizer = Tokenizer::from_json(group["tokenizer"].dump());
    for (size_t i = 0; i < lines.size(); ++i) {
      CAPTURE(lines[i]);
      const json& wanted = group["cases"][i];
      Encoding encoding = tokenizer.encode(lines[i]);
      json offsets = json::array();
      for (TextSpan span : encoding.offsets) offsets.push_back({span.begin, span.end});
      CHECK(json(encoding.ids).dump() == wanted["ids"].dump());
      CHECK(offsets.dump() == wanted["offsets"].dump());
      CHECK(tokenizer.decode(encoding.ids) == wanted["text"].get<std::string>());
      CHECK(streamed(tokenizer, encoding.ids) == wanted["text"].get<std::string>());
    }
  }
}

TEST_CASE("a megabyte of one letter takes time in proportion to its length, whatever the model") {
  // Quadratic, the shorter text of a sanitized build would still take minutes.
  const std::string text(size_t{1} << (test::sanitized() ? 17 : 20), 'a');
  const std::string merges = R"([["a", "a"], ["aa", "aa"], ["aaaa", "aaaa"]])";
  Tokenizer bpe = Tokenizer::from_json(bpe_json(R"({"a": 0, "aa": 1, "aaaa": 2, "aaaaaaaa": 3})", merges));
  CHECK(bpe.encode(text).size() == text.size() / 8);
  Tokenizer unigram = Tokenizer::from_json(
      R"({"model": {"type": "Unigram", "unk_id": 0, "vocab": [["?", 0], ["a", -1], ["aa", -1.5]]}})");
  CHECK(unigram.encode(text).size() == text.size() / 2);
  Tokenizer llama = Tokenizer::from_gguf(gguf_of("llama", {"<unk>", "a", "aa", "\xe2\x96\x81"}));
  CHECK(llama.encode(text).size() == text.size() / 2 + 1);
}

TEST_CASE("merges that contradict the vocabulary are refused, and merges in a circle end") {
  CHECK_THROWS_WITH_AS(Tokenizer::from_json(bpe_json(R"({"a": 0})", R"(["a b"])")),
                       doctest::Contains("'b' is not in the vocabulary"), Error);
  CHECK_THROWS_WITH_AS(Tokenizer::from_json(bpe_json(R"({"a": 0})", R"(["a"])")), doctest::Contains("two tokens"),
                       Error);
  // With a prefix that the second token is, a merge gives its own first token: each still leaves one symbol fewer.
  Tokenizer circle = Tokenizer::from_json(
      R"({"model": {"type": "BPE", "continuing_subword_prefix": "##", "vocab": {"a": 0, "##": 1, "##a": 2, "aa": 3},
      "merges": ["a ##", "a ##a"]}})");
  CHECK(circle.encode(std::string(1000, 'a')).size() <= 1000);
}

TEST_CASE("a pattern that would search forever is an error, and so is one that does not compile") {
  auto split = [](const std::string& pattern) {
    return R"({"model": {"type": "WordLevel", "vocab": {"?": 0}, "unk_token": "?"}, "pre_tokenizer": {"type": "Split",
    "pattern": {"Regex": ")" +
           pattern + R"("}, "behavior": "Isolated", "invert": false}})";
  };
  Tokenizer slow = Tokenizer::from_json(split("(a|aa)+$"));
  CHECK_THROWS_WITH_AS(slow.encode(std::string(5000, 'a') + "c"), doctest::Contains("was given up"), Error);
  CHECK_THROWS_WITH_AS(Tokenizer::from_json(split("(a")), doctest::Contains("cannot be compiled"), Error);
  CHECK_THROWS_WITH_AS(Tokenizer::from_json(split("[a[b]]")), doctest::Contains("a set inside of a set"), Error);
}

TEST_CASE("word characters of a pattern are those that Oniguruma has") {
  // As pre_tokenizers.Split(Regex(r"\w"), "removed") of tokenizers 0.23.3 parts "-²-" and the others.
  const tokenizer::Regex word(R"(\w)"), other(R"([^\w])");
  const auto count = [](const tokenizer::Regex& regex, std::string_view text) {
    std::vector<tokenizer::ByteRange> matches;
    regex.find(text, matches);
    return matches.size();
  };
  // A letter, a digit, connectors, a Roman numeral, a combining accent, an Arabic digit, circled letters, numbers of
  // Latin-1.
  for (const char* character : {"é", "7", "_", "‿", "ⅷ", "\u0301", "٣", "Ⓐ", "ⓩ", "🅐", "²", "½"}) {
    CAPTURE(character);
    CHECK(count(word, character) == 1);
    CHECK(count(other, character) == 0);
  }
  // The end of a word is one by the same characters, unlike PCRE2's own.
  CHECK(count(tokenizer::Regex(R"(7\b)"), "7⁴") == 1);
  CHECK(count(tokenizer::Regex(R"(7\B)"), "7⁴") == 0);
  CHECK(count(tokenizer::Regex(R"(e\b)"), "e\u0301") == 0);
  for (const char* character : {"⁴", "⅓", "①", "-", " ", "€", "\u200d"}) {
    CAPTURE(character);
    CHECK(count(word, character) == 0);
    CHECK(count(other, character) == 1);
  }
}

TEST_CASE("a pattern that takes many steps at each place of a text is an error") {
  // A million steps a place: few enough for one match, but not for one at each place.
  const tokenizer::Regex regex("(?:a|a|a|a){10}[bc]");
  std::vector<tokenizer::ByteRange> matches;
  REQUIRE_THROWS_WITH_AS(regex.find(std::string(2000, 'a'), matches), doctest::Contains("was given up"), Error);
  CHECK(matches.empty());
  CHECK_THROWS_WITH_AS(regex.find(std::string(100'000, 'a'), matches), doctest::Contains("was given up"), Error);
  // A thousand steps at a few places are none too many.
  tokenizer::Regex("(?:a|a|a|a){5}[bc]").find("aaaaab" + std::string(12, 'a') + "-aaaaac", matches);
  CHECK(matches == std::vector<tokenizer::ByteRange>{{0, 6}, {19, 25}});
}

TEST_CASE("patterns that look to the end of a run read long runs") {
  const auto count = [](const char* pattern, const std::string& text) {
    std::vector<tokenizer::ByteRange> matches;
    tokenizer::Regex(pattern).find(text, matches);
    return matches.size();
  };
  constexpr size_t kRun = 20'000;
  CHECK(count(R"(\s+$)", std::string(kRun, ' ') + "x") == 0);
  CHECK(count(R"(\s+$)", "x" + std::string(kRun, ' ')) == 1);
  CHECK(count(R"(\w+(?=:))", std::string(kRun, 'a') + " b:") == 1);
  CHECK(count(R"(\w*\d)", std::string(kRun, 'a') + " 1") == 1);
  // Digits by three from the right, as some models part them.
  std::string lines;
  for (int i = 0; i < (test::sanitized() ? 2 : 20); ++i) lines.append(3000, '7') += '\n';
  CHECK(count(R"(\d{1,3}(?=(?:\d{3})*\b))", lines) == lines.size() / 3001 * 1000);
}

TEST_CASE("a match is found however far behind a place that needs many steps it begins") {
  // "a" and the letters behind it take as many steps backwards as there are; "x" takes one.
  const tokenizer::Regex regex(R"(a\w*(?<=\d)!|x)");
  std::string text;
  std::vector<tokenizer::ByteRange> wanted;
  for (size_t size = 250; size < 1100; size += size < 530 ? 1 : 10) {
    text += "a" + std::string(size, 'b') + (size % 3 ? "\xc3\xa9 " : "b ");
    const auto begin = static_cast<uint32_t>(text.size());
    text += "x ";
    wanted.push_back({begin, begin + 1});
  }
  std::vector<tokenizer::ByteRange> matches;
  regex.find(text, matches);
  CHECK(matches == wanted);
}

TEST_CASE("the patterns of known language models read a megabyte of ordinary text, and long runs, to the end") {
  std::string names;
  try {
    tokenizer::pre_kind("no such kind");
  } catch (const Error& error) {
    names = error.what();
  }
  constexpr std::string_view kBefore = "kinds that are: ";
  REQUIRE(names.find(kBefore) != std::string::npos);
  names = names.substr(names.find(kBefore) + kBefore.size()) + ", ";
  std::string text;
  const char* const kParts[] = {"The quick brown fox isn't 12345678 km away,\n", "  CAPITALS AND camelCase; \t\n\n",
                                "3.14159265358979 is not 22/7 (see https://x.y)! ", "Grüße, 你好，", "привет हि "};
  const size_t bytes = size_t{1} << (test::sanitized() ? 16 : 20);
  for (size_t i = 0; text.size() < bytes; ++i) text += kParts[i * i % std::size(kParts)];
  const std::string runs = std::string(5000, '7') + " " + std::string(1000, '7') + std::string(5000, 'A') +
                           std::string(5000, ' ') + std::string(5000, '!') + std::string(5000, '\n') +
                           std::string(5000, 'b') + " " + std::string(1, '.');
  std::set<std::string> seen;
  for (size_t at = 0; at < names.size();) {
    const size_t end = names.find(", ", at);
    const std::string name = names.substr(at, end - at);
    at = end + 2;
    CAPTURE(name);
    for (const char* pattern : tokenizer::pre_kind(name).patterns) {
      if (!seen.insert(pattern).second) continue;
      const tokenizer::Regex regex(pattern);
      std::vector<tokenizer::ByteRange> matches;
      CHECK_NOTHROW(regex.find(text, matches));
      CHECK_NOTHROW(regex.find(runs, matches));
    }
  }
  CHECK(seen.size() > 20);
}

TEST_CASE("metadata of a GGUF file that contradict themselves are refused") {
  CHECK_THROWS_WITH_AS(Tokenizer::from_gguf({}), doctest::Contains("no tokenizer.ggml.tokens"), Error);
  CHECK_THROWS_WITH_AS(Tokenizer::from_gguf(gguf_of("abacus", {"a"})),
                       doctest::Contains("'abacus', which is not offered"), Error);
  GgufMetadata metadata = gguf_of("llama", {"<unk>", "a"});
  metadata.push_back({"tokenizer.ggml.bos_token_id", uint32_t{2}});
  CHECK_THROWS_WITH_AS(Tokenizer::from_gguf(metadata), doctest::Contains("is 2, but there are 2 tokens"), Error);
  metadata.back() = {"tokenizer.ggml.token_type", GgufArray{std::vector<int32_t>{1}}};
  CHECK_THROWS_WITH_AS(Tokenizer::from_gguf(metadata), doctest::Contains("there are 2 tokens, but"), Error);
  metadata = gguf_of("llama", {"<unk>", "a"});
  for (auto& entry : metadata)
    if (entry.first == "tokenizer.ggml.model") entry.second = uint32_t{1};
  CHECK_THROWS_WITH_AS(Tokenizer::from_gguf(metadata), doctest::Contains("tokenizer.ggml.model"), Error);
}

TEST_CASE("a GGUF file may have a token twice, and an empty one") {
  CHECK_NOTHROW(Tokenizer::from_gguf(gguf_of("llama", {"<unk>", "<unk>", ""})));
}

TEST_CASE("a normalization table that cuts characters in two does not match within them") {
  // A double array whose only key is the first two bytes of U+2581, which become "a".
  std::vector<uint8_t> table;
  const auto put = [&](uint32_t unit) {
    for (int byte = 0; byte < 4; ++byte) table.push_back(static_cast<uint8_t>(unit >> 8 * byte));
  };
  constexpr uint32_t kFirst = 0xe2, kSecond = 0x96;
  std::vector<uint32_t> units(1024);
  units[0] = 256u << 10;
  units[256 ^ kFirst] = (256u ^ kFirst ^ 512) << 10 | kFirst;
  units[512 ^ kSecond] = (512u ^ kSecond ^ 768) << 10 | 1u << 8 | kSecond;
  units[768] = 0x80000000u;
  put(static_cast<uint32_t>(4 * units.size()));
  for (uint32_t unit : units) put(unit);
  table.push_back('a'), table.push_back(0);
  GgufMetadata metadata = gguf_of("t5", {"<unk>", "a", "b"});
  metadata.push_back({"tokenizer.ggml.precompiled_charsmap", GgufArray{table}});
  const Tokenizer tokenizer = Tokenizer::from_gguf(metadata);
  const auto ids = tokenizer.encode("b\xe2\x96\x81").ids;
  CHECK(std::count(ids.begin(), ids.end(), 1) == 0);  // "a"
}

TEST_CASE("an added token that is no UTF-8 is refused") {
  GgufMetadata metadata = gguf_of("llama", {"<unk>", "\x96\x81"});
  metadata.push_back({"tokenizer.ggml.token_type", GgufArray{std::vector<int32_t>{2, 4}}});
  CHECK_THROWS_WITH_AS(Tokenizer::from_gguf(metadata), doctest::Contains("is not UTF-8"), Error);
}

TEST_CASE("normalizers that double a text again and again are stopped") {
  std::string steps;
  for (int i = 0; i < 24; ++i)
    steps += std::string(i ? "," : "") + R"({"type": "Replace", "pattern": {"String": "a"}, "content": "aa"})";
  Tokenizer tokenizer = Tokenizer::from_json(
      R"({"model": {"type": "WordLevel", "vocab": {"?": 0}, "unk_token": "?"}, "normalizer": {"type": "Sequence",
      "normalizers": [)" +
      steps + "]}}");
  CHECK_THROWS_WITH_AS(tokenizer.encode("a"), doctest::Contains("bytes of a text of 1"), Error);
}

TEST_CASE("an empty match that touches the match before is none, as in Oniguruma's users") {
  // The texts are those of tokenizers 0.23.3: normalizers.Replace(Regex(pattern), "X").normalize_str("ab").
  auto replaced = [](const std::string& pattern) {
    Tokenizer tokenizer = Tokenizer::from_json(
        R"({"model": {"type": "WordLevel", "vocab": {"?": 0}, "unk_token": "?"}, "normalizer": {"type": "Replace",
        "pattern": {"Regex": ")" +
        pattern + R"("}, "content": "X"}, "pre_tokenizer": {"type": "Split", "pattern":
        {"Regex": "."}, "behavior": "Isolated", "invert": false}})");
    return tokenizer.encode("ab").size();
  };
  CHECK(replaced("(?=b)") == 3);  // aXb
  CHECK(replaced("a*") == 3);     // XbX
}

TEST_CASE("tiktoken's ranks merge the pair of the lowest rank, and special tokens are text where that is asked for") {
  // h, i, " ", "hi", "<", ">"
  Tokenizer tokenizer = Tokenizer::from_tiktoken("aA== 0\naQ== 1\nIA== 2\naGk= 3\nPA== 4\nPg== 5\n",
                                                 R"( ?\p{L}+|[^\p{L}\s]|\s)", {{"<h>", 9}});
  CHECK(tokenizer.encode("hi hi<h>").ids == std::vector<int32_t>{3, 2, 3, 9});
  CHECK(tokenizer.decode(tokenizer.encode("hi hi").ids) == "hi hi");
  tokenizer.set_encode_special_tokens(true);
  CHECK(tokenizer.encode("<h>").ids == std::vector<int32_t>{4, 0, 5});
  CHECK_THROWS_WITH_AS(Tokenizer::from_tiktoken("aA== 0\naA== 1\n", "b"),
                       doctest::Contains("a line before gave them 0"), Error);
  CHECK_THROWS_WITH_AS(Tokenizer::from_tiktoken("aA== 0x\n", "b"), doctest::Contains("is not base64"), Error);
  CHECK_THROWS_WITH_AS(Tokenizer::from_tiktoken("a", "b"), doctest::Contains("is not base64, a space and a rank"),
                       Error);
}

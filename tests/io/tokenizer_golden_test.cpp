// The tokenizer against the golden files of tests/golden/generate/tokenizer.py: what the package `tokenizers` does
// to every code point, and the ids of 5,000 lines. The latter needs the files of all-MiniLM-L6-v2: $RLX_MODEL
// names their folder, or scripts/fetch_minilm.py has put them into its cache.
#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "io/tokenizer/normalizer.h"
#include "io/tokenizer/pre_tokenizer.h"
#include "io/tokenizer/unicode.h"
#include "io/tokenizer/utf8.h"
#include "rlx/tokenizer.h"
#include "support/io_files.h"

using namespace rlx;
using namespace rlx::tokenizer;

namespace {

constexpr char32_t kCodePoints = 0x110000;

std::string utf8(char32_t code) {
  std::string text;
  append_utf8(text, code);
  return text;
}

/// Conjoining jamo of a Hangul syllable: The Unicode Standard, section 3.12.
std::string jamo(char32_t syllable) {
  char32_t index = syllable - 0xac00;
  std::string text = utf8(0x1100 + index / 588) + utf8(0x1161 + index % 588 / 28);
  return index % 28 ? text + utf8(0x11a7 + index % 28) : text;
}

std::vector<std::string> lines_of(const std::string& path) {
  std::vector<std::string> lines;
  std::istringstream in(test::file_content(path));
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

std::string model_folder() {
  auto variable = [](const char* name) { return std::getenv(name) ? std::string(std::getenv(name)) : std::string(); };
  std::string folder = variable("RLX_MODEL");
  if (folder.empty()) {
    std::string cache = variable("RLX_CACHE");
    folder = (cache.empty() ? variable("HOME") + "/.cache/rlx" : cache) + "/all-MiniLM-L6-v2";
  }
  return std::filesystem::exists(folder + "/tokenizer.json") ? folder : std::string();
}

void check_ids(const Tokenizer& tokenizer, const std::string& path) {
  std::vector<std::string> lines = lines_of("tests/golden/tokenizer/lines.txt"), rows = lines_of(path);
  REQUIRE(lines.size() == 5000);
  REQUIRE(rows.size() == lines.size());
  size_t different = 0;
  for (size_t i = 0; i < lines.size(); ++i) {
    std::string row = nlohmann::json(tokenizer.encode(lines[i]).ids).dump();
    if (row == rows[i]) continue;
    if (++different <= 5)
      FAIL_CHECK("line " << i + 1 << ", " << lines[i] << "\n  has ids " << row << "\n  not " << rows[i]);
  }
  CHECK(different == 0);
}

}  // namespace

TEST_CASE("every code point is normalized and splits words as in the tokenizers package") {
  // Between two letters, as the golden file has it: what it becomes, and how words then fall.
  std::vector<std::string> normal(kCodePoints);
  std::vector<char> split(kCodePoints, 'w');
  std::vector<bool> mark(kCodePoints), number(kCodePoints);
  for (char32_t code = 0; code < kCodePoints; ++code) normal[code] = utf8(code);
  for (const std::string& line : lines_of("tests/golden/tokenizer/codepoints.txt")) {
    if (line.starts_with("#")) continue;
    std::istringstream in(line);
    std::string what, kind;
    uint32_t first = 0, last = 0, part = 0;
    in >> what >> std::hex >> first >> last >> kind;
    REQUIRE(first <= last);
    REQUIRE(last < kCodePoints);
    std::string becomes;
    while (in >> part) becomes += utf8(part);
    for (uint32_t code = first; code <= last; ++code) {
      if (what == "split") split[code] = kind == "alone" ? 'a' : 'b';
      else if (what == "mark") mark[code] = true;
      else if (what == "number") number[code] = true;
      else if (kind == "removed") normal[code] = "";
      else if (kind == "space") normal[code] = " ";
      else if (kind == "spaced") normal[code] = " " + utf8(code) + " ";
      else if (kind == "jamo") normal[code] = jamo(code);
      else normal[code] = becomes;
    }
  }

  BertNormalizer normalizer(BertNormalizerOptions{});
  BertPreTokenizer pre_tokenizer;
  NormalizedText text;
  std::vector<ByteRange> words;
  size_t different = 0;
  for (char32_t code = 0; code < kCodePoints; ++code) {
    if (code >= 0xd800 && code < 0xe000) continue;
    std::string between = "a" + utf8(code) + "b";
    normalizer.normalize(between, 0, text);
    bool same =
        text.text() == "a" + normal[code] + "b" && is_mark(code) == mark[code] && is_numeric(code) == number[code];
    text.assign(between, 0);
    words.assign(1, {0, static_cast<uint32_t>(between.size())});
    pre_tokenizer.split(text, words);
    size_t end = between.size() - 1;
    same &= words.size() == (split[code] == 'w' ? 1 : split[code] == 'a' ? 3 : 2);
    if (split[code] == 'a') same &= words.size() == 3 && words[1].begin == 1 && words[1].end == end;
    if (!same && ++different <= 10) FAIL_CHECK("U+" << std::hex << static_cast<uint32_t>(code) << " differs");
  }
  CHECK(different == 0);
}

TEST_CASE("5,000 varied lines have the ids that the tokenizers package gives them") {
  std::string folder = model_folder();
  if (folder.empty()) {
    MESSAGE(
        "skipped: all-MiniLM-L6-v2 is not here; scripts/fetch_minilm.py fetches it, RLX_MODEL names a "
        "folder");
    return;
  }
  for (const char* file : {"/tokenizer.json", "/vocab.txt"}) {
    CAPTURE(file);
    Tokenizer tokenizer = Tokenizer::load(folder + file);
    tokenizer.set_truncation(std::nullopt);
    tokenizer.set_padding(std::nullopt);
    check_ids(tokenizer, "tests/golden/tokenizer/ids.jsonl");
    tokenizer.set_truncation(Truncation{.max_length = 256});
    check_ids(tokenizer, "tests/golden/tokenizer/ids_256.jsonl");
  }
}

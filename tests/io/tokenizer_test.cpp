// What the tokenizer does beside the package it follows: loading, settings, batches, texts that are not UTF-8.
#include <doctest/doctest.h>

#include "io/tokenizer/utf8.h"
#include "io/tokenizer/vocabulary.h"
#include "rlx/tokenizer.h"
#include "support/io_files.h"

using namespace rlx;
using namespace rlx::test;

namespace {

const char* kLines = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nHello\nhello\nworld\n##s\n!\ncafe\ncafé\n##é\n";

using Ids = std::vector<int32_t>;

}  // namespace

TEST_CASE("a vocab.txt makes BERT's tokenizer, with the options of tokenizer_config.json") {
  TemporaryFolder folder;
  put_file(folder / "vocab.txt", kLines);
  Tokenizer lowering = Tokenizer::load(folder / "");
  CHECK(lowering.encode("Hello worlds! Café [MASK]").ids == Ids{2, 6, 7, 8, 9, 10, 4, 3});
  CHECK(lowering.encode_pair("hello", "world").type_ids == Ids{0, 0, 0, 1, 1});

  put_file(folder / "tokenizer_config.json", R"({"do_lower_case": false, "model_max_length": 512})");
  Tokenizer cased = Tokenizer::load(folder / "vocab.txt");
  CHECK(cased.encode("Hello worlds! café").ids == Ids{2, 5, 7, 8, 9, 11, 3});
  CHECK(cased.decode(Ids{2, 5, 7, 8, 9, 3}) == "Hello worlds!");
}

TEST_CASE("lines of a vocab.txt may end with a carriage return") {
  Tokenizer tokenizer = Tokenizer::from_vocabulary("[UNK]\r\n[CLS]\r\n[SEP]\r\nword\r\n");
  CHECK(tokenizer.encode("word").ids == Ids{1, 3, 2});
}

TEST_CASE("a folder with a tokenizer.json is read from that") {
  TemporaryFolder folder;
  put_file(folder / "vocab.txt", kLines);
  put_file(folder / "tokenizer.json",
           R"({"model": {"type": "WordPiece", "unk_token": "?", "continuing_subword_prefix": "",
    "max_input_chars_per_word": 10, "vocab": {"?": 0, "a": 1, "ab": 2}}})");
  CHECK(Tokenizer::load(folder / "").encode("abaab").ids == Ids{2, 1, 2});
  CHECK(Tokenizer::load(folder / "").encode("ababababab").ids == Ids{2, 2, 2, 2, 2});
  CHECK(Tokenizer::load(folder / "").encode("abababababa").ids == Ids{0});
}

TEST_CASE("tokens and ids are looked up both ways, and a missing one is no error") {
  Tokenizer tokenizer = Tokenizer::from_vocabulary(kLines);
  CHECK(tokenizer.vocab_size() == 13);
  CHECK(tokenizer.token_to_id("[MASK]") == 4);
  CHECK(tokenizer.token_to_id("##s") == 8);
  CHECK(tokenizer.token_to_id("nothing") == std::nullopt);
  CHECK(tokenizer.id_to_token(11) == "café");
  CHECK(tokenizer.id_to_token(13) == std::nullopt);
  CHECK(tokenizer.id_to_token(-1) == std::nullopt);
  CHECK(tokenizer.decode(Ids{-1, 6, 99}) == "hello");
}

TEST_CASE("a batch is padded to its longest text") {
  Tokenizer tokenizer = Tokenizer::from_vocabulary(kLines);
  tokenizer.set_padding(Padding{});
  std::vector<std::string> texts = {"hello", "", "hello hello world"};
  auto batch = tokenizer.encode_batch(texts);
  CHECK(batch[0].ids == Ids{2, 6, 3, 0, 0});
  CHECK(batch[1].ids == Ids{2, 3, 0, 0, 0});
  CHECK(batch[2].ids == Ids{2, 6, 6, 7, 3});
  CHECK(batch[1].attention_mask == Ids{1, 1, 0, 0, 0});
  tokenizer.set_padding(Padding{.pad_to_multiple_of = 4, .side = Side::left});
  CHECK(tokenizer.encode_batch(texts)[0].ids == Ids{0, 0, 0, 0, 0, 2, 6, 3});
  CHECK(tokenizer.encode_batch(std::vector<std::string>{}).empty());
}

TEST_CASE("settings change one tokenizer and not its copies") {
  Tokenizer tokenizer = Tokenizer::from_vocabulary(kLines), copy = tokenizer;
  tokenizer.set_truncation(Truncation{.max_length = 3});
  CHECK(tokenizer.encode("hello world").ids == Ids{2, 6, 3});
  CHECK(copy.encode("hello world").ids == Ids{2, 6, 7, 3});
}

TEST_CASE("offsets are bytes of the given text also where it is not UTF-8") {
  Tokenizer tokenizer = Tokenizer::from_vocabulary(kLines);
  std::string text = "\xff\xff hello\xe2\x82 w\xc0orld \xf0\x9f";
  Encoding encoding = tokenizer.encode(text, false);
  REQUIRE(encoding.ids == Ids{6, 7});
  CHECK(encoding.offsets[0] == TextSpan{3, 8});
  CHECK(encoding.offsets[1] == TextSpan{11, 17});
}

TEST_CASE("repaired text is valid and knows where each byte came from") {
  auto repaired = tokenizer::repair_utf8("a\xed\xa0\x80\xe2\x82\xac");
  CHECK(repaired.text == "a\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xe2\x82\xac");
  CHECK(tokenizer::valid_utf8_prefix(repaired.text) == repaired.text.size());
  CHECK(repaired.source == std::vector<uint32_t>{0, 1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4, 7});
}

TEST_CASE("a token that comes twice keeps its last id, and an id that comes twice its first token") {
  tokenizer::Vocabulary vocabulary;
  vocabulary.add("a", 0);
  vocabulary.add("b", 1);
  vocabulary.add("a", 2);
  vocabulary.add("c", 2);
  CHECK(vocabulary.size() == 3);
  CHECK(vocabulary.find("a") == 2);
  CHECK(vocabulary.token(0) == std::nullopt);
  CHECK(vocabulary.token(2) == "a");
  CHECK(vocabulary.find("") == tokenizer::Vocabulary::kNone);
}

TEST_CASE("a vocabulary finds all of its tokens, however many there are") {
  tokenizer::Vocabulary vocabulary;
  for (int i = 0; i < 5000; ++i) vocabulary.add("t" + std::to_string(i), 3 * i);
  for (int i = 0; i < 5000; ++i) {
    CHECK(vocabulary.find("t" + std::to_string(i)) == 3 * i);
    CHECK(vocabulary.token(3 * i) == "t" + std::to_string(i));
  }
  CHECK(vocabulary.find("t5000") == tokenizer::Vocabulary::kNone);
}

TEST_CASE("a word of a million letters is one unknown token, or many known ones, in reasonable time") {
  std::string word(1'000'000, 'a');
  Tokenizer tokenizer = Tokenizer::from_vocabulary("[UNK]\n[CLS]\n[SEP]\na\n##a\n##" + std::string(60, 'a') + "b\n");
  CHECK(tokenizer.encode(word, false).ids == Ids{0});
  Tokenizer patient = Tokenizer::from_json(
      R"({"model": {"type": "WordPiece", "unk_token": "?", "continuing_subword_prefix": "##",
      "max_input_chars_per_word": 10000000, "vocab": {"?": 0, "a": 1, "##a": 2, "##)" +
      std::string(60, 'a') + R"(b": 3}}})");
  CHECK(patient.encode(word).size() == word.size());
}

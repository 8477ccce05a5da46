// What a tokenizer's file that is missing, damaged, foreign or hostile is answered with.
#include <doctest/doctest.h>

#include "rlx/tokenizer.h"
#include "support/io_files.h"

using namespace rlx;
using namespace rlx::test;

namespace {

constexpr const char* kModel =
    R"("model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
  "max_input_chars_per_word": 100, "vocab": {"[UNK]": 0, "a": 1, "[CLS]": 2}})";

/// The message without the line that says what was being read.
std::string refusal(const std::string& json) {
  std::string context = "\n  while reading a tokenizer from JSON",
              text = message_of([&] { Tokenizer::from_json(json); });
  REQUIRE(text.ends_with(context));
  return text.substr(0, text.size() - context.size());
}
/// That of a file with the model above and another member.
std::string refusal_with(const std::string& member) { return refusal("{" + std::string(kModel) + ", " + member + "}"); }
/// That of a file whose model has this member instead of the one above.
std::string refusal_of_model(const std::string& from, const std::string& to) {
  std::string json = "{" + std::string(kModel) + "}";
  size_t at = json.find(from);
  REQUIRE(at != std::string::npos);
  return refusal(json.replace(at, from.size(), to));
}
std::string added(const std::string& id, const std::string& content,
                  const std::string& rest = R"("normalized": false)") {
  return R"("added_tokens": [{"id": )" + id + R"(, "content": )" + content +
         R"(, "single_word": false, "lstrip": false, "rstrip": false, "special": true, )" + rest + "}]";
}

}  // namespace

TEST_CASE("a path where nothing is, and a folder without a tokenizer, say so") {
  TemporaryFolder folder;
  std::string path = folder / "no.json";
  CHECK(error_of([&] { Tokenizer::load(path); }).code() == ErrorCode::not_found);
  CHECK(message_of([&] { Tokenizer::load(path); }) == "there is no file or folder '" + path + "'");
  path = folder / "";
  CHECK(message_of([&] { Tokenizer::load(path); }) ==
        "the folder '" + path + "' has neither a tokenizer.json nor a vocab.txt");
}

TEST_CASE("a message names the file that was being loaded") {
  TemporaryFolder folder;
  put_file(folder / "tokenizer.json", "{}");
  CHECK(message_of([&] { Tokenizer::load(folder / ""); }) ==
        "the file: 'model' is missing\n  while reading a tokenizer from JSON\n  while loading '" +
            (folder / "tokenizer.json") + "'");
  put_file(folder / "vocab.txt", "[UNK]\n");
  put_file(folder / "tokenizer_config.json", R"({"do_lower_case": "yes"})");
  CHECK(message_of([&] { Tokenizer::load(folder / "vocab.txt"); }) ==
        "do_lower_case: expected true or false, but it is \"yes\"\n  while loading '" +
            (folder / "tokenizer_config.json") + "'\n  while loading '" + (folder / "vocab.txt") + "'");
}

TEST_CASE("text that is no JSON, or is cut, says where") {
  CHECK(refusal("").starts_with("this is no JSON: parse error at line 1, column 1: "));
  CHECK(refusal(R"({"model": {"type": "WordPie)").starts_with("this is no JSON: parse error at line 1, column 28: "));
  CHECK(
      refusal(std::string(100'000, '[')).starts_with("values in JSON are read up to 200 deep, and these nest deeper"));
  CHECK(refusal("[]") == "the file: expected an object, but it is an array of 0 elements");
}

TEST_CASE("a member of the wrong type is named by its place") {
  CHECK(refusal_of_model("100", "\"many\"") ==
        "model.max_input_chars_per_word: expected an integer, but it is \"many\"");
  CHECK(refusal_of_model("100", "-1") ==
        "model.max_input_chars_per_word: expected an integer from 0 to 9223372036854775807, but it is -1");
  CHECK(refusal_of_model("100", "18446744073709551615") ==
        "model.max_input_chars_per_word: expected an integer from 0 to 9223372036854775807, but it is "
        "18446744073709551615");
  CHECK(refusal_of_model("100", "1e2") == "model.max_input_chars_per_word: expected an integer, but it is 100.0");
  CHECK(refusal_of_model("\"[UNK]\",", "7,") == "model.unk_token: expected a string, but it is 7");
  CHECK(refusal_of_model("\"[UNK]\",", "null,") == "model: 'unk_token' is missing");
  CHECK(refusal_with(R"("added_tokens": {})") == "added_tokens: expected an array, but it is an object of 0 members");
  CHECK(refusal_with(R"("added_tokens": [7])") == "added_tokens[0]: expected an object, but it is 7");
  CHECK(refusal_with(R"("version": "2.0")") == "version: expected '1.0'");
}

TEST_CASE("a vocabulary with ids that are none is refused before memory is taken for it") {
  CHECK(refusal_of_model("\"a\": 1", "\"a\": \"1\"") == "model.vocab['a']: expected an integer, but it is \"1\"");
  CHECK(refusal_of_model("\"a\": 1", "\"a\": -1") ==
        "model.vocab['a']: expected an integer from 0 to 2097151, but it is -1");
  CHECK(refusal_of_model("\"a\": 1", "\"a\": 4294967295") ==
        "model.vocab['a']: expected an integer from 0 to 2097151, but it is 4294967295");
  CHECK(refusal_of_model("\"a\": 1", "\"a\": {\"b\": 1}") ==
        "model.vocab['a']: expected an integer, but it is an object or an array");
  CHECK(refusal_of_model("\"a\"", "\"" + std::string(5000, 'x') + "\"") ==
        "token 1 has 5000 bytes, more than the 4096 that a token may have; it begins '" + std::string(80, 'x') + "'");
  CHECK(refusal(R"({"model": {"type": "WordPiece", "unk_token": "u", "continuing_subword_prefix": "",
    "max_input_chars_per_word": 1, "vocab": [["u", 0.5]]}})") ==
        "model.vocab: expected an object, but it is an array of 1 elements");
}

TEST_CASE("a vocabulary without its unknown token says so") {
  CHECK(refusal_of_model("\"[UNK]\": 0", "\"unk\": 0") ==
        "the vocabulary of 3 tokens lacks the unknown token '[UNK]' that unk_token names");
}

TEST_CASE("a kind that is not offered is named with those that are") {
  CHECK(refusal_of_model("WordPiece", "Neural") ==
        "model.type: the model 'Neural' is not offered; those that are: BPE, Unigram, WordLevel, WordPiece");
  CHECK(error_of([] { Tokenizer::from_json(R"({"model": {"type": "Neural"}})"); }).code() == ErrorCode::unsupported);
  CHECK(refusal_with(R"("normalizer": {"type": "NFX"})") ==
        "normalizer.type: the normalizer 'NFX' is not offered; those that are: BertNormalizer, ByteLevel, Lowercase, "
        "NFC, NFD, NFKC, NFKD, Nmt, Precompiled, Prepend, Replace, Sequence, Strip, StripAccents, null");
  CHECK(refusal_with(R"("pre_tokenizer": {"type": "UnicodeScripts"})") ==
        "pre_tokenizer.type: the pre-tokenizer 'UnicodeScripts' is not offered; those that are: BertPreTokenizer, "
        "ByteLevel, CharDelimiterSplit, Digits, FixedLength, Metaspace, Punctuation, Sequence, Split, Whitespace, "
        "WhitespaceSplit, null");
  CHECK(refusal_with(R"("post_processor": {"type": "Other"})") ==
        "post_processor.type: the post-processor 'Other' is not offered; those that are: BertProcessing, ByteLevel, "
        "RobertaProcessing, Sequence, TemplateProcessing, null");
  CHECK(refusal_with(R"("decoder": {"type": "Other"})") ==
        "decoder.type: the decoder 'Other' is not offered; those that are: BPEDecoder, ByteFallback, ByteLevel, CTC, "
        "Fuse, Metaspace, Replace, Sequence, Strip, WordPiece, null");
}

TEST_CASE("added tokens that contradict the vocabulary or are empty are refused") {
  CHECK(refusal_with(added("9", "\"a\"")) == "the added token 'a' has id 9, but id 1 in the model's vocabulary");
  CHECK(refusal_with(added("1", "\"new\"")) ==
        "the added token 'new' has id 1, which is that of 'a' in the model's vocabulary");
  CHECK(refusal_with(added("9", "\"\"")) == "the added token with id 9 has no text");
  CHECK(refusal_with(added("20000000", "\"new\"")) ==
        "the added token 'new' has id 20000000; ids are 0 to 2097151 here");
  CHECK(refusal_with(
            R"("normalizer": {"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true,
    "lowercase": true}, )" +
            added("9", R"("\u0301")", R"("normalized": true)")) ==
        "nothing is left of the added token '\u0301' when it is normalized");
}

TEST_CASE("a template that does not fit is refused") {
  auto post = [](const std::string& single, const std::string& tokens) {
    return R"("post_processor": {"type": "TemplateProcessing", "single": )" + single +
           R"(, "pair": [], "special_tokens": )" + tokens + "}";
  };
  CHECK(refusal_with(post(R"([{"SpecialToken": {"id": "[CLS]", "type_id": 0}}])", "{}")) ==
        "post_processor.special_tokens: '[CLS]' is missing");
  CHECK(refusal_with(post(R"([{"SpecialToken": {"id": "[CLS]", "type_id": 0}}])",
                          R"({"[CLS]": {"id": "[CLS]", "ids": [2, 2], "tokens": ["[CLS]"]}})")) ==
        "post_processor.special_tokens.[CLS]: 2 ids do not belong to 1 tokens");
  CHECK(refusal_with(post(R"([{"Sequence": {"id": "C", "type_id": 0}}])", "{}")) ==
        "post_processor.single[0].Sequence.id: expected 'A' or 'B'");
  CHECK(refusal_with(post(R"([{"Sequence": {"id": "B", "type_id": 0}}])", "{}")) ==
        "the template for a single text uses a second text, B");
  CHECK(refusal_with(post("[{}]", "{}")) == "post_processor.single[0]: expected a Sequence or a SpecialToken");
}

TEST_CASE("a template that would multiply special tokens or texts without end is refused") {
  auto post = [](const std::string& piece, size_t pieces, const std::string& ids, const std::string& tokens) {
    std::string single;
    for (size_t i = 0; i < pieces; ++i) single += (i ? "," : "") + piece;
    return R"("post_processor": {"type": "TemplateProcessing", "single": [)" + single +
           R"(], "pair": [], "special_tokens": {"x": {"id": "x", "ids": [)" + ids + R"(], "tokens": [)" + tokens +
           "]}}}";
  };
  const std::string special = R"({"SpecialToken": {"id": "x", "type_id": 0}})";
  std::string ids = "2", tokens = "\"x\"";
  for (size_t i = 1; i < 1000; ++i) ids += ",2", tokens += ",\"x\"";
  CHECK_NOTHROW(Tokenizer::from_json("{" + std::string(kModel) + ", " + post(special, 4, ids, tokens) + "}"));
  CHECK(refusal_with(post(special, 1000, ids, tokens)) ==
        "post_processor.single[4]: with the 1000 ids of this piece the template has 5000 special tokens, more than "
        "the 4096 that one may have");
  CHECK(refusal_with(post(special, 1, "2", "\"" + std::string(5000, 'x') + "\"")) ==
        "post_processor.special_tokens.x.tokens[0]: the token has 5000 bytes, more than the 4096 that a token may "
        "have");
  const std::string text = R"({"Sequence": {"id": "A", "type_id": 0}})";
  CHECK_NOTHROW(Tokenizer::from_json("{" + std::string(kModel) + ", " + post(text, 16, "2", "\"x\"") + "}"));
  CHECK(refusal_with(post(text, 1000, "2", "\"x\"")) ==
        "post_processor.single[16]: the template puts in 17 texts or more, more than the 16 that one may");
}

TEST_CASE("padding and truncation that ask for the impossible are refused") {
  auto padding = [](const std::string& strategy, const std::string& direction) {
    return R"("padding": {"strategy": )" + strategy + R"(, "direction": )" + direction +
           R"(, "pad_to_multiple_of": null, "pad_id": 0, "pad_type_id": 0, "pad_token": "[PAD]"})";
  };
  std::string json = "{" + std::string(kModel) + ", " + padding(R"({"Fixed": 1000000000000})", "\"Right\"") + "}";
  CHECK(message_of([&] { Tokenizer::from_json(json); }) ==
        "padding to 1000000000000 tokens, a multiple of 0, is beyond the 1048576 that an encoding is padded "
        "to");
  CHECK(refusal_with(padding("\"Longest\"", "\"Right\"")) ==
        "padding.strategy: expected 'BatchLongest' or {'Fixed': n}");
  CHECK(refusal_with(padding("\"BatchLongest\"", "\"Up\"")) == "padding.direction: expected 'Left' or 'Right'");
  CHECK(refusal_with(R"("truncation": {"max_length": 8, "stride": 0, "strategy": "Both"})") ==
        "truncation.strategy: expected 'LongestFirst', 'OnlyFirst' or 'OnlySecond'");
}

TEST_CASE("a vocab.txt without the special tokens, or of another encoding, is refused") {
  CHECK(message_of([] { Tokenizer::from_vocabulary("a\nb\n"); }) ==
        "the vocabulary of 2 lines has no line '[CLS]', which BERT's tokenizer needs\n"
        "  while reading a tokenizer from a vocabulary");
  CHECK(message_of([] { Tokenizer::from_vocabulary("a\n\xff\n"); }) ==
        "byte 2 of the vocabulary is not UTF-8\n  while reading a tokenizer from a vocabulary");
}

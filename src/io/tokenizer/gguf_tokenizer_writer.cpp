// See the header. What stands in the metadata is as llama.cpp's converter writes it (conversion/base.py and gguf-py's
// vocab.py); which `pre` a byte-pair model has it knows by a hash of what known tokenizers make of a text. Here the
// kinds of gguf_pre_kinds.cpp are asked to split texts, and the one that splits as the folder's tokenizer does is it.
// The scores of SentencePiece's BPE tokens, which tokenizer.json does not have, are the places of their merges.
#include "io/tokenizer/gguf_tokenizer_writer.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "io/json_tree.h"
#include "io/names_in_messages.h"
#include "io/tokenizer/base64.h"
#include "io/tokenizer/bpe.h"
#include "io/tokenizer/compared_tokenizers.h"
#include "io/tokenizer/gguf_tokenizer.h"
#include "io/tokenizer/normalizers.h"
#include "io/tokenizer/parts.h"
#include "io/tokenizer/tokenizer_json.h"
#include "io/tokenizer/utf8.h"
#include "rlx/error.h"

namespace rlx::tokenizer {
namespace gguf_writer {  // a unity build puts all of the folder into one file
namespace {

// ---- what all kinds have ----

struct TokenTable {
  std::vector<std::string> texts;
  std::vector<int32_t> types;
};

/// As llama.cpp's converter knows them: files call some of them not special.
bool looks_special(const std::string& text) {
  const auto is_between = [&](std::string_view begin, std::string_view end) {
    return text.size() >= begin.size() + end.size() && text.starts_with(begin) && text.ends_with(end);
  };
  return text == "<pad>" || text == "<mask>" || text == "<2mass>" || text == "[@BOS@]" || is_between("<|", "|>") ||
         is_between("<｜", "｜>") || is_between("<unused", ">");
}

TokenTable tokens_of(const Source& source, int64_t vocabulary) {
  TokenTable tokens;
  int64_t last = -1;
  for (const auto& each : source.added) last = std::max(last, each.first);
  const Vocabulary& known = source.parts->model->vocabulary();
  for (int64_t id = 0; id < vocabulary; ++id) {
    const auto added = source.added.find(id);
    if (added != source.added.end()) {
      const bool is_control = added->second.special || looks_special(added->second.content);
      tokens.texts.push_back(added->second.content);
      tokens.types.push_back(is_control ? token_type::kControl : token_type::kUserDefined);
      continue;
    }
    const auto text = known.token(id);
    tokens.texts.push_back(text ? std::string(*text) : text_of("[PAD", id, "]"));
    tokens.types.push_back(text ? token_type::kNormal : token_type::kUnused);
  }
  for (int64_t id = vocabulary; id <= Vocabulary::kMaxId && last < vocabulary; ++id)
    if (known.token(id)) last = id;
  if (last >= vocabulary)
    fail(ErrorCode::unsupported, "the tokenizer has a token ", last, ", but the model's table has ", vocabulary,
         " rows");
  return tokens;
}

GgufValue texts_value(std::vector<std::string> texts) { return GgufArray{std::move(texts)}; }

// ---- byte-level BPE ----

std::vector<std::string> words_of(const PreTokenizer& pre, const std::string& text) {
  NormalizedText all;
  all.assign(text, 0);
  std::vector<ByteRange> words = {{0, static_cast<uint32_t>(text.size())}};
  pre.split(all, words);
  std::vector<std::string> out;
  for (const ByteRange& word : words) out.emplace_back(all.text().substr(word.begin, word.end - word.begin));
  return out;
}

Bpe bpe_without_ignored_merges(const Vocabulary& known, const std::vector<std::pair<std::string, std::string>>& pairs) {
  Vocabulary vocabulary;
  vocabulary.reserve(known.size());
  for (int64_t id = 0; id <= Vocabulary::kMaxId; ++id)
    if (const auto text = known.token(id)) vocabulary.add_unless_known(*text, id);
  const Bpe::Merges merges(pairs.begin(), pairs.end());
  return Bpe(std::move(vocabulary), merges, {});
}

/// The first kind that splits as this one does, and says the same of merges; else one that only splits so.
std::string pre_of(const Source& source) {
  std::vector<std::string> texts = written_texts();
  for (std::string& text : random_texts(1000)) texts.push_back(std::move(text));
  std::vector<std::vector<std::string>> wanted;
  for (const std::string& text : texts) wanted.push_back(words_of(*source.parts->pre_tokenizer, text));
  std::string other;
  for (const std::string& name : pre_kind_names()) {
    const PreKind kind = pre_kind(name);
    if (kind.raw_utf8) continue;
    const auto pre = pre_tokenizer_of(kind);
    bool is_equal = true;
    for (size_t i = 0; is_equal && i < texts.size(); ++i) is_equal = words_of(*pre, texts[i]) == wanted[i];
    if (!is_equal) continue;
    if (kind.ignore_merges == source.flag("ignore_merges")) return name;
    if (other.empty()) other = name;
  }
  if (other.empty())
    fail(ErrorCode::unsupported,
         "no kind of tokenizer.ggml.pre splits text as the pre_tokenizer of tokenizer.json does");
  // Whether a word that is a token is taken apart first makes no difference if its merges give that very token.
  const Vocabulary& known = source.parts->model->vocabulary();
  const auto pairs = source.merges();
  const Bpe bpe = bpe_without_ignored_merges(known, pairs);
  std::vector<Piece> pieces;
  for (int64_t id = 0; id <= Vocabulary::kMaxId; ++id) {
    const auto text = known.token(id);
    if (!text || text->empty() || source.added.contains(id)) continue;
    pieces.clear();
    bpe.tokenize(*text, {0, static_cast<uint32_t>(text->size())}, pieces);
    if (pieces.size() != 1 || pieces[0].id != id)
      fail(ErrorCode::unsupported, "'ignore_merges' in tokenizer.json is ",
           source.flag("ignore_merges") ? "true" : "false",
           ", and the kinds of tokenizer.ggml.pre that split text so say the other; the token ",
           shown(std::string(*text)), " would come otherwise");
  }
  return other;
}

VocabularyAsGguf byte_level(const Source& source, TokenTable tokens) {
  for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"})
    if (!source.text(key).empty())
      fail(ErrorCode::unsupported, "'", key, "' in tokenizer.json is ", shown(source.text(key)),
           ", for which GGUF has no word");
  VocabularyAsGguf made;
  GgufMetadata& m = made.metadata;
  const bool composes = source.has("normalizer", "normalizers", "NFC");
  if (composes)
    made.notes.emplace_back(
        "the tokenizer brings text to normal form C first, for which GGUF has no word: llama.cpp reads it as it is");
  m.emplace_back("tokenizer.ggml.model", std::string("gpt2"));
  m.emplace_back("tokenizer.ggml.pre", pre_of(source));
  m.emplace_back("tokenizer.ggml.tokens", texts_value(std::move(tokens.texts)));
  m.emplace_back("tokenizer.ggml.token_type", GgufArray{std::move(tokens.types)});
  std::vector<std::string> merges;
  for (const auto& [left, right] : source.merges()) merges.push_back(left + " " + right);
  m.emplace_back("tokenizer.ggml.merges", texts_value(std::move(merges)));
  return made;
}

// ---- SentencePiece's BPE ----

/// Scores by which merging neighbours whose text is a token gives what the merges give. Fails if no scores do: tokens
/// that two others make without a merge, or whose merges do not stand together.
std::vector<float> scores_of(const Source& source, const TokenTable& tokens) {
  std::unordered_map<std::string, size_t> ids;
  for (size_t id = 0; id < tokens.texts.size(); ++id)
    if (tokens.types[id] == token_type::kNormal || tokens.types[id] == token_type::kUserDefined)
      ids.emplace(tokens.texts[id], id);
  constexpr float kNone = 1;
  std::vector<float> scores(tokens.texts.size(), kNone);
  std::unordered_set<std::string> merged;
  float next = 0;
  std::string before;
  for (const auto& [left, right] : source.merges()) {
    const std::string whole = left + right;
    merged.insert(left + " " + right);
    const auto at = ids.find(whole);
    if (at == ids.end() || whole == before) continue;
    const bool is_normal = tokens.types[at->second] == token_type::kNormal;
    if (scores[at->second] != kNone && !is_normal) continue;  // added tokens are found in text before it is merged
    if (scores[at->second] != kNone)
      fail(ErrorCode::unsupported, "the merges that make the token ", shown(whole),
           " do not stand together, which scores of SentencePiece cannot say");
    scores[at->second] = -next++;
    before = whole;
  }
  for (size_t id = 0; id < tokens.texts.size(); ++id) {
    const std::string& text = tokens.texts[id];
    if (scores[id] == kNone)
      scores[id] = tokens.types[id] == token_type::kNormal ? -next++
                   : tokens.types[id] == token_type::kByte ? 0
                                                           : -1000;
    if (tokens.types[id] != token_type::kNormal) continue;
    for (size_t split = utf8_size(text.empty() ? 'a' : text[0]); split < text.size(); split += utf8_size(text[split])) {
      const std::string left = text.substr(0, split), right = text.substr(split);
      if (ids.contains(left) && ids.contains(right) && !merged.contains(left + " " + right))
        fail(ErrorCode::unsupported, "the tokens ", shown(left), " and ", shown(right), " are together the token ",
             shown(text), ", but no merge joins them, as SentencePiece's scores would");
    }
  }
  return scores;
}

bool is_byte_token(const std::string& text) {
  return text.size() == 6 && text.starts_with("<0x") && text[5] == '>' &&
         text.find_first_not_of("0123456789ABCDEF", 3) == 5;
}

/// `has_spaces`: added tokens stand in the file with spaces where tokenizer.json has U+2581, as llama.cpp's converter
/// writes them, because readers find them in text before spaces are written so.
VocabularyAsGguf sentence_piece(const Source& source, TokenTable tokens, bool has_spaces) {
  VocabularyAsGguf made;
  GgufMetadata& m = made.metadata;
  for (size_t id = 0; id < tokens.texts.size(); ++id) {
    std::string& text = tokens.texts[id];
    if (is_byte_token(text)) tokens.types[id] = token_type::kByte;
    if (text == source.text("unk_token") && !text.empty()) tokens.types[id] = token_type::kUnknown;
    if (tokens.types[id] != token_type::kUserDefined || !has_spaces) continue;
    for (size_t at = text.find(kSpaceMark); at != text.npos; at = text.find(kSpaceMark, at))
      text.replace(at, kSpaceMark.size(), " ");
  }
  std::vector<float> scores = scores_of(source, tokens);
  m.emplace_back("tokenizer.ggml.model", std::string("llama"));
  m.emplace_back("tokenizer.ggml.pre", std::string("default"));
  m.emplace_back("tokenizer.ggml.tokens", texts_value(std::move(tokens.texts)));
  m.emplace_back("tokenizer.ggml.scores", GgufArray{std::move(scores)});
  m.emplace_back("tokenizer.ggml.token_type", GgufArray{std::move(tokens.types)});
  return made;
}

// ---- Unigram and WordPiece ----

/// As llama.cpp's converter writes them for tokens that are no pieces: none is ever the better way to write a text.
constexpr float kNoScore = -10000;

VocabularyAsGguf unigram(const Source& source, TokenTable tokens) {
  if (source.flag("byte_fallback"))
    fail(ErrorCode::unsupported,
         "'byte_fallback' in tokenizer.json is true, and in files of Unigram ('t5') characters without a token are "
         "unknown");
  std::vector<float> scores(tokens.texts.size(), kNoScore);
  const auto& pieces = source.model("vocab")->elements();  // parts_from_json has seen that they are pairs
  for (size_t id = 0; id < std::min(pieces.size(), scores.size()); ++id)
    scores[id] = static_cast<float>(pieces[id].elements().at(1).number());
  VocabularyAsGguf made;
  GgufMetadata& m = made.metadata;
  m.emplace_back("tokenizer.ggml.model", std::string("t5"));
  m.emplace_back("tokenizer.ggml.pre", std::string("default"));
  if (const JsonTree* unk = source.model("unk_id")) {
    const int64_t id = unk->integer();
    tokens.types.at(static_cast<size_t>(id)) = token_type::kUnknown;
    m.emplace_back("tokenizer.ggml.unknown_token_id", static_cast<uint32_t>(id));
  } else {
    fail(ErrorCode::unsupported, "the tokenizer has no 'unk_id', and readers of GGUF take one for granted");
  }
  m.emplace_back("tokenizer.ggml.tokens", texts_value(std::move(tokens.texts)));
  m.emplace_back("tokenizer.ggml.scores", GgufArray{std::move(scores)});
  m.emplace_back("tokenizer.ggml.token_type", GgufArray{std::move(tokens.types)});
  if (const std::string* table = source.charsmap()) {
    const std::string bytes = decode_base64(*table);
    m.emplace_back("tokenizer.ggml.precompiled_charsmap", GgufArray{std::vector<uint8_t>(bytes.begin(), bytes.end())});
    made.notes.emplace_back(
        "the table of characters is applied to each character by itself, as SentencePiece does it: the folder's "
        "tokenizer may leave out marks behind a character");
  }
  return made;
}

/// Tokens that begin a word have U+2581 in front in the file, those that continue one nothing.
VocabularyAsGguf word_piece(const Source& source, TokenTable tokens) {
  const JsonTree* named = source.model("continuing_subword_prefix");
  const std::string prefix = named ? named->string() : "##", unk = source.text("unk_token");
  VocabularyAsGguf made;
  GgufMetadata& m = made.metadata;
  for (size_t id = 0; id < tokens.texts.size(); ++id) {
    std::string& text = tokens.texts[id];
    int32_t& type = tokens.types[id];
    if (text == unk && type == token_type::kNormal) type = token_type::kUnknown;
    if (type == token_type::kNormal)
      text = text.starts_with(prefix) ? text.substr(prefix.size()) : std::string(kSpaceMark) + text;
  }
  m.emplace_back("tokenizer.ggml.model", std::string("bert"));
  m.emplace_back("tokenizer.ggml.pre", std::string("default"));
  m.emplace_back("tokenizer.ggml.tokens", texts_value(std::move(tokens.texts)));
  m.emplace_back("tokenizer.ggml.token_type", GgufArray{std::move(tokens.types)});
  if (const auto id = source.tokenizer.token_to_id(unk))
    m.emplace_back("tokenizer.ggml.unknown_token_id", static_cast<uint32_t>(*id));
  const Around around = around_of(source.tokenizer);
  if (!around.before || !around.behind)
    fail(ErrorCode::unsupported,
         "the tokenizer is WordPiece without a token in front of each text and one behind it, and llama.cpp puts them "
         "there");
  m.emplace_back("tokenizer.ggml.cls_token_id", static_cast<uint32_t>(*around.before));
  m.emplace_back("tokenizer.ggml.seperator_token_id", static_cast<uint32_t>(*around.behind));  // so spelled there
  made.notes.emplace_back(
      "words of more letters than 'max_input_chars_per_word' are unknown to the folder's tokenizer, and have tokens by "
      "the file, as GGUF has no word for it");
  return made;
}

// ---- the whole ----

enum class Form { byte_level, sentence_piece, unigram, word_piece };

/// What a file may say of text in front of the tokens: the first that gives the folder's tokens is it.
std::vector<GgufMetadata> ways_of_text(Form form) {
  const auto of_two = [](const char* one, const char* two) {
    std::vector<GgufMetadata> all;
    for (const bool first : {true, false})
      for (const bool second : {true, false})
        all.push_back({{text_of("tokenizer.ggml.", one), first}, {text_of("tokenizer.ggml.", two), second}});
    return all;
  };
  switch (form) {
    case Form::byte_level: return {{}};
    case Form::sentence_piece:
      return {{{"tokenizer.ggml.add_space_prefix", true}}, {{"tokenizer.ggml.add_space_prefix", false}}};
    case Form::unigram: return of_two("add_space_prefix", "remove_extra_whitespaces");
    case Form::word_piece: return of_two("normalizer.lowercase", "normalizer.strip_accents");
  }
  return {};
}

/// Adds what stands around texts, and asks for the tokens of many. What differs; empty if nothing does.
std::string finish(const Source& source, Form form, VocabularyAsGguf& made) {
  GgufMetadata& m = made.metadata;
  const bool is_sentence_piece = form == Form::sentence_piece;
  if (is_sentence_piece) {
    if (const auto unk = source.tokenizer.token_to_id(source.text("unk_token"));
        unk && !source.text("unk_token").empty())
      m.emplace_back("tokenizer.ggml.unknown_token_id", static_cast<uint32_t>(*unk));
  }
  const Around around = around_of(source.tokenizer);
  made.bos_id = around.before, made.eos_id = around.behind;
  GgufMetadata whole = m;
  whole.emplace_back("tokenizer.ggml.add_bos_token", around.before.has_value());
  whole.emplace_back("tokenizer.ggml.add_eos_token", around.behind.has_value());
  m = whole;
  if (around.before) whole.emplace_back("tokenizer.ggml.bos_token_id", static_cast<uint32_t>(*around.before));
  if (around.behind) whole.emplace_back("tokenizer.ggml.eos_token_id", static_cast<uint32_t>(*around.behind));
  made.strips_behind_special =
      is_sentence_piece && std::any_of(source.added.begin(), source.added.end(), [](const auto& each) {
        return each.second.special && each.second.strips_behind;
      });
  if (made.strips_behind_special) whole.emplace_back("general.name", std::string("Phi-3"));
  const Prepare prepare = source.has("normalizer", "normalizers", "NFC") ? composed
                          : source.charsmap()                            ? without_marks
                                                                         : nullptr;
  std::string difference;
  for (const GgufMetadata& way : ways_of_text(form)) {
    GgufMetadata tried = whole;
    tried.insert(tried.end(), way.begin(), way.end());
    const Tokenizer back = Tokenizer::from_gguf(tried);
    const std::string other = first_difference(source, back, prepare);
    if (other.empty()) {
      m.insert(m.end(), way.begin(), way.end());
      note_added(source, back, prepare, made.notes);
      return {};
    }
    if (difference.empty()) difference = other;
  }
  return difference;
}

}  // namespace
}  // namespace gguf_writer

VocabularyAsGguf vocabulary_as_gguf(std::string_view tokenizer_json, int64_t vocabulary) {
  using namespace gguf_writer;  // NOLINT(google-build-using-namespace)
  return with_context("writing the tokenizer as GGUF metadata", [&] {
    const Source source(tokenizer_json);
    const std::string type = source.text("type");
    const bool is_bpe = type == "BPE" || (type.empty() && source.model("merges"));
    if (!is_bpe && type != "Unigram" && type != "WordPiece")
      fail(ErrorCode::unsupported, "the tokenizer's model is ", type.empty() ? "not named" : type,
           "; what can be written is BPE, byte-level or SentencePiece's, Unigram and WordPiece");
    const bool is_byte_level = source.has("pre_tokenizer", "pretokenizers", "ByteLevel");
    if (is_bpe && !is_byte_level && !source.flag("byte_fallback"))
      fail(ErrorCode::unsupported,
           "the tokenizer is BPE without bytes (neither a ByteLevel pre_tokenizer nor byte_fallback), which no "
           "tokenizer.ggml.model is");
    const Form form = type == "Unigram"     ? Form::unigram
                      : type == "WordPiece" ? Form::word_piece
                      : is_byte_level       ? Form::byte_level
                                            : Form::sentence_piece;
    const TokenTable tokens = tokens_of(source, vocabulary);
    std::string difference;
    for (const bool has_spaces : {true, false}) {
      VocabularyAsGguf made = form == Form::unigram      ? unigram(source, tokens)
                              : form == Form::word_piece ? word_piece(source, tokens)
                              : form == Form::byte_level ? byte_level(source, tokens)
                                                         : sentence_piece(source, tokens, has_spaces);
      const std::string other = finish(source, form, made);
      if (other.empty()) return made;
      if (difference.empty()) difference = other;
      if (form != Form::sentence_piece) break;
    }
    fail(ErrorCode::unsupported, "the tokenizer has no form in GGUF that gives the same tokens: ", difference);
  });
}

}  // namespace rlx::tokenizer

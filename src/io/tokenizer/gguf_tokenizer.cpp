// Tokenizers of GGUF files: the models of llama.cpp in the parts that tokenizer.json has, too. What a file leaves out
// has llama.cpp's default (llama-vocab.cpp, llama_vocab::impl::load).
#include "io/tokenizer/gguf_tokenizer.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "io/tokenizer/bpe.h"
#include "io/tokenizer/charsmap.h"
#include "io/tokenizer/normalizers.h"
#include "io/tokenizer/parts.h"
#include "io/tokenizer/pre_tokenizers.h"
#include "io/tokenizer/regex.h"
#include "io/tokenizer/unigram.h"
#include "io/tokenizer/utf8.h"
#include "rlx/error.h"

namespace rlx::tokenizer {
namespace {

constexpr double kNotUsed = -std::numeric_limits<double>::infinity();

// tokenizer.ggml.token_type (GGUF specification, "ggml.token_type").
enum class TokenType { normal = 1, unknown = 2, control = 3, user_defined = 4, unused = 5, byte = 6 };

/// The metadata under "tokenizer.ggml.", each with its type checked.
class Fields {
 public:
  explicit Fields(const GgufMetadata& metadata) : metadata_(metadata) {}

  const GgufValue* find(std::string_view key) const { return find_value(metadata_, name(key)); }

  std::string text(std::string_view key) const {
    const GgufValue* value = find(key);
    if (!value) return {};
    if (auto* text = std::get_if<std::string>(value)) return *text;
    refuse(key, "a string");
  }
  bool flag(std::string_view key, bool otherwise) const {
    const GgufValue* value = find(key);
    if (!value) return otherwise;
    if (auto* flag = std::get_if<bool>(value)) return *flag;
    refuse(key, "a bool");
  }
  /// An id of a token, of which there are `count`.
  std::optional<int32_t> id(std::string_view key, size_t count) const {
    const GgufValue* value = find(key);
    if (!value) return std::nullopt;
    auto* id = std::get_if<uint32_t>(value);
    if (!id) refuse(key, "a u32");
    if (*id >= count) fail(ErrorCode::parse, name(key), " is ", *id, ", but there are ", count, " tokens");
    return static_cast<int32_t>(*id);
  }
  template <class Item>
  const std::vector<Item>* list(std::string_view key, const char* wanted) const {
    const GgufValue* value = find(key);
    if (!value) return nullptr;
    auto* array = std::get_if<GgufArray>(value);
    auto* items = array ? std::get_if<std::vector<Item>>(&array->items) : nullptr;
    if (!items) refuse(key, wanted);
    return items;
  }

 private:
  static std::string name(std::string_view key) { return "tokenizer.ggml." + std::string(key); }
  [[noreturn]] void refuse(std::string_view key, const char* wanted) const {
    fail(ErrorCode::parse, name(key), " is of type ", gguf_type_name(*find(key)), ", but should be ", wanted);
  }
  const GgufMetadata& metadata_;
};

struct Tokens {
  const std::vector<std::string>& texts;
  const std::vector<float>* scores;
  const std::vector<int32_t>* types;

  size_t size() const { return texts.size(); }
  TokenType type(size_t id) const { return types ? static_cast<TokenType>((*types)[id]) : TokenType::normal; }
  bool is_special(size_t id) const { return type(id) == TokenType::control || type(id) == TokenType::unknown; }
};

Tokens read_tokens(const Fields& fields) {
  auto* texts = fields.list<std::string>("tokens", "an array of strings");
  if (!texts) fail(ErrorCode::parse, "the metadata have no tokenizer.ggml.tokens");
  if (texts->size() > static_cast<size_t>(Vocabulary::kMaxId) + 1)
    fail(ErrorCode::unsupported, "tokenizer.ggml.tokens has ", texts->size(), " tokens, more than the ",
         Vocabulary::kMaxId + 1, " that a tokenizer may have");
  Tokens tokens{*texts, fields.list<float>("scores", "an array of f32"),
                fields.list<int32_t>("token_type", "an array of i32")};
  if ((tokens.scores && tokens.scores->size() != texts->size()) ||
      (tokens.types && tokens.types->size() != texts->size()))
    fail(ErrorCode::parse, "there are ", texts->size(), " tokens, but ", tokens.scores ? tokens.scores->size() : 0,
         " scores and ", tokens.types ? tokens.types->size() : 0, " types");
  if (tokens.scores)
    for (float score : *tokens.scores)
      if (std::isnan(score)) fail(ErrorCode::parse, "a score in tokenizer.ggml.scores is not a number");
  return tokens;
}

template <class Write>
Vocabulary vocabulary_of(const Tokens& tokens, const Write& write) {
  Vocabulary vocabulary;
  vocabulary.reserve(tokens.size());
  for (size_t id = 0; id < tokens.size(); ++id) vocabulary.add_unless_known(write(id), static_cast<int64_t>(id));
  return vocabulary;
}
Vocabulary vocabulary_of(const Tokens& tokens) {
  return vocabulary_of(tokens, [&](size_t id) -> const std::string& { return tokens.texts[id]; });
}

template <class Part, class... Parts>
auto listed(std::unique_ptr<Part> first, std::unique_ptr<Parts>... rest) {
  std::vector<std::unique_ptr<const Part>> all;
  all.push_back(std::move(first));
  (all.push_back(std::move(rest)), ...);
  return all;
}

std::unique_ptr<Normalizer> replaced(std::string_view from, std::string_view to) {
  return std::make_unique<ReplaceNormalizer>(std::make_unique<LiteralPattern>(std::string(from)), std::string(to));
}

/// Text of tokens with spaces written as U+2581 and bytes as "<0x0A>"; one space at the beginning was put there.
std::unique_ptr<const Decoder> sentence_piece_decoder(bool has_space_prefix) {
  std::unique_ptr<Decoder> spaces =
      std::make_unique<ReplaceDecoder>(std::make_unique<LiteralPattern>(std::string(kSpaceMark)), " ");
  std::unique_ptr<Decoder> bytes = std::make_unique<ByteFallbackDecoder>(), fuse = std::make_unique<FuseDecoder>();
  auto all = listed(std::move(spaces), std::move(bytes), std::move(fuse));
  if (has_space_prefix) all.push_back(std::make_unique<StripDecoder>(" ", 1, 0));
  return std::make_unique<SequenceDecoder>(std::move(all));
}

void read_llama(const Fields& fields, const Tokens& tokens, Tokenizer::Parts& parts) {
  bool prefix = fields.flag("add_space_prefix", true);
  BpeOptions options;
  options.byte_fallback = true;
  auto unk = fields.id("unknown_token_id", tokens.size());
  if (unk || tokens.size() > 0) options.unk_token = tokens.texts[static_cast<size_t>(unk.value_or(0))];
  parts.model =
      std::make_unique<Bpe>(vocabulary_of(tokens), tokens.scores ? *tokens.scores : std::vector<float>(), options);
  std::unique_ptr<Normalizer> spaces = replaced(" ", kSpaceMark);
  if (prefix) {
    std::unique_ptr<Normalizer> prepend = std::make_unique<PrependNormalizer>(std::string(kSpaceMark));
    parts.normalizer = std::make_unique<SequenceNormalizer>(listed(std::move(prepend), std::move(spaces)));
  } else {
    parts.normalizer = std::move(spaces);
  }
  parts.pre_tokenizer = std::make_unique<WholeTextPreTokenizer>();
  parts.decoder = sentence_piece_decoder(prefix);
}

void read_bpe(const Fields& fields, const Tokens& tokens, const PreKind& kind, Tokenizer::Parts& parts) {
  auto* pairs = fields.list<std::string>("merges", "an array of strings");
  if (!pairs) fail(ErrorCode::parse, "the metadata have no tokenizer.ggml.merges");
  Bpe::Merges merges;
  merges.reserve(pairs->size());
  for (const std::string& pair : *pairs) {
    size_t space = pair.find(' ', 1);  // the first character of a token may be a space
    if (space == pair.npos)
      fail(ErrorCode::parse, "tokenizer.ggml.merges[", merges.size(), "] is '", pair.substr(0, 60),
           "', not two tokens and a space between");
    merges.emplace_back(std::string_view(pair).substr(0, space), std::string_view(pair).substr(space + 1));
  }
  BpeOptions options;
  options.ignore_merges = kind.ignore_merges;
  options.byte_fallback = kind.raw_utf8;
  options.first_of_equal_merges = true;
  parts.model = std::make_unique<Bpe>(vocabulary_of(tokens), merges, options);
  parts.pre_tokenizer = pre_tokenizer_of(kind);
  if (kind.raw_utf8) parts.normalizer = replaced(" ", kSpaceMark);
  else parts.normalizer = std::make_unique<IdentityNormalizer>();
  if (kind.raw_utf8) parts.decoder = sentence_piece_decoder(false);
  else parts.decoder = std::make_unique<ByteLevelDecoder>();
}

void read_bert(const Fields& fields, const Tokens& tokens, Tokenizer::Parts& parts) {
  // The file writes "word" as U+2581 and the word, "##s" as "s", and "[CLS]" as it is.
  auto written = [&](size_t id) {
    const std::string& text = tokens.texts[id];
    if (text.starts_with(kSpaceMark)) return text.substr(kSpaceMark.size());
    bool is_bracketed = text.size() > 2 && text.front() == '[' && text.back() == ']';
    const bool is_whole = is_bracketed || tokens.is_special(id) || tokens.type(id) == TokenType::user_defined;
    return is_whole ? text : "##" + text;
  };
  WordPieceOptions options;
  if (auto unk = fields.id("unknown_token_id", tokens.size()))
    options.unk_token = tokens.texts[static_cast<size_t>(*unk)];
  options.max_input_chars_per_word = std::numeric_limits<uint64_t>::max();
  parts.model = std::make_unique<WordPiece>(vocabulary_of(tokens, written), options);
  BertNormalizerOptions normalizer;
  normalizer.lowercase = fields.flag("normalizer.lowercase", true);
  if (fields.find("normalizer.strip_accents")) normalizer.strip_accents = fields.flag("normalizer.strip_accents", true);
  parts.normalizer = std::make_unique<BertNormalizer>(normalizer);
  parts.pre_tokenizer = std::make_unique<BertPreTokenizer>();
  parts.decoder = std::make_unique<WordPieceDecoder>("##", true);
}

void read_t5(const Fields& fields, const Tokens& tokens, Tokenizer::Parts& parts) {
  std::vector<double> scores(tokens.size(), 0);
  std::vector<std::string> kept;
  double lowest = std::numeric_limits<double>::infinity();  // of normal tokens
  const auto score = [&](size_t id) { return tokens.scores ? static_cast<double>((*tokens.scores)[id]) : 0.0; };
  for (size_t id = 0; id < tokens.size(); ++id)
    if (tokens.type(id) == TokenType::normal) lowest = std::min(lowest, score(id));
  for (size_t id = 0; id < tokens.size(); ++id) {
    TokenType type = tokens.type(id);
    if (type == TokenType::user_defined) kept.push_back(tokens.texts[id]);
    else if (type == TokenType::normal) scores[id] = score(id);
    // Rows that fill a table up have a score far below all others, which is no measure for unknown characters.
    else scores[id] = type == TokenType::unused && score(id) >= lowest ? score(id) : kNotUsed;
  }
  std::string table;
  if (const GgufValue* value = fields.find("precompiled_charsmap")) {
    auto* array = std::get_if<GgufArray>(value);
    if (auto* bytes = array ? std::get_if<std::vector<uint8_t>>(&array->items) : nullptr)
      table.assign(bytes->begin(), bytes->end());
    else if (auto* chars = array ? std::get_if<std::vector<int8_t>>(&array->items) : nullptr)
      table.assign(chars->begin(), chars->end());
    else fail(ErrorCode::parse, "tokenizer.ggml.precompiled_charsmap is no array of bytes");
  }
  SentencePieceOptions options;
  options.add_space_prefix = fields.flag("add_space_prefix", false);
  options.remove_extra_whitespaces = fields.flag("remove_extra_whitespaces", false);
  auto unk = fields.id("unknown_token_id", tokens.size());
  if (!unk && tokens.size() > 2) unk = 2;
  parts.model = std::make_unique<Unigram>(vocabulary_of(tokens), std::move(scores), unk, false);
  parts.normalizer = std::make_unique<SentencePieceNormalizer>(Charsmap(table), options, std::move(kept));
  parts.pre_tokenizer = std::make_unique<WholeTextPreTokenizer>();
  parts.decoder = std::make_unique<MetaspaceDecoder>(std::string(kSpaceMark), options.add_space_prefix);
}

std::vector<AddedToken> added_tokens(const GgufMetadata& metadata, const Tokens& tokens, const Vocabulary& vocabulary) {
  std::vector<AddedToken> added;
  for (size_t id = 0; id < tokens.size(); ++id) {
    bool special = tokens.is_special(id);
    if (!special && tokens.type(id) != TokenType::user_defined) continue;
    // Of two tokens with one text, text gives the first.
    if (tokens.texts[id].empty() || vocabulary.find(tokens.texts[id]) != static_cast<int32_t>(id)) continue;
    AddedToken token;
    token.id = static_cast<int64_t>(id);
    token.content = tokens.texts[id];
    token.special = special;
    token.rstrip = takes_space_behind(metadata, token.content, id, special);
    added.push_back(std::move(token));
  }
  return added;
}

}  // namespace

bool takes_space_behind(const GgufMetadata& metadata, std::string_view token, size_t id, bool is_special) {
  if (token != "</s>" && (!is_special || id <= 2 || token == "<|endoftext|>")) return false;
  const auto text_of_key = [&](const char* key) {
    const GgufValue* value = find_value(metadata, key);
    const auto* text = value ? std::get_if<std::string>(value) : nullptr;
    return text ? std::string_view(*text) : std::string_view();
  };
  const std::string_view name = text_of_key("general.name");
  return text_of_key("tokenizer.ggml.model") == "llama" && (name.starts_with("Phi3") || name.starts_with("Phi-3") ||
                                                            name.starts_with("phi3") || name.starts_with("phi-3"));
}

std::unique_ptr<const PreTokenizer> pre_tokenizer_of(const PreKind& kind) {
  std::vector<std::unique_ptr<const PreTokenizer>> steps;
  for (const char* pattern : kind.patterns)
    steps.push_back(
        std::make_unique<PatternPreTokenizer>(std::make_unique<Regex>(pattern), SplitBehavior::isolated, false));
  if (!kind.raw_utf8) steps.push_back(std::make_unique<ByteLevelPreTokenizer>(false, false));
  return std::make_unique<SequencePreTokenizer>(std::move(steps));
}

std::shared_ptr<const Tokenizer::Parts> parts_from_gguf(const GgufMetadata& metadata) {
  return with_context("reading a tokenizer from GGUF metadata", [&] {
    Fields fields(metadata);
    Tokens tokens = read_tokens(fields);
    auto parts = std::make_shared<Tokenizer::Parts>();
    std::string model = fields.text("model");
    bool add_bos = false, add_eos = false;
    const char *first_key = "bos_token_id", *last_key = "eos_token_id";
    if (model == "llama") {
      add_bos = true;
      read_llama(fields, tokens, *parts);
    } else if (model == "gpt2" || model == "gemma4") {
      PreKind kind = pre_kind(model == "gemma4" ? model : fields.text("pre"));
      add_bos = kind.add_bos || model == "gemma4";
      add_eos = kind.add_eos;
      read_bpe(fields, tokens, kind, *parts);
    } else if (model == "bert") {
      add_bos = add_eos = true;
      first_key = fields.find("cls_token_id") ? "cls_token_id" : "bos_token_id";
      last_key = fields.find("seperator_token_id") ? "seperator_token_id" : "eos_token_id";  // so spelled in the format
      read_bert(fields, tokens, *parts);
    } else if (model == "t5") {
      add_eos = true;
      read_t5(fields, tokens, *parts);
    } else {
      fail(ErrorCode::unsupported, "tokenizer.ggml.model is '", model.substr(0, 60),
           "', which is not offered; those that are: bert, gemma4, gpt2, llama, t5");
    }
    parts->added_tokens = std::make_unique<AddedTokens>(added_tokens(metadata, tokens, parts->model->vocabulary()),
                                                        parts->model->vocabulary(), *parts->normalizer);
    auto special = [&](const char* key, bool wanted) {
      Template pieces;
      auto id = wanted ? fields.id(key, tokens.size()) : std::nullopt;
      if (id) pieces.push_back({PieceKind::special, 0, {*id}, {tokens.texts[static_cast<size_t>(*id)]}});
      return pieces;
    };
    Template before = special(first_key, fields.flag("add_bos_token", add_bos));
    Template after = special(last_key, fields.flag("add_eos_token", add_eos));
    auto around = [&](Template pieces, PieceKind kind, int32_t type_id, bool is_first) {
      // BERT's second text has the separator alone.
      if (is_first || model != "bert") pieces.insert(pieces.end(), before.begin(), before.end());
      pieces.push_back({kind, type_id, {}, {}});
      for (TemplatePiece piece : after) {
        piece.type_id = type_id;
        pieces.push_back(piece);
      }
      return pieces;
    };
    Template single = around({}, PieceKind::first, 0, true);
    parts->post_processor = PostProcessor(single, around(single, PieceKind::second, 1, false));
    return std::shared_ptr<const Tokenizer::Parts>(std::move(parts));
  });
}

}  // namespace rlx::tokenizer

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
#include "io/tokenizer/gguf_tokenizer.h"
#include "io/tokenizer/normalizers.h"
#include "io/tokenizer/parts.h"
#include "io/tokenizer/tokenizer_json.h"
#include "io/tokenizer/utf8.h"
#include "rlx/error.h"

namespace rlx::tokenizer {
namespace gguf_writer {  // a unity build puts all of the folder into one file
namespace {

// tokenizer.ggml.token_type (GGUF specification, "ggml.token_type").
constexpr int32_t kNormal = 1, kUnknown = 2, kControl = 3, kUserDefined = 4, kUnused = 5, kByte = 6;

// ---- texts to ask for ----

/// Texts of what languages, programs and people write. All are in normal form C.
const std::vector<std::string>& written_texts() {
  static const std::vector<std::string> all = {
      "Hello, world! It's 12345.67 o'clock; we'll see what they've done.",
      "  two  spaces\tand\n\nlines \r\n end ",
      "naïve façade, Größe, 日本語 中文字符 한국어, русский язык, العربية हिन्दी ไทย",
      "😀👍🏽 emoji ❤️ and ✓ marks",
      "x=1;y[2]<=3 && foo->bar() // comment\n\tif (a) { return b; }\n\n\n",
      "1234567890 1,234 0x1f ١٢٣ ½ ² Ⅷ 3.14159e-10",
      "I'LL WE'RE CAN'T I'm you'd he's 'tis ''quoted'' don’t “so” …",
      "...!!!? ? ?---=== $100 + €200 ^ `code` | ~ @user #tag %20",
      "ALLCAPS CamelCase snake_case http://a.b/c?d=e&f=g user@example.org",
      "a\u00a0b\u2003c\u3000d\u200be\u200df",
      "word\n  indented\n    more\n\t\ttabs\n",
      "été1a2b3 ÀÉÎ ßẞ ǅ ʰ ـ",
  };
  return all;
}

/// Texts of characters drawn at random, some of them of each class that splitting looks at.
std::vector<std::string> random_texts(size_t count) {
  static const std::vector<char32_t> characters = {
      U'a',  U'b',  U'z',      U'A',      U'B',  U'Z',      U's',      U't',      U'l',      U'd', U'S', U'0', U'1',
      U'2',  U'3',  U'9',      U' ',      U' ',  U' ',      U'\n',     U'\r',     U'\t',     U'.', U',', U'!', U'?',
      U'\'', U'\'', U'"',      U'(',      U')',  U'-',      U'_',      U'/',      U'\\',     U'$', U'+', U'<', U'=',
      U'^',  U'`',  U'|',      U'~',      U'@',  U'#',      U'%',      U'{',      U'}',      U'é', U'ß', U'Ω', U'ж',
      U'ǅ',  U'ʰ',  U'\u20dd', U'\u0903', U'中', U'文',     U'\u3042', U'\uac00', U'ع',      U'ไ', U'١', U'½', U'²',
      U'Ⅷ',  U'€',  U'…',      U'’',      U'。', U'\u00a0', U'\u3000', U'\u2028', U'\u200b', U'😀', U'𝒜'};
  std::vector<std::string> all;
  uint64_t state = 0x9e3779b97f4a7c15;
  for (size_t i = 0; i < count; ++i) {
    std::string text;
    for (int at = 0; at < 24; ++at) {
      state = state * 6364136223846793005 + 1442695040888963407;  // Knuth, MMIX
      append_utf8(text, characters[(state >> 33) % characters.size()]);
    }
    all.push_back(std::move(text));
  }
  return all;
}

std::string composed(const std::string& text) {
  NormalizedText out;
  UnicodeFormNormalizer(false, true).normalize(text, 0, out);
  return std::string(out.text());
}

/// Precompiled of the package tokenizers gives a character with its marks what the table has for the character alone;
/// SentencePiece and llama.cpp look at each by itself. Two of the characters of random_texts() are such marks.
std::string without_marks(const std::string& text) {
  std::string out = text;
  for (const std::string_view mark : {"\u20dd", "\u0903"})
    for (size_t at = out.find(mark); at != out.npos; at = out.find(mark)) out.erase(at, mark.size());
  return out;
}

/// What is done to a text before two tokenizers are compared by it; null: nothing.
using Prepare = std::string (*)(const std::string&);

// ---- tokenizer.json ----

struct Added {
  std::string content;
  bool special = false, keeps_spaces = true, strips_behind = false;
};

struct Source {
  JsonTree json;
  std::shared_ptr<const Tokenizer::Parts> parts;
  Tokenizer tokenizer;
  std::map<int64_t, Added> added;

  explicit Source(std::string_view text) : json(parse_json(text)), parts(parts_from_json(text)), tokenizer(parts) {
    if (const JsonTree* tokens = json.find("added_tokens"))
      for (const JsonTree& each : tokens->elements())  // parts_from_json has seen that they are right
        added[each.at("id").integer()] = {
            each.at("content").string(), each.at("special").boolean(),
            !each.at("lstrip").boolean() && !each.at("rstrip").boolean() && !each.at("single_word").boolean(),
            each.at("rstrip").boolean() && !each.at("lstrip").boolean()};
  }
  const JsonTree* model(std::string_view key) const {
    const JsonTree* found = json.find("model");
    found = found ? found->find(key) : nullptr;
    return found && !found->is_null() ? found : nullptr;
  }
  bool flag(std::string_view key) const {
    const JsonTree* found = model(key);
    return found && found->is_boolean() && found->boolean();
  }
  std::string text(std::string_view key) const {
    const JsonTree* found = model(key);
    return found && found->is_string() ? found->string() : std::string();
  }
  /// Whether a part, or one of the parts of a sequence, is of that type.
  bool has(const char* section, const char* list, std::string_view type) const {
    const JsonTree* found = json.find(section);
    return found && has(*found, list, type, 0);
  }
  static bool has(const JsonTree& part, const char* list, std::string_view type, int depth) {
    const JsonTree* own = part.find("type");
    if (own && own->is_string() && own->string() == type) return true;
    const JsonTree* parts = depth < 8 ? part.find(list) : nullptr;
    return parts && std::any_of(parts->elements().begin(), parts->elements().end(),
                                [&](const JsonTree& each) { return has(each, list, type, depth + 1); });
  }
  /// The table of a normalizer Precompiled, as base64; null if there is none.
  const std::string* charsmap() const {
    const JsonTree* found = json.find("normalizer");
    return found ? charsmap(*found, 0) : nullptr;
  }
  static const std::string* charsmap(const JsonTree& part, int depth) {
    const JsonTree* table = part.find("precompiled_charsmap");
    if (table && table->is_string()) return &table->string();
    if (const JsonTree* parts = depth < 8 ? part.find("normalizers") : nullptr)
      for (const JsonTree& each : parts->elements())
        if (const std::string* found = charsmap(each, depth + 1)) return found;
    return nullptr;
  }
  std::vector<std::pair<std::string, std::string>> merges() const {
    std::vector<std::pair<std::string, std::string>> all;
    const JsonTree* found = model("merges");
    if (!found) return all;
    for (const JsonTree& each : found->elements()) {
      if (!each.is_string()) {
        all.emplace_back(each.elements().at(0).string(), each.elements().at(1).string());
        continue;
      }
      const size_t space = each.string().find(' ');
      all.emplace_back(each.string().substr(0, space), each.string().substr(space + 1));
    }
    return all;
  }
};

// ---- what both kinds have ----

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
      tokens.types.push_back(is_control ? kControl : kUserDefined);
      continue;
    }
    const auto text = known.token(id);
    tokens.texts.push_back(text ? std::string(*text) : text_of("[PAD", id, "]"));
    tokens.types.push_back(text ? kNormal : kUnused);
  }
  for (int64_t id = vocabulary; id <= Vocabulary::kMaxId && last < vocabulary; ++id)
    if (known.token(id)) last = id;
  if (last >= vocabulary)
    fail(ErrorCode::unsupported, "the tokenizer has a token ", last, ", but the model's table has ", vocabulary,
         " rows");
  return tokens;
}

GgufValue texts_value(std::vector<std::string> texts) { return GgufArray{std::move(texts)}; }

/// One special token, or none, that stands in front of or behind each text.
struct Around {
  std::optional<int32_t> before, behind;
};
Around around_of(const Tokenizer& tokenizer) {
  const auto bare = tokenizer.encode("a", false).ids, whole = tokenizer.encode("a", true).ids;
  const auto at = std::search(whole.begin(), whole.end(), bare.begin(), bare.end());
  if (at == whole.end()) fail(ErrorCode::unsupported, "special tokens change what stands between them");
  const auto before = at - whole.begin();
  const auto behind = whole.end() - at - static_cast<std::ptrdiff_t>(bare.size());
  if (before > 1 || behind > 1)
    fail(ErrorCode::unsupported, "the tokenizer puts ", before, " tokens in front of a text and ", behind,
         " behind it; GGUF has a word for one of each");
  Around around;
  if (before == 1) around.before = whole.front();
  if (behind == 1) around.behind = whole.back();
  return around;
}

std::string shown(const std::string& text) {
  std::string out = "'";
  for (const char c : text.substr(0, 80))
    out += c == '\n' ? "\\n" : c == '\r' ? "\\r" : c == '\t' ? "\\t" : std::string(1, c);
  return out + "'";
}
std::string shown(const std::vector<int32_t>& ids) {
  std::string out;
  for (size_t i = 0; i < std::min<size_t>(ids.size(), 12); ++i) out += text_of(i ? ", " : "[", ids[i]);
  return ids.empty() ? "[]" : out + (ids.size() > 12 ? ", ...]" : "]");
}

/// The first text of which the two make other tokens; empty if there is none. What decides is asked for first: texts of
/// several sorts, then texts that all tokens come in.
std::string first_difference(const Source& source, const Tokenizer& made, Prepare prepare) {
  std::string difference;
  const auto is_equal = [&](std::string text) {
    if (prepare) text = prepare(text);
    const auto wanted = source.tokenizer.encode(text).ids, got = made.encode(text).ids;
    if (wanted == got) return true;
    difference = text_of("of ", shown(text), " the folder's makes ", shown(wanted), ", that of the file ", shown(got));
    return false;
  };
  for (const std::string& text : written_texts())
    if (!is_equal(text)) return difference;
  for (const std::string& text : random_texts(300))
    if (!is_equal(text)) return difference;
  const Vocabulary& known = source.parts->model->vocabulary();
  std::vector<int32_t> ids;
  const auto ask = [&] {
    if (ids.empty()) return true;
    const std::string text = source.tokenizer.decode(ids);
    ids.clear();
    return is_equal(text);
  };
  const auto count = static_cast<int64_t>(source.tokenizer.vocab_size());
  for (int64_t id = 0; id < count; ++id) {
    if (!known.token(id) || source.added.contains(id)) continue;
    ids.push_back(static_cast<int32_t>(id));
    if (ids.size() == 24 && !ask()) return difference;
  }
  ask();
  return difference;
}

/// What is said of added tokens whose surroundings GGUF has no word for.
void note_added(const Source& source, const Tokenizer& made, Prepare prepare, std::vector<std::string>& notes) {
  std::string first;
  size_t count = 0, asked = 0;
  for (const auto& [id, token] : source.added) {
    if (++asked > 2000) break;
    for (std::string text : {"a" + token.content + "b", " a " + token.content + "  b ", token.content}) {
      if (prepare) text = prepare(text);
      if (source.tokenizer.encode(text).ids == made.encode(text).ids) continue;
      if (count++ == 0) first = token.content;
      break;
    }
  }
  if (count > 0)
    notes.push_back(text_of("text around ", count, count == 1 ? " added token" : " added tokens",
                            " becomes other tokens in places ('", first.substr(0, 40), "'", count > 1 ? ", ..." : "",
                            "): GGUF has no word for lstrip, rstrip, single_word and normalized"));
}

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
    if (tokens.types[id] == kNormal || tokens.types[id] == kUserDefined) ids.emplace(tokens.texts[id], id);
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
    const bool is_normal = tokens.types[at->second] == kNormal;
    if (scores[at->second] != kNone && !is_normal) continue;  // added tokens are found in text before it is merged
    if (scores[at->second] != kNone)
      fail(ErrorCode::unsupported, "the merges that make the token ", shown(whole),
           " do not stand together, which scores of SentencePiece cannot say");
    scores[at->second] = -next++;
    before = whole;
  }
  for (size_t id = 0; id < tokens.texts.size(); ++id) {
    const std::string& text = tokens.texts[id];
    if (scores[id] == kNone) scores[id] = tokens.types[id] == kNormal ? -next++ : tokens.types[id] == kByte ? 0 : -1000;
    if (tokens.types[id] != kNormal) continue;
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
    if (is_byte_token(text)) tokens.types[id] = kByte;
    if (text == source.text("unk_token") && !text.empty()) tokens.types[id] = kUnknown;
    if (tokens.types[id] != kUserDefined || !has_spaces) continue;
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
    tokens.types.at(static_cast<size_t>(id)) = kUnknown;
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
    if (text == unk && type == kNormal) type = kUnknown;
    if (type == kNormal) text = text.starts_with(prefix) ? text.substr(prefix.size()) : std::string(kSpaceMark) + text;
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

// ---- tokenizer.json ----

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
    if (types.empty() || types[id] == kNormal || types[id] == kUserDefined) ids.emplace(texts[id], id);
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
  const auto is_unused = [&](size_t id) { return !types.empty() && types[id] == kUnused; };
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
      const int32_t type = types.empty() ? kNormal : types[id];
      if (texts[id].empty() || !known.insert(texts[id]).second || type == kUnused) continue;
      const bool is_added = type == kControl || type == kUnknown || type == kUserDefined;
      vocab[kind == "bert" ? word_piece_text(texts[id], is_added) : texts[id]] = id;
      if (type != kControl && type != kUnknown && type != kUserDefined) continue;
      added.push_back({{"id", id},
                       {"content", texts[id]},
                       {"single_word", false},
                       {"lstrip", false},
                       {"rstrip", takes_space_behind(metadata, texts[id], id, type != kUserDefined)},
                       {"normalized", false},
                       {"special", type != kUserDefined}});
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

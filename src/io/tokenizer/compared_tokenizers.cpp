// See the header.
#include "io/tokenizer/compared_tokenizers.h"

#include <algorithm>

#include "io/tokenizer/normalizers.h"
#include "io/tokenizer/utf8.h"
#include "rlx/error.h"

namespace rlx::tokenizer::gguf_writer {

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

std::string without_marks(const std::string& text) {
  std::string out = text;
  for (const std::string_view mark : {"\u20dd", "\u0903"})
    for (size_t at = out.find(mark); at != out.npos; at = out.find(mark)) out.erase(at, mark.size());
  return out;
}

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

}  // namespace rlx::tokenizer::gguf_writer

// Reads normalizers, pre-tokenizers and decoders; each kind is one line or a few in the function of its section. A
// member that older files lack has the default of the tokenizers package.
#include "io/tokenizer/text_parts_json.h"

#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "io/tokenizer/base64.h"
#include "io/tokenizer/charsmap.h"
#include "io/tokenizer/normalizers.h"
#include "io/tokenizer/pre_tokenizers.h"
#include "io/tokenizer/regex.h"
#include "io/tokenizer/unicode.h"
#include "io/tokenizer/utf8.h"

namespace rlx::tokenizer {
namespace {

constexpr int64_t kAnyCount = std::numeric_limits<int64_t>::max();

std::string text(const JsonValue& section, std::string_view key, std::string_view otherwise) {
  auto value = section.find(key);
  return value ? value->string() : std::string(otherwise);
}

/// {"String": "..."}, {"Regex": "..."}
std::unique_ptr<const Pattern> read_pattern(const JsonValue& value) {
  if (value.is_string()) return std::make_unique<LiteralPattern>(value.string());
  if (auto literal = value.find("String")) return std::make_unique<LiteralPattern>(literal->string());
  return std::make_unique<Regex>(value.at("Regex").string());
}

SplitBehavior read_behavior(const JsonValue& value) {
  const std::string& name = value.string();
  if (name == "Removed") return SplitBehavior::removed;
  if (name == "Isolated") return SplitBehavior::isolated;
  if (name == "MergedWithPrevious") return SplitBehavior::merged_with_previous;
  if (name == "MergedWithNext") return SplitBehavior::merged_with_next;
  if (name == "Contiguous") return SplitBehavior::contiguous;
  value.refuse(ErrorCode::parse, "expected Removed, Isolated, MergedWithPrevious, MergedWithNext or Contiguous, not '",
               name.substr(0, 60), "'");
}

MetaspacePreTokenizer::Prepend read_prepend(const JsonValue& section) {
  using Prepend = MetaspacePreTokenizer::Prepend;
  auto scheme = section.find("prepend_scheme");
  if (!scheme) return section.flag("add_prefix_space", true) ? Prepend::always : Prepend::never;
  if (scheme->string() == "always") return Prepend::always;
  if (scheme->string() == "never") return Prepend::never;
  if (scheme->string() == "first") return Prepend::first;
  scheme->refuse(ErrorCode::parse, "expected always, never or first, not '", scheme->string().substr(0, 60), "'");
}

template <class Part, class Read>
std::vector<std::unique_ptr<const Part>> read_all(const JsonValue& list, const Read& read) {
  std::vector<std::unique_ptr<const Part>> parts;
  list.for_each([&](const JsonValue& value) { parts.push_back(read(std::optional(value))); });
  return parts;
}

bool is_space(char32_t code) { return (class_of(code) & kWhitespace) != 0; }
bool is_punctuation(char32_t code) { return (class_of(code) & kPunctuation) != 0; }

std::unique_ptr<const PreTokenizer> split_at(bool (*is_match)(char32_t), SplitBehavior behavior) {
  return std::make_unique<PatternPreTokenizer>(std::make_unique<CharacterPattern>(is_match), behavior, false);
}

}  // namespace

void refuse_kind(const JsonValue& section, const char* what, const char* offered) {
  section.at("type").refuse(ErrorCode::unsupported, "the ", what, " '", section.at("type").string().substr(0, 60),
                            "' is not offered; those that are: ", offered);
}

std::unique_ptr<const Normalizer> read_normalizer(const std::optional<JsonValue>& section) {
  if (!section) return std::make_unique<IdentityNormalizer>();
  const std::string& type = section->at("type").string();
  using Characters = CharacterNormalizer;
  if (type == "BertNormalizer") {
    BertNormalizerOptions options;
    options.clean_text = section->at("clean_text").boolean();
    options.handle_chinese_chars = section->at("handle_chinese_chars").boolean();
    if (auto strip = section->find("strip_accents")) options.strip_accents = strip->boolean();
    options.lowercase = section->at("lowercase").boolean();
    return std::make_unique<BertNormalizer>(options);
  }
  if (type == "Sequence")
    return std::make_unique<SequenceNormalizer>(read_all<Normalizer>(section->at("normalizers"), read_normalizer));
  if (type == "NFC") return std::make_unique<UnicodeFormNormalizer>(false, true);
  if (type == "NFD") return std::make_unique<UnicodeFormNormalizer>(false, false);
  if (type == "NFKC") return std::make_unique<UnicodeFormNormalizer>(true, true);
  if (type == "NFKD") return std::make_unique<UnicodeFormNormalizer>(true, false);
  if (type == "Lowercase") return std::make_unique<Characters>(Characters::lowercased);
  if (type == "StripAccents") return std::make_unique<Characters>(Characters::without_marks);
  if (type == "Nmt") return std::make_unique<Characters>(Characters::nmt);
  if (type == "ByteLevel") return std::make_unique<Characters>(Characters::bytes_as_letters);
  if (type == "Strip")
    return std::make_unique<StripNormalizer>(section->flag("strip_left", true), section->flag("strip_right", true));
  if (type == "Replace")
    return std::make_unique<ReplaceNormalizer>(read_pattern(section->at("pattern")), section->at("content").string());
  if (type == "Prepend") return std::make_unique<PrependNormalizer>(section->at("prepend").string());
  if (type == "Precompiled")
    return std::make_unique<PrecompiledNormalizer>(
        Charsmap(decode_base64(section->at("precompiled_charsmap").string())));
  refuse_kind(*section, "normalizer",
              "BertNormalizer, ByteLevel, Lowercase, NFC, NFD, NFKC, NFKD, Nmt, Precompiled, Prepend, Replace, "
              "Sequence, Strip, "
              "StripAccents, null");
}

std::unique_ptr<const PreTokenizer> read_pre_tokenizer(const std::optional<JsonValue>& section) {
  if (!section) return std::make_unique<WholeTextPreTokenizer>();
  const std::string& type = section->at("type").string();
  if (type == "BertPreTokenizer") return std::make_unique<BertPreTokenizer>();
  if (type == "Sequence")
    return std::make_unique<SequencePreTokenizer>(
        read_all<PreTokenizer>(section->at("pretokenizers"), read_pre_tokenizer));
  if (type == "ByteLevel")
    return std::make_unique<ByteLevelPreTokenizer>(section->flag("add_prefix_space", true),
                                                   section->flag("use_regex", true));
  if (type == "Metaspace")
    return std::make_unique<MetaspacePreTokenizer>(text(*section, "replacement", kSpaceMark), read_prepend(*section),
                                                   section->flag("split", true));
  if (type == "Split")
    return std::make_unique<PatternPreTokenizer>(
        read_pattern(section->at("pattern")), read_behavior(section->at("behavior")), section->flag("invert", false));
  if (type == "CharDelimiterSplit")
    return std::make_unique<PatternPreTokenizer>(std::make_unique<LiteralPattern>(section->at("delimiter").string()),
                                                 SplitBehavior::removed, false);
  if (type == "Whitespace") return std::make_unique<WhitespacePreTokenizer>();
  if (type == "WhitespaceSplit") return split_at(is_space, SplitBehavior::removed);
  if (type == "Punctuation") {
    auto behavior = section->find("behavior");
    return split_at(is_punctuation, behavior ? read_behavior(*behavior) : SplitBehavior::isolated);
  }
  if (type == "Digits")
    return split_at(is_numeric,
                    section->flag("individual_digits", false) ? SplitBehavior::isolated : SplitBehavior::contiguous);
  if (type == "FixedLength") {
    auto length = section->find("length");
    return std::make_unique<FixedLengthPreTokenizer>(length ? static_cast<size_t>(length->integer(1, kAnyCount)) : 5);
  }
  refuse_kind(
      *section, "pre-tokenizer",
      "BertPreTokenizer, ByteLevel, CharDelimiterSplit, Digits, FixedLength, Metaspace, Punctuation, Sequence, Split, "
      "Whitespace, WhitespaceSplit, null");
}

std::unique_ptr<const Decoder> read_decoder(const std::optional<JsonValue>& section) {
  if (!section) return std::make_unique<SpacingDecoder>();
  const std::string& type = section->at("type").string();
  if (type == "WordPiece")
    return std::make_unique<WordPieceDecoder>(section->at("prefix").string(), section->at("cleanup").boolean());
  if (type == "Sequence")
    return std::make_unique<SequenceDecoder>(read_all<Decoder>(section->at("decoders"), read_decoder));
  if (type == "ByteLevel") return std::make_unique<ByteLevelDecoder>();
  if (type == "ByteFallback") return std::make_unique<ByteFallbackDecoder>();
  if (type == "Fuse") return std::make_unique<FuseDecoder>();
  if (type == "Metaspace")
    return std::make_unique<MetaspaceDecoder>(text(*section, "replacement", kSpaceMark),
                                              read_prepend(*section) != MetaspacePreTokenizer::Prepend::never);
  if (type == "BPEDecoder") return std::make_unique<BpeDecoder>(text(*section, "suffix", "</w>"));
  if (type == "Strip")
    return std::make_unique<StripDecoder>(section->at("content").string(),
                                          static_cast<size_t>(section->at("start").integer(0, kAnyCount)),
                                          static_cast<size_t>(section->at("stop").integer(0, kAnyCount)));
  if (type == "Replace")
    return std::make_unique<ReplaceDecoder>(read_pattern(section->at("pattern")), section->at("content").string());
  if (type == "CTC")
    return std::make_unique<CtcDecoder>(text(*section, "pad_token", "<pad>"),
                                        text(*section, "word_delimiter_token", "|"), section->flag("cleanup", true));
  refuse_kind(*section, "decoder",
              "BPEDecoder, ByteFallback, ByteLevel, CTC, Fuse, Metaspace, Replace, Sequence, Strip, WordPiece, null");
}

}  // namespace rlx::tokenizer

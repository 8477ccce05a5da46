// BERT's tokenizer from a vocab.txt: what a model had before there was a tokenizer.json. The parts and the
// special tokens are those of BertTokenizer in the Python package `transformers`.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "io/tokenizer/parts.h"
#include "io/tokenizer/tokenizer_json.h"
#include "io/tokenizer/unicode.h"
#include "io/tokenizer/utf8.h"
#include "rlx/error.h"

namespace rlx::tokenizer {
namespace {

std::string_view without_trailing_space(std::string_view line) {
  while (!line.empty()) {
    size_t last = previous_code_point(line, line.size());
    if (!(class_of(decode_utf8(line.data() + last)) & kWhitespace)) break;
    line = line.substr(0, last);
  }
  return line;
}

Vocabulary read_lines(std::string_view text) {
  if (size_t valid = valid_utf8_prefix(text); valid < text.size())
    fail(ErrorCode::parse, "byte ", valid, " of the vocabulary is not UTF-8");
  Vocabulary vocabulary;
  int64_t id = 0;
  for (size_t at = 0; at < text.size(); ++id) {
    size_t end = std::min(text.find('\n', at), text.size());
    vocabulary.add(without_trailing_space(text.substr(at, end - at)), id);
    at = end + 1;
  }
  return vocabulary;
}

TemplatePiece special(const Vocabulary& vocabulary, const std::string& token, int32_t type_id) {
  int32_t id = vocabulary.find(token);
  if (id == Vocabulary::kNone)
    fail(ErrorCode::parse, "the vocabulary of ", vocabulary.size(), " lines has no line '", token,
         "', which BERT's tokenizer needs");
  return {PieceKind::special, type_id, {id}, {token}};
}

}  // namespace

std::shared_ptr<const Tokenizer::Parts> parts_from_vocabulary(std::string_view lines,
                                                              const VocabularyFileOptions& options) {
  return with_context("reading a tokenizer from a vocabulary", [&] {
    Vocabulary vocabulary = read_lines(lines);
    TemplatePiece cls = special(vocabulary, "[CLS]", 0), sep = special(vocabulary, "[SEP]", 0);
    TemplatePiece last_sep = special(vocabulary, "[SEP]", 1);
    TemplatePiece first{PieceKind::first, 0, {}, {}}, second{PieceKind::second, 1, {}, {}};

    std::vector<AddedToken> added;
    for (const char* content : {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"}) {
      int32_t id = vocabulary.find(content);
      if (id == Vocabulary::kNone) continue;
      AddedToken token;
      token.id = id;
      token.content = content;
      token.special = true;
      added.push_back(std::move(token));
    }

    auto parts = std::make_shared<Tokenizer::Parts>();
    BertNormalizerOptions normalizer;
    normalizer.lowercase = options.lowercase;
    normalizer.strip_accents = options.strip_accents;
    normalizer.handle_chinese_chars = options.handle_chinese_chars;
    parts->normalizer = std::make_unique<BertNormalizer>(normalizer);
    parts->pre_tokenizer = std::make_unique<BertPreTokenizer>();
    parts->model = std::make_unique<WordPiece>(std::move(vocabulary), WordPieceOptions{});
    parts->added_tokens =
        std::make_unique<AddedTokens>(std::move(added), parts->model->vocabulary(), *parts->normalizer);
    parts->post_processor = PostProcessor({cls, first, sep}, {cls, first, sep, second, last_sep});
    parts->decoder = std::make_unique<WordPieceDecoder>("##", true);
    return std::shared_ptr<const Tokenizer::Parts>(std::move(parts));
  });
}

}  // namespace rlx::tokenizer

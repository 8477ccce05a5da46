// tiktoken's ranks: the token of each line is bytes, and two neighbours merge if together they are a token, that of the
// lowest rank first. Bytes are written as letters of GPT-2's alphabet, so that tokens print.
#include "io/tokenizer/tiktoken.h"

#include <algorithm>
#include <charconv>

#include "io/tokenizer/base64.h"
#include "io/tokenizer/bpe.h"
#include "io/tokenizer/byte_level.h"
#include "io/tokenizer/parts.h"
#include "io/tokenizer/pre_tokenizers.h"
#include "io/tokenizer/regex.h"
#include "rlx/error.h"

namespace rlx::tokenizer {

std::shared_ptr<const Tokenizer::Parts> parts_from_tiktoken(
    std::string_view ranks, std::string_view pattern,
    const std::vector<std::pair<std::string, int32_t>>& special_tokens) {
  return with_context("reading tiktoken's ranks", [&] {
    Vocabulary vocabulary;
    std::vector<float> scores;
    size_t line_number = 0;
    for (size_t at = 0; at < ranks.size();) {
      size_t end = std::min(ranks.find('\n', at), ranks.size());
      std::string_view line = ranks.substr(at, end - at);
      at = end + 1;
      ++line_number;
      if (line.ends_with('\r')) line.remove_suffix(1);
      if (line.empty()) continue;
      size_t space = line.find(' ');
      int32_t rank = -1;
      const char* stop = nullptr;
      if (space != line.npos) stop = std::from_chars(line.data() + space + 1, line.data() + line.size(), rank).ptr;
      if (rank < 0 || rank > Vocabulary::kMaxId || stop != line.data() + line.size())
        fail(ErrorCode::parse, "line ", line_number, ", '", line.substr(0, 60), "', is not base64, a space and a rank");
      const std::string token = as_letters(decode_base64(line.substr(0, space)));
      if (const int32_t known = vocabulary.find(token); known != Vocabulary::kNone)
        fail(ErrorCode::parse, "line ", line_number, " gives the bytes '", token, "' the rank ", rank,
             "; a line before gave them ", known);
      vocabulary.add(token, rank);
      if (scores.size() <= static_cast<size_t>(rank)) scores.resize(static_cast<size_t>(rank) + 1);
      scores[static_cast<size_t>(rank)] = -static_cast<float>(rank);  // exact: ids have fewer bits than a float
    }
    BpeOptions options;
    options.ignore_merges = true;
    auto parts = std::make_shared<Tokenizer::Parts>();
    parts->normalizer = std::make_unique<IdentityNormalizer>();
    std::vector<std::unique_ptr<const PreTokenizer>> steps;
    steps.push_back(
        std::make_unique<PatternPreTokenizer>(std::make_unique<Regex>(pattern), SplitBehavior::removed, true));
    steps.push_back(std::make_unique<ByteLevelPreTokenizer>(false, false));
    parts->pre_tokenizer = std::make_unique<SequencePreTokenizer>(std::move(steps));
    parts->model = std::make_unique<Bpe>(std::move(vocabulary), std::move(scores), std::move(options));
    std::vector<AddedToken> added;
    for (const auto& [content, id] : special_tokens) {
      AddedToken token;
      token.id = id;
      token.content = content;
      token.special = true;
      added.push_back(std::move(token));
    }
    parts->added_tokens =
        std::make_unique<AddedTokens>(std::move(added), parts->model->vocabulary(), *parts->normalizer);
    parts->decoder = std::make_unique<ByteLevelDecoder>();
    return std::shared_ptr<const Tokenizer::Parts>(std::move(parts));
  });
}

}  // namespace rlx::tokenizer

// Words as tokens; see model.h.
#include <utility>

#include "io/tokenizer/model.h"
#include "rlx/error.h"

namespace rlx::tokenizer {

WordLevel::WordLevel(Vocabulary vocabulary, const std::string& unk_token)
    : vocabulary_(std::move(vocabulary)), unk_id_(vocabulary_.find(unk_token)) {}

void WordLevel::tokenize(std::string_view text, ByteRange word, std::vector<Piece>& pieces) const {
  std::string_view characters = text.substr(word.begin, word.end - word.begin);
  int32_t id = characters.size() > vocabulary_.longest_token_bytes() ? Vocabulary::kNone : vocabulary_.find(characters);
  if (id == Vocabulary::kNone) id = unk_id_;
  if (id == Vocabulary::kNone)
    fail(ErrorCode::unsupported, "'", characters.substr(0, 60),
         "' is no token, and the tokenizer has no unknown token");
  pieces.push_back({id, word});
}

}  // namespace rlx::tokenizer

// The table of tokens; see the header.
#include "io/tokenizer/vocabulary.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "rlx/error.h"

namespace rlx::tokenizer {

void Vocabulary::reserve(size_t tokens) {
  if (slots_.size() < 2 * tokens) rehash(std::bit_ceil(2 * tokens));
  text_of_id_.reserve(tokens);
}

void Vocabulary::rehash(size_t slots) {
  std::vector<Slot> old = std::exchange(slots_, std::vector<Slot>(slots));
  for (const Slot& slot : old) {
    if (slot.id == kNone) continue;
    size_t at = slot_of(extend_hash(hash_basis_, view(slot.text)));
    while (slots_[at].id != kNone) at = (at + 1) & (slots_.size() - 1);
    slots_[at] = slot;
  }
}

void Vocabulary::add(std::string_view token, int64_t id) {
  if (id < 0 || id > kMaxId)
    fail(ErrorCode::unsupported, "token '", token.substr(0, 80), "' has id ", id, "; ids are 0 to ", kMaxId, " here");
  if (token.size() > kMaxTokenBytes)
    fail(ErrorCode::unsupported, "token ", id, " has ", token.size(), " bytes, more than the ", kMaxTokenBytes,
         " that a token may have; it begins '", token.substr(0, 80), "'");
  auto index = static_cast<size_t>(id);
  if (text_of_id_.size() <= index) text_of_id_.resize(index + 1);
  if (2 * (size_ + 1) > slots_.size()) rehash(std::max<size_t>(64, 2 * slots_.size()));

  uint64_t hash = extend_hash(hash_basis_, token);
  size_t at = slot_of(hash);
  while (slots_[at].id != kNone && !(slots_[at].tag == tag_of(hash) && view(slots_[at].text) == token))
    at = (at + 1) & (slots_.size() - 1);
  Slot& slot = slots_[at];
  if (slot.id == kNone) {
    slot.tag = tag_of(hash);
    if (characters_.size() + token.size() >= kNoText)
      fail(ErrorCode::unsupported, "the tokens of a vocabulary have more than ", kNoText, " bytes together");
    slot.text = {static_cast<uint32_t>(characters_.size()), static_cast<uint32_t>(token.size())};
    characters_ += token;
    ++size_;
    longest_ = std::max(longest_, token.size());
  } else if (Text& former = text_of_id_[static_cast<size_t>(slot.id)]; former.begin == slot.text.begin) {
    former = Text{};
  }
  slot.id = static_cast<int32_t>(id);
  if (text_of_id_[index].begin == kNoText) text_of_id_[index] = slot.text;
}

void Vocabulary::add_unless_known(std::string_view token, int64_t id) {
  int32_t known = token.size() > kMaxTokenBytes ? kNone : find(token);
  if (known == kNone || id < 0 || id > kMaxId) return add(token, id);
  auto index = static_cast<size_t>(id);
  if (text_of_id_.size() <= index) text_of_id_.resize(index + 1);
  Text text = text_of_id_[static_cast<size_t>(known)];
  if (text_of_id_[index].begin == kNoText) text_of_id_[index] = text;
}

}  // namespace rlx::tokenizer

// The table of tokens; see the header.
#include "io/tokenizer/vocabulary.h"

#include <algorithm>
#include <bit>

#include "rlx/error.h"

namespace rlx::tokenizer {

void Vocabulary::reserve(size_t tokens) {
  entries_.reserve(tokens);
  if (slots_.size() < 2 * tokens) rehash(std::bit_ceil(2 * tokens));
}

void Vocabulary::rehash(size_t slots) {
  slots_.assign(slots, Slot{});
  for (size_t entry = 0; entry < entries_.size(); ++entry) {
    uint64_t hash = extend_hash(kHashBasis, text_of(entries_[entry]));
    size_t at = slot_of(hash);
    while (slots_[at].entry >= 0) at = (at + 1) & (slots_.size() - 1);
    slots_[at] = {tag_of(hash), static_cast<int32_t>(entry)};
  }
}

void Vocabulary::add(std::string_view token, int64_t id) {
  if (id < 0 || id > kMaxId)
    fail(ErrorCode::unsupported, "token '", token.substr(0, 80), "' has id ", id, "; ids are 0 to ", kMaxId, " here");
  if (token.size() > kMaxTokenBytes)
    fail(ErrorCode::unsupported, "token ", id, " has ", token.size(), " bytes, more than the ", kMaxTokenBytes,
         " that a token may have; it begins '", token.substr(0, 80), "'");
  uint64_t hash = extend_hash(kHashBasis, token);
  auto index = static_cast<size_t>(id);
  if (entry_of_id_.size() <= index) entry_of_id_.resize(index + 1, -1);

  if (2 * (entries_.size() + 1) > slots_.size()) rehash(std::max<size_t>(64, 2 * slots_.size()));
  size_t at = slot_of(hash);
  for (; slots_[at].entry >= 0; at = (at + 1) & (slots_.size() - 1)) {
    Entry& entry = entries_[static_cast<size_t>(slots_[at].entry)];
    if (slots_[at].tag != tag_of(hash) || text_of(entry) != token) continue;
    if (entry_of_id_[static_cast<size_t>(entry.id)] == slots_[at].entry) entry_of_id_[static_cast<size_t>(entry.id)] = -1;
    entry.id = static_cast<int32_t>(id);
    if (entry_of_id_[index] < 0) entry_of_id_[index] = slots_[at].entry;
    return;
  }
  auto entry = static_cast<int32_t>(entries_.size());
  slots_[at] = {tag_of(hash), entry};
  entries_.push_back({static_cast<uint32_t>(characters_.size()), static_cast<uint32_t>(token.size()),
                      static_cast<int32_t>(id)});
  characters_ += token;
  if (entry_of_id_[index] < 0) entry_of_id_[index] = entry;
  longest_ = std::max(longest_, token.size());
}

std::optional<std::string_view> Vocabulary::token(int64_t id) const {
  if (id < 0 || static_cast<size_t>(id) >= entry_of_id_.size()) return std::nullopt;
  int32_t entry = entry_of_id_[static_cast<size_t>(id)];
  if (entry < 0) return std::nullopt;
  return text_of(entries_[static_cast<size_t>(entry)]);
}

}  // namespace rlx::tokenizer

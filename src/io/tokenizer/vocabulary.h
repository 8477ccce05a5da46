// The tokens of a model: from text to id and back. A hash table over one block of characters, whose hash can be
// carried on byte by byte, so that a model looks up all beginnings of a word without hashing each from its start.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/hash.h"
#include "io/tokenizer/hash_seed.h"

namespace rlx::tokenizer {

class Vocabulary {
 public:
  static constexpr int32_t kNone = -1;
  /// Longer tokens and higher ids are refused: what a lookup costs and the size of the table of ids follow them.
  static constexpr size_t kMaxTokenBytes = 4096;
  static constexpr int64_t kMaxId = (1 << 21) - 1;

  /// Makes room, which saves time only.
  void reserve(size_t tokens);
  /// A token that is there already gets the new id, as in a JSON object whose key comes twice.
  void add(std::string_view token, int64_t id);

  /// The same, but a token that is there already keeps its id; the new id has its text, too.
  void add_unless_known(std::string_view token, int64_t id);

  /// The id of `token`, or kNone.
  int32_t find(std::string_view token) const { return find({}, token, extend_hash(hash_basis_, token)); }
  /// The token of an id, if it has one. If several tokens have it: the first that was added.
  std::optional<std::string_view> token(int64_t id) const {
    if (id < 0 || static_cast<size_t>(id) >= text_of_id_.size()) return std::nullopt;
    Text text = text_of_id_[static_cast<size_t>(id)];
    if (text.begin == kNoText) return std::nullopt;
    return view(text);
  }
  size_t size() const { return size_; }
  size_t longest_token_bytes() const { return longest_; }

  /// The hash of no characters, another one in each process.
  uint64_t hash_basis() const { return hash_basis_; }
  template <class Text>  // a char or several
  static uint64_t extend_hash(uint64_t hash, const Text& text) {
    Fnv1a all{hash};
    all.add(text);
    return all.hash;
  }
  /// The id of the token `prefix` + `rest`, whose hash the caller has.
  int32_t find(std::string_view prefix, std::string_view rest, uint64_t hash) const {
    if (slots_.empty()) return kNone;
    for (size_t at = slot_of(hash);; at = (at + 1) & (slots_.size() - 1)) {
      const Slot& slot = slots_[at];
      if (slot.id == kNone) return kNone;
      if (slot.tag == tag_of(hash) && is_token(slot, prefix, rest)) return slot.id;
    }
  }

 private:
  static constexpr uint32_t kNoText = 0xffffffff;
  struct Text {
    uint32_t begin = kNoText, size = 0;  // in characters_
  };
  struct Slot {
    uint32_t tag = 0;    // the half of the hash that does not choose the slot
    int32_t id = kNone;  // kNone: the slot is free
    Text text;
  };
  size_t slot_of(uint64_t hash) const { return static_cast<size_t>(hash ^ hash >> 32) & (slots_.size() - 1); }
  static uint32_t tag_of(uint64_t hash) { return static_cast<uint32_t>(hash >> 32); }
  std::string_view view(Text text) const { return {characters_.data() + text.begin, text.size}; }
  bool is_token(const Slot& slot, std::string_view prefix, std::string_view rest) const {
    if (slot.text.size != prefix.size() + rest.size()) return false;
    const char* text = characters_.data() + slot.text.begin;
    // Loops, because tokens are a few bytes long and a call of memcmp is not.
    for (char c : prefix)
      if (*text++ != c) return false;
    for (char c : rest)
      if (*text++ != c) return false;
    return true;
  }
  void rehash(size_t slots);

  uint64_t hash_basis_ = mixed(Fnv1a().hash ^ hash_seed());
  std::string characters_;
  size_t size_ = 0;
  size_t longest_ = 0;
  std::vector<Slot> slots_;  // a power of two of them, at most half of them taken
  std::vector<Text> text_of_id_;
};

}  // namespace rlx::tokenizer

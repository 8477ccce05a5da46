// The tokens of a model: from text to id and back. A hash table over one block of characters, whose hash can be
// carried on byte by byte, so that a model looks up all beginnings of a word without hashing each from its start.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rlx::tokenizer {

class Vocabulary {
 public:
  static constexpr int32_t kNone = -1;
  /// Longer tokens and higher ids are refused: what a lookup costs and the size of the table of ids follow them.
  static constexpr size_t kMaxTokenBytes = 4096;
  static constexpr int64_t kMaxId = (1 << 24) - 1;

  void reserve(size_t tokens);
  /// A token that is there already gets the new id, as in a JSON object whose key comes twice.
  void add(std::string_view token, int64_t id);

  /// The id of `token`, or kNone.
  int32_t find(std::string_view token) const { return find({}, token, extend_hash(kHashBasis, token)); }
  /// The token of an id, if it has one. If several tokens have it: the first that was added.
  std::optional<std::string_view> token(int64_t id) const;
  size_t size() const { return entries_.size(); }
  size_t longest_token_bytes() const { return longest_; }

  // FNV-1a (Fowler, Noll, Vo), 64 bits.
  static constexpr uint64_t kHashBasis = 0xcbf29ce484222325u;
  static uint64_t extend_hash(uint64_t hash, char c) {
    return (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  }
  static uint64_t extend_hash(uint64_t hash, std::string_view text) {
    for (char c : text) hash = extend_hash(hash, c);
    return hash;
  }
  /// The id of the token `prefix` + `rest`, whose hash the caller has.
  int32_t find(std::string_view prefix, std::string_view rest, uint64_t hash) const {
    if (slots_.empty()) return kNone;
    for (size_t at = slot_of(hash);; at = (at + 1) & (slots_.size() - 1)) {
      const Slot& slot = slots_[at];
      if (slot.entry < 0) return kNone;
      if (slot.tag == tag_of(hash) && is_token(entries_[static_cast<size_t>(slot.entry)], prefix, rest))
        return entries_[static_cast<size_t>(slot.entry)].id;
    }
  }

 private:
  struct Entry {
    uint32_t begin, size;  // in characters_
    int32_t id;
  };
  struct Slot {
    uint32_t tag = 0;     // the half of the hash that does not choose the slot
    int32_t entry = -1;
  };
  size_t slot_of(uint64_t hash) const { return static_cast<size_t>(hash ^ hash >> 32) & (slots_.size() - 1); }
  static uint32_t tag_of(uint64_t hash) { return static_cast<uint32_t>(hash >> 32); }
  std::string_view text_of(const Entry& entry) const {
    return std::string_view(characters_).substr(entry.begin, entry.size);
  }
  bool is_token(const Entry& entry, std::string_view prefix, std::string_view rest) const {
    std::string_view text = text_of(entry);
    return text.size() == prefix.size() + rest.size() && text.starts_with(prefix) && text.ends_with(rest);
  }
  void rehash(size_t slots);

  std::string characters_;
  std::vector<Entry> entries_;
  std::vector<Slot> slots_;         // a power of two of them, at most half of them taken
  std::vector<int32_t> entry_of_id_;  // -1: no such id
  size_t longest_ = 0;
};

}  // namespace rlx::tokenizer

// A trie over byte strings, built once: all tokens that a text begins with, in time of the longest of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

namespace rlx::tokenizer {

class Trie {
 public:
  static constexpr int32_t kNone = -1;
  Trie() : nodes_(1) {}
  /// Builds the trie of `entries`, strings that are not empty and their values. It copies their bytes. Of two equal
  /// strings the last counts.
  explicit Trie(std::vector<std::pair<std::string_view, int32_t>> entries);

  /// Calls visit(size, value) for each entry that `text` begins with, the shortest first.
  template <class Visit>
  void for_each_prefix(std::string_view text, const Visit& visit) const {
    size_t node = 0;
    for (size_t at = 0; at < text.size(); ++at) {
      node = child(node, static_cast<unsigned char>(text[at]));
      if (node == 0) return;
      if (nodes_[node].value != kNone) visit(at + 1, nodes_[node].value);
    }
  }

 private:
  struct Node {
    uint32_t first_child = 0;  // the others stand behind it, by their bytes
    uint16_t children = 0;
    unsigned char byte = 0;
    int32_t value = kNone;
  };
  /// 0 if there is none.
  size_t child(size_t node, unsigned char byte) const {
    size_t low = nodes_[node].first_child, high = low + nodes_[node].children;
    while (low < high) {
      size_t middle = (low + high) / 2;
      if (nodes_[middle].byte == byte) return middle;
      if (nodes_[middle].byte < byte) low = middle + 1;
      else high = middle;
    }
    return 0;
  }
  std::vector<Node> nodes_;
};

}  // namespace rlx::tokenizer

// Building the trie: breadth first, so that the children of a node stand together.
#include "io/tokenizer/trie.h"

#include <algorithm>

namespace rlx::tokenizer {

Trie::Trie(std::vector<std::pair<std::string_view, int32_t>> entries) : nodes_(1) {
  std::stable_sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  struct Range {
    size_t begin, end, depth;
  };
  std::vector<Range> ranges{{0, entries.size(), 0}};  // of the node with the same index
  for (size_t node = 0; node < nodes_.size(); ++node) {
    auto [begin, end, depth] = ranges[node];
    for (; begin < end && entries[begin].first.size() == depth; ++begin) nodes_[node].value = entries[begin].second;
    nodes_[node].first_child = static_cast<uint32_t>(nodes_.size());
    while (begin < end) {
      auto byte = static_cast<unsigned char>(entries[begin].first[depth]);
      size_t next = begin;
      while (next < end && static_cast<unsigned char>(entries[next].first[depth]) == byte) ++next;
      nodes_.push_back({.byte = byte});
      ranges.push_back({begin, next, depth + 1});
      ++nodes_[node].children;
      begin = next;
    }
  }
}

}  // namespace rlx::tokenizer

// How much a graph may grow while it is compiled. A decomposition, a rewriting or a lowering makes nodes and constants
// whose number can depend on an attribute: a window of a million places, a table as long as an extent. Whoever lets
// such a thing run sets a limit around it; what makes nodes and tensors counts them here. So the bound holds for every
// op, those from outside the library too, and no op has to check its attributes for it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

namespace rlx {

/// What may be made of `nodes` nodes: so much for each of them, and so much in all, that no graph of use comes near.
struct Growth {
  size_t nodes = 0, bytes = 0;
  static constexpr size_t kNodes = size_t{1} << 16, kNodesForEach = size_t{1} << 8;
  static constexpr size_t kBytes = size_t{1} << 29, kBytesForEach = size_t{1} << 24;
  static Growth of(size_t nodes) { return {kNodes + nodes * kNodesForEach, kBytes + nodes * kBytesForEach}; }
};

/// While it lives, what its thread makes is counted; limits stand within one another, and each is held. Fails as
/// out_of_memory, naming the operation, once more was made than `most` allows.
class GrowthLimit {
 public:
  /// `what` is called for the message only: "the decomposition of 'im2col'".
  GrowthLimit(Growth most, std::function<std::string()> what);
  ~GrowthLimit();
  GrowthLimit(const GrowthLimit&) = delete;
  GrowthLimit& operator=(const GrowthLimit&) = delete;

  const Growth& made() const { return made_; }

  /// Called where a node, or an operation of another format, comes into being.
  static void count_node();
  /// Called before memory for a tensor is taken.
  static void count_bytes(size_t bytes);
  /// Called before memory is taken for a table that becomes a constant, and whose length an attribute or extent says.
  static void count_table(int64_t count, size_t bytes_each);

 private:
  /// Fails for the outermost limit that is exceeded: it knows the most about whose operation it is.
  static void check();

  Growth most_, made_ = {0, 0};
  std::function<std::string()> what_;
  GrowthLimit* outer_;
};

}  // namespace rlx

// A limit on how much a graph may grow while it is compiled. A decomposition, a rewriting or a lowering makes nodes and
// constants whose number can depend on an attribute: a window of a million elements, a table as long as an extent. The
// code that calls one sets a limit around the call; the code that makes nodes and tensors counts them here. So the
// limit holds for every op, also for those from outside the library, and no op has to check its attributes for it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

namespace rlx {

/// The most nodes and bytes of constants that may be made from `nodes` nodes: a fixed amount and an amount for each
/// node, both far above what useful graphs need.
struct Growth {
  size_t nodes = 0, bytes = 0;
  static constexpr size_t kNodes = size_t{1} << 16, kNodesForEach = size_t{1} << 8;
  static constexpr size_t kBytes = size_t{1} << 29, kBytesForEach = size_t{1} << 24;
  static Growth of(size_t nodes) { return {kNodes + nodes * kNodesForEach, kBytes + nodes * kBytesForEach}; }
};

/// Counts what its thread makes while it lives. Limits may be nested, and each of them applies. Once more was made than
/// `most` allows, counting fails (out_of_memory) and names the operation.
class GrowthLimit {
 public:
  /// `what` is called for the message only: "the decomposition of 'im2col'".
  GrowthLimit(Growth most, std::function<std::string()> what);
  ~GrowthLimit();
  GrowthLimit(const GrowthLimit&) = delete;
  GrowthLimit& operator=(const GrowthLimit&) = delete;

  const Growth& made() const { return made_; }

  /// Call this where a node, or an operation of another format, is made.
  static void count_node();
  /// Call this before memory for a tensor is allocated.
  static void count_bytes(size_t bytes);
  /// Call this before memory is allocated for a table that becomes a constant and whose length depends on an attribute
  /// or an extent.
  static void count_table(int64_t count, size_t bytes_each);

 private:
  /// Fails for the outermost limit that is exceeded, because its message names the operation that the user knows.
  static void check();

  Growth most_, made_ = {0, 0};
  std::function<std::string()> what_;
  GrowthLimit* outer_;
};

}  // namespace rlx

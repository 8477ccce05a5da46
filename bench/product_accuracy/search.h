// Random search for operands on which ours lose more than the peers do: random sizes, and distributions whose rows,
// columns and slices of the depth are scaled by random powers of two, with outliers, zeros and numbers near the least
// one. All sums stay finite. Each trial is made of its seed and its op alone, so that `--search 0 --seed N` repeats
// one.
//
// Among thousands of trials with few elements a peer is lucky now and then, so what counts is ours over the larger one
// of the worse peer's error and of a share of the promise in docs/runtime.md, c sqrt(terms) units, such that a trial is
// beyond the limit if it is beyond both: that many times the worse peer, and the promise. What is exact has no share.
// The largest ratio to the peers alone is printed beside it.
#pragma once

#include <span>
#include <vector>

#include "bench/product_accuracy/comparison.h"

namespace rlx::accuracy {

struct SearchOptions {
  double limit = 4;
  double seconds = 0;
  unsigned seed = 1;        ///< of the first trial; the next one has the next
  bool is_verbose = false;  ///< every trial is printed
};
/// At least one trial. Prints the worst one of each op. Returns how many are beyond the limit.
int64_t search(std::span<const Op* const> ops, const std::vector<Way>& ways, const SearchOptions& options);

}  // namespace rlx::accuracy

// Ours beside the peers, for one case or several of one size.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "bench/product_accuracy/case.h"

namespace rlx::accuracy {

struct Way {
  std::string name;
  std::function<std::vector<float>(const Case&)> run;  ///< an empty result: it does not offer this
  bool is_peer = false;
};
/// The peers that are built in, and unless `peers_only` ours, with constant operands and with ones that come at run
/// time.
std::vector<Way> all_ways(bool peers_only, const CompileOptions& options);

struct Comparison {
  std::vector<Errors> errors;  ///< of each way; zeros where it does not offer the case
  Errors peers;                ///< the worse ones of theirs
  bool is_exact = false;

  /// How many times a way's errors are the worse peer's: at the worst element, and at one in a thousand. `least`
  /// stands for the peers' where they lose less. Of a case that is exact any error is infinitely many.
  double times_peers(size_t way, double least) const;
};
/// Of all elements of these cases, which are of one size.
Comparison compare(std::span<const std::unique_ptr<Case>> cases, const std::vector<Way>& ways);

/// Half a unit is not a finding, so that a limit of 4 begins to count there.
constexpr double least_of_peers(double limit) { return 0.5 / limit; }

}  // namespace rlx::accuracy

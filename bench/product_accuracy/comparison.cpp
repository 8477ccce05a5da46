#include "bench/product_accuracy/comparison.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace rlx::accuracy {

std::vector<Way> all_ways(bool peers_only, const CompileOptions& options) {
  std::vector<Way> ways = {{"OpenBLAS", [](const Case& c) { return c.by_peer(Peer::openblas); }, true}};
#if RLX_HAS_ONEDNN
  ways.push_back({"oneDNN", [](const Case& c) { return c.by_peer(Peer::onednn); }, true});
#endif
  if (peers_only) return ways;
  ways.push_back({"RLX, constant", [options](const Case& c) { return by_rlx(c, true, options); }});
  ways.push_back({"RLX, run time", [options](const Case& c) { return by_rlx(c, false, options); }});
  return ways;
}

Comparison compare(std::span<const std::unique_ptr<Case>> cases, const std::vector<Way>& ways) {
  Comparison all;
  all.is_exact = cases.front()->is_exact;
  for (const Way& way : ways) {
    std::vector<double> errors;
    for (const auto& c : cases) {
      const std::vector<float> y = way.run(*c);
      if (y.empty()) break;
      const std::vector<double> of_case = errors_in_units(*c, y);
      errors.insert(errors.end(), of_case.begin(), of_case.end());
    }
    const Errors e = summary(std::move(errors), cases.front()->terms);
    all.errors.push_back(e);
    if (!way.is_peer || !std::isfinite(e.worst)) continue;  // what overflows there is no excuse
    all.peers.worst = std::max(all.peers.worst, e.worst);
    all.peers.thousandth = std::max(all.peers.thousandth, e.thousandth);
  }
  return all;
}

double Comparison::times_peers(size_t way, double least) const {
  const Errors& e = errors[way];
  if (is_exact) return e.worst > 0 ? std::numeric_limits<double>::infinity() : 0;
  return std::max(e.worst / std::max(peers.worst, least), e.thousandth / std::max(peers.thousandth, least));
}

}  // namespace rlx::accuracy

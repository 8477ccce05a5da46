#include "bench/product_accuracy/table.h"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <memory>

namespace rlx::accuracy {
namespace {

void take_worse(Errors& all, const Errors& e) {
  all.worst = std::max(all.worst, e.worst), all.thousandth = std::max(all.thousandth, e.thousandth);
  all.worst_of_root = std::max(all.worst_of_root, e.worst_of_root);
}

/// Cases of a cell that have together at least as many elements as a percentile of 99.9 needs: the best of few elements
/// says what was drawn, not what a program loses.
std::vector<std::unique_ptr<Case>> cases_of(const Problem& problem, const Filling& filling) {
  constexpr size_t kLeastElements = 1000;
  std::vector<std::unique_ptr<Case>> cases;
  Random random(problem.seed);
  for (size_t elements = 0; elements < kLeastElements; elements += cases.back()->exact.size())
    cases.push_back(problem.make(filling, random));
  return cases;
}

class Table {
 public:
  Table(const Op& op, const std::vector<Way>& ways, const TableOptions& options, std::ofstream& csv)
      : op_(op), ways_(ways), options_(options), csv_(csv), totals_(ways.size()), problems_(op.problems()) {}

  int64_t print() {
    std::printf("\n%-24s %-26s", text_of(op_.name, ", rows").c_str(), "weights");
    for (const Way& w : ways_) std::printf(" %22s", w.name.c_str());
    std::printf("\n");
    for (const Distribution& rows : kRows)
      for (const Distribution& weights : kWeights)
        if ((options_.rows.empty() || options_.rows == rows.name) &&
            (options_.weights.empty() || options_.weights == weights.name))
          print_pair(rows, weights);
    std::printf("%s: worst, 99.9th percentile, worst / sqrt(terms):\n", op_.name);
    for (size_t i = 0; i < ways_.size(); ++i)
      std::printf("  %-16s %10.4g %10.4g %10.4g\n", ways_[i].name.c_str(), totals_[i].worst, totals_[i].thousandth,
                  totals_[i].worst_of_root);
    if (cells_ > 0)
      std::printf("%lld cells, %lld beyond %g times the worse peer; most: %.3g times, %s\n",
                  static_cast<long long>(cells_), static_cast<long long>(beyond_), options_.limit, most_times_,
                  most_.c_str());
    return beyond_;
  }

 private:
  void print_pair(const Distribution& rows, const Distribution& weights) {
    std::vector<Errors> of_pair(ways_.size());
    std::string notes;
    for (const Problem& problem : problems_) {
      const Comparison found = compare(cases_of(problem, {rows.fill, weights.fill, is_one_hot(rows)}), ways_);
      for (size_t i = 0; i < ways_.size(); ++i) {
        const Errors& e = found.errors[i];
        take_worse(totals_[i], e), take_worse(of_pair[i], e);
        if (csv_.is_open())
          csv_ << op_.name << ',' << rows.name << ',' << weights.name << ',' << problem.size << ',' << ways_[i].name
               << ',' << e.worst << ',' << e.thousandth << '\n';
        if (ways_[i].is_peer) continue;
        ++cells_;
        const double times = found.times_peers(i, least_of_peers(options_.limit));
        if (times > most_times_)
          most_times_ = times,
          most_ = text_of(rows.name, " with ", weights.name, ", ", problem.size, ", ", ways_[i].name);
        if (times <= options_.limit) continue;
        ++beyond_;
        char text[240];
        std::snprintf(text, sizeof text, "\n    %s %s: %.3g (%.3g), %s", ways_[i].name.c_str(), problem.size.c_str(),
                      e.worst, e.thousandth, found.is_exact ? "should be exact" : "the peers ");
        notes += text;
        if (found.is_exact) continue;
        std::snprintf(text, sizeof text, "%.3g (%.3g)", found.peers.worst, found.peers.thousandth);
        notes += text;
      }
    }
    std::printf("%-24s %-26s", rows.name, weights.name);
    for (const Errors& e : of_pair) std::printf(" %10.3g (%9.3g)", e.worst, e.thousandth);
    std::printf("%s\n", notes.c_str());
    std::fflush(stdout);
  }

  const Op& op_;
  const std::vector<Way>& ways_;
  const TableOptions& options_;
  std::ofstream& csv_;
  std::vector<Errors> totals_;
  std::vector<Problem> problems_;
  int64_t cells_ = 0, beyond_ = 0;
  double most_times_ = 0;  ///< the worse peer's
  std::string most_;       ///< which cell has these
};

}  // namespace

int64_t print_tables(std::span<const Op* const> ops, const std::vector<Way>& ways, const TableOptions& options) {
  std::ofstream csv;
  if (!options.csv.empty()) csv.open(options.csv), csv << "op,rows,weights,size,way,worst,thousandth\n";
  int64_t beyond = 0;
  for (const Op* op : ops) beyond += Table(*op, ways, options, csv).print();
  return beyond;
}

}  // namespace rlx::accuracy

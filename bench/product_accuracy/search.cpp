#include "bench/product_accuracy/search.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>

#include "tests/support/tolerance.h"

namespace rlx::accuracy {
namespace {

/// How one operand is drawn.
struct Scales {
  const Distribution* base = nullptr;
  int overall = 0;                                               ///< exponents of 2
  int rows = 0, columns = 0, slices = 0;                         ///< up to so many more or less
  int64_t slice = 1;                                             ///< how long they are
  int outliers = 0, zeros = 0, zero_rows = 0, zero_columns = 0;  ///< of a thousand
  int most = 100;                                                ///< no number has a larger exponent

  std::string text() const {
    std::string t = base->name;
    const auto add = [&](const char* what, auto value) {
      if (value != 0) t += text_of(", ", what, ' ', value);
    };
    add("all 2^", overall), add("rows 2^", rows), add("columns 2^", columns);
    if (slices != 0) t += text_of(", slices of ", slice, " 2^", slices);
    add("outliers", outliers), add("zeros", zeros), add("zero rows", zero_rows), add("zero columns", zero_columns);
    return t;
  }

  void fill(Matrix& m, Random& r, bool depth_is_columns) const {
    base->fill(m, r);
    const auto exponents = [&](int64_t count, int64_t length, int spread, int rate_of_zeros) {
      std::vector<int> all(static_cast<size_t>(count));
      for (size_t i = 0; i < all.size(); ++i) {
        all[i] = static_cast<int>(between(r, -spread, spread));
        if (i % static_cast<size_t>(length) != 0) all[i] = all[i - 1];
        if (between(r, 0, 999) < rate_of_zeros) all[i] = kNone;
      }
      return all;
    };
    const std::vector<int> of_row = exponents(m.rows, 1, rows, zero_rows),
                           of_column = exponents(m.cols, 1, columns, zero_columns),
                           of_depth = exponents(depth_is_columns ? m.cols : m.rows, slice, slices, 0);
    for (int64_t i = 0; i < m.rows; ++i)
      for (int64_t j = 0; j < m.cols; ++j) {
        const int row = of_row[static_cast<size_t>(i)], column = of_column[static_cast<size_t>(j)];
        int exponent = overall + row + column + of_depth[static_cast<size_t>(depth_is_columns ? j : i)];
        if (between(r, 0, 999) < outliers) exponent += 24;
        float& v = m.at(i, j);
        if (row == kNone || column == kNone || between(r, 0, 999) < zeros) v = 0;
        if (v == 0) continue;
        v = std::ldexp(v, std::min(exponent, most - std::ilogb(v)));
      }
  }

 private:
  static constexpr int kNone = -100000;
};

Scales random_scales(Random& r, std::span<const Distribution> bases) {
  Scales s;
  s.base = r() % 2 == 0 ? &bases[0] : &bases[r() % bases.size()];
  const auto spread = [&] {
    constexpr int kSpreads[] = {0, 0, 2, 8, 24, 60};
    return kSpreads[r() % std::size(kSpreads)];
  };
  const auto rate = [&] {
    constexpr int kRates[] = {0, 0, 0, 1, 20, 300};
    return kRates[r() % std::size(kRates)];
  };
  s.rows = spread(), s.columns = spread(), s.slices = spread();
  s.slice = mostly_small(r, 1, 256);
  s.outliers = std::min(rate(), 20), s.zeros = rate(), s.zero_rows = rate(), s.zero_columns = rate();
  s.overall = r() % 5 < 3 ? 0 : static_cast<int>(between(r, -150, 80));
  return s;
}

struct Trial {
  const Op* op;
  std::string size, operands;
  std::unique_ptr<Case> problem;
};

Trial trial_of(unsigned seed, std::span<const Op* const> ops) {
  Random random(seed);
  Trial t;
  t.op = ops[seed % ops.size()];
  const Problem problem = t.op->random(random);
  Scales rows = random_scales(random, kRows), weights = random_scales(random, kWeights);
  // 2^105 times the number of terms is finite.
  rows.most = std::clamp(rows.overall + 60, -100, 100);
  weights.most = std::min(std::clamp(weights.overall + 60, -100, 100), 105 - rows.most);
  const bool one_hot = is_one_hot(*rows.base);
  t.size = problem.size, t.operands = text_of("rows: ", rows.text(), "; weights: ", weights.text());
  t.problem = problem.make({[rows](Matrix& m, Random& r) { rows.fill(m, r, true); },
                            [weights](Matrix& m, Random& r) { weights.fill(m, r, false); }, one_hot},
                           random);
  return t;
}

/// The worst trial of an op by some measure.
struct Worst {
  double times = -1;
  std::string text;

  void take(double other, const std::string& what) {
    if (other > times) times = other, text = what;
  }
};

class Search {
 public:
  Search(std::span<const Op* const> ops, const std::vector<Way>& ways, const SearchOptions& options)
      : ops_(ops), ways_(ways), options_(options), found_(ops.size()) {}

  int64_t run() {
    unsigned seed = options_.seed;
    do {
      try_one(seed++);
      if (isatty(STDERR_FILENO)) tell(seed - options_.seed);
    } while (seconds() < options_.seconds);
    if (told_ > 0) std::fprintf(stderr, "\n");
    int64_t beyond = 0;
    for (size_t i = 0; i < ops_.size(); ++i) beyond += print(ops_[i]->name, found_[i]);
    return beyond;
  }

 private:
  struct Found {
    Worst counted, beside_peers;
    double of_root = 0;  ///< over sqrt(terms)
    int64_t trials = 0, beyond = 0;
  };

  double seconds() const { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count(); }

  void try_one(unsigned seed) {
    const Trial trial = trial_of(seed, ops_);
    const Comparison comparison = compare({&trial.problem, 1}, ways_);
    Found& found = found_[seed % ops_.size()];
    ++found.trials;
    const double promised = kProductErrorOfRoot * std::sqrt(static_cast<double>(trial.problem->terms));
    bool is_beyond = false;
    for (size_t i = 0; i < ways_.size(); ++i) {
      if (ways_[i].is_peer) continue;
      const Errors& e = comparison.errors[i];
      const double alone = comparison.times_peers(i, least_of_peers(options_.limit)),
                   counted = comparison.times_peers(i, promised / options_.limit);
      const std::string text =
          text_of("--op ", trial.op->name, " --search 0 --seed ", seed, ": ", trial.size, ", ", ways_[i].name, ": ",
                  e.worst, " units, the peers ", comparison.peers.worst, ", the promise ", promised, "; ", counted,
                  " times, ", alone, " times the peers alone\n    ", trial.operands);
      found.counted.take(counted, text), found.beside_peers.take(alone, text);
      found.of_root = std::max(found.of_root, e.worst_of_root);
      is_beyond = is_beyond || counted > options_.limit;
      if (counted > options_.limit || options_.is_verbose) std::printf("%s\n", text.c_str()), std::fflush(stdout);
    }
    found.beyond += is_beyond;
  }

  void tell(unsigned trials) {
    if (seconds() < told_ + 1) return;
    told_ = seconds();
    double most = 0;
    for (const Found& f : found_) most = std::max(most, f.counted.times);
    std::fprintf(stderr, "\r%.0f s of %.0f, %u trials, worst %.3g times ", told_, options_.seconds, trials, most);
  }

  int64_t print(const char* op, const Found& f) const {
    if (f.trials == 0) return 0;
    std::printf("%s: %lld trials, %lld beyond %g times the worse peer and the promise; worst / sqrt(terms) %.4g\n", op,
                static_cast<long long>(f.trials), static_cast<long long>(f.beyond), options_.limit, f.of_root);
    std::printf("  worst %.4g times: %s\n", f.counted.times, f.counted.text.c_str());
    std::printf("  worst beside the peers alone %.4g times: %s\n", f.beside_peers.times, f.beside_peers.text.c_str());
    return f.beyond;
  }

  std::span<const Op* const> ops_;
  const std::vector<Way>& ways_;
  const SearchOptions& options_;
  std::vector<Found> found_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  double told_ = 0;
};

}  // namespace

int64_t search(std::span<const Op* const> ops, const std::vector<Way>& ways, const SearchOptions& options) {
  return Search(ops, ways, options).run();
}

}  // namespace rlx::accuracy

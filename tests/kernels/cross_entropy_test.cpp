// Cross-entropies and their gradient against the formulas in double.
#include "kernels/norm/cross_entropy.h"

#include "kernels/kernel_test.h"

using namespace rlx;
using namespace rlx::kernels;
using namespace rlx::test;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

double log_sum_exp(const Elements& x, int64_t first, int64_t n) {
  double max = -kInfinity, sum = 0;
  for (int64_t i = 0; i < n; ++i) max = std::max(max, x[first + i]);
  for (int64_t i = 0; i < n; ++i) sum += std::exp(x[first + i] - max);
  return max + std::log(sum);
}

enum class Which { labels, targets, backward };
std::vector<double> run(Which which, const Elements& x, const Elements& second, int64_t rows, int64_t cols,
                        const Elements* ct = nullptr) {
  Elements y = Elements::filled(x.dtype(), (which == Which::backward ? rows * cols : rows) + 1, 77);
  CrossEntropyArgs args{.dtype = x.dtype(), .logits = x.data(), .y = y.data(), .cols = cols};
  args.labels = second.data(), args.label_dtype = second.dtype(), args.targets = second.data();
  if (ct) args.ct = ct->data();
  Scratch scratch(cross_entropy_scratch_bytes(x.dtype(), cols));
  auto f = which == Which::labels    ? label_cross_entropy_rows
           : which == Which::targets ? target_cross_entropy_rows
                                     : label_cross_entropy_backward_rows;
  f(args, 0, rows / 2, scratch.data());
  f(args, rows / 2, rows, scratch.data());
  std::vector<double> all;
  for (int64_t i = 0; i < y.size(); ++i) all.push_back(y[i]);
  REQUIRE(all.back() == 77);
  all.pop_back();
  return all;
}

Elements numbers(DType t, const std::vector<double>& values) {
  Elements x(t, int64_t(values.size()));
  for (size_t i = 0; i < values.size(); ++i) x.set(int64_t(i), values[i]);
  return x;
}

struct Rows {
  int64_t rows, cols;
};
const std::vector<Rows> kShapes{{1, 1}, {3, 2}, {5, 7}, {4, 16}, {3, 17}, {2, 64}, {3, 100}, {2, 1025}};

}  // namespace

TEST_CASE("losses and the gradient of every float dtype equal the formulas") {
  for_each_target([] {
    for (DType t : float_dtypes())
      for (const Rows& r : kShapes) {
        const Elements x = Elements::random(t, r.rows * r.cols, 1, -8, 8), ct = Elements::random(t, r.rows, 2);
        Elements targets = Elements::random(t, r.rows * r.cols, 3, -0.5, 1), labels(i32, r.rows);
        for (int64_t i = 0; i < targets.size(); i += 3) targets.set(i, 0);
        for (int64_t i = 0; i < r.rows; ++i) labels.set(i, double((i * 7 + r.cols / 2) % r.cols));
        const auto by_label = run(Which::labels, x, labels, r.rows, r.cols);
        const auto by_target = run(Which::targets, x, targets, r.rows, r.cols);
        const auto gradient = run(Which::backward, x, labels, r.rows, r.cols, &ct);
        for (int64_t row = 0; row < r.rows; ++row) {
          const double all = log_sum_exp(x, row * r.cols, r.cols);
          double weighted = 0, size = 0;
          for (int64_t i = row * r.cols; i < (row + 1) * r.cols; ++i) {
            weighted += targets[i] * (all - x[i]), size += std::abs(targets[i] * (all - x[i]));
            const double hit = i - row * r.cols == int64_t(labels[row]);
            require_close(t, i, gradient[size_t(i)], (std::exp(x[i] - all) - hit) * ct[row], 64, 1);
          }
          require_close(t, row, by_label[size_t(row)], all - x[row * r.cols + int64_t(labels[row])], 16, 16);
          require_close(t, row, by_target[size_t(row)], weighted, 64, size);
        }
      }
  });
}

TEST_CASE("labels of any integer dtype; one that is no class gives NaN") {
  for_each_target([] {
    for (DType t : float_dtypes()) {
      const Elements x = Elements::random(t, 12, 4), ct = Elements::filled(t, 4, 1);
      for (DType label : integer_dtypes()) {
        bool with_sign = kind_of(label) == Kind::signed_int;
        const Elements labels = numbers(label, {0, with_sign ? -1.0 : 100, 2, 3});
        const auto loss = run(Which::labels, x, labels, 4, 3), gradient = run(Which::backward, x, labels, 4, 3, &ct);
        for (size_t row = 0; row < 4; ++row) {
          CHECK(std::isnan(loss[row]) == (row % 2 == 1));
          for (size_t i = 0; i < 3; ++i) CHECK(std::isnan(gradient[3 * row + i]) == (row % 2 == 1));
        }
      }
    }
  });
}

TEST_CASE("infinities: no weight at -inf, no distance from +inf, NaN passes on") {
  for_each_target([] {
    for (DType t : float_dtypes()) {
      auto loss = [&](const std::vector<double>& row, double label) {
        return run(Which::labels, numbers(t, row), numbers(i32, {label}), 1, int64_t(row.size()))[0];
      };
      CHECK(loss({-kInfinity, 1}, 1) == 0);
      CHECK(loss({-kInfinity, 1}, 0) == kInfinity);
      CHECK(loss({kInfinity, 1}, 1) == kInfinity);
      for (const auto& row :
           {std::vector<double>{kInfinity, 1}, {-kInfinity, -kInfinity}, {1, kNaN}, {kNaN, kInfinity}})
        CHECK(std::isnan(loss(row, 0)));
      CHECK(std::isnan(loss({kInfinity, 1, kNaN}, 1)));
      // A target of 0 adds nothing, even at an infinite distance.
      CHECK(run(Which::targets, numbers(t, {-kInfinity, 1}), numbers(t, {0, 1}), 1, 2)[0] == 0);
      CHECK(run(Which::targets, numbers(t, {-kInfinity, 1}), numbers(t, {2, 1}), 1, 2)[0] == kInfinity);
      CHECK(std::isnan(run(Which::targets, numbers(t, {kNaN, 1}), numbers(t, {0, 1}), 1, 2)[0]));
      const Elements one = numbers(t, {1});
      for (const auto& row : {std::vector<double>{kInfinity, 1}, {-kInfinity, -kInfinity}, {1, kNaN}})
        for (double v : run(Which::backward, numbers(t, row), numbers(i32, {0}), 1, 2, &one)) CHECK(std::isnan(v));
    }
  });
}

TEST_CASE("the gradient can be written over the logits") {
  for_each_target([] {
    for (DType t : float_dtypes()) {
      Elements x = Elements::random(t, 74, 6);
      const Elements labels = numbers(u8, {3, 36}), ct = numbers(t, {2, -1});
      const auto want = run(Which::backward, x, labels, 2, 37, &ct);
      Scratch scratch(cross_entropy_scratch_bytes(t, 37));
      CrossEntropyArgs args{.dtype = t, .logits = x.data(), .labels = labels.data(), .label_dtype = u8};
      args.ct = ct.data(), args.y = x.data(), args.cols = 37;
      label_cross_entropy_backward_rows(args, 0, 2, scratch.data());
      for (int64_t i = 0; i < 74; ++i) CHECK(x[i] == want[size_t(i)]);
    }
  });
}

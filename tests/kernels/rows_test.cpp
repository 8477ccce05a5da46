// Softmax and norms against scalar loops in double.
#include "kernels/norm/rows.h"

#include "kernels/kernel_test.h"

using namespace rlx;
using namespace rlx::kernels;
using namespace rlx::test;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

std::vector<double> softmax(const std::vector<double>& x, bool log) {
  double max = -kInfinity, sum = 0;
  for (double v : x) max = std::max(max, v);
  for (double v : x) sum += std::exp(v - max);
  std::vector<double> y;
  for (double v : x) y.push_back(log ? v - max - std::log(sum) : std::exp(v - max) / sum);
  return y;
}

struct Rows {
  int64_t count, cols, stride;
};
const std::vector<Rows> kShapes{{3, 1, 4},   {2, 2, 2},     {4, 7, 9},     {2, 16, 16},    {3, 17, 20},
                                {2, 64, 64}, {2, 100, 101}, {1, 384, 384}, {2, 1025, 1100}};

/// One row of a softmax in f32.
std::vector<double> softmax_row(DType t, const std::vector<double>& x, bool log = false) {
  const auto n = static_cast<int64_t>(x.size());
  Elements in(t, n), out(t, n);
  for (int64_t i = 0; i < n; ++i) in.set(i, x[static_cast<size_t>(i)]);
  Scratch scratch(rows_scratch_bytes(t, n));
  softmax_rows({.dtype = t, .x = in.data(), .y = out.data(), .x_stride = n, .y_stride = n, .cols = n, .log = log}, 0, 1,
               scratch.data());
  std::vector<double> y;
  for (int64_t i = 0; i < n; ++i) y.push_back(out[i]);
  return y;
}

}  // namespace

TEST_CASE("softmax and log_softmax equal the formula, for every float dtype, row length and stride") {
  for_each_target([] {
    for (DType t : float_dtypes()) {
      for (const Rows& r : kShapes) {
        for (bool log : {false, true}) {
          const Elements x = Elements::random(t, r.count * r.stride, 7, -8, 8);
          Elements y = Elements::filled(t, r.count * (r.cols + 3), 77);
          Scratch scratch(rows_scratch_bytes(t, r.cols));
          const SoftmaxArgs args{.dtype = t,
                                 .x = x.data(),
                                 .y = y.data(),
                                 .x_stride = r.stride,
                                 .y_stride = r.cols + 3,
                                 .cols = r.cols,
                                 .log = log};
          // In two calls: a range is rows, whichever thread has them.
          softmax_rows(args, 0, 1, scratch.data());
          softmax_rows(args, 1, r.count, scratch.data());
          for (int64_t row = 0; row < r.count; ++row) {
            std::vector<double> values;
            for (int64_t i = 0; i < r.cols; ++i) values.push_back(x[row * r.stride + i]);
            const std::vector<double> want = softmax(values, log);
            for (int64_t i = 0; i < r.cols; ++i) {
              const double got = y[row * (r.cols + 3) + i], exact = want[static_cast<size_t>(i)];
              require_close(t, i, got, exact, 32, log ? 16 : 0);
            }
            for (int64_t i = r.cols; i < r.cols + 3; ++i) REQUIRE(y[row * (r.cols + 3) + i] == 77);
          }
        }
      }
    }
  });
}

TEST_CASE("softmax gives equal weight to equal logits, however large") {
  for_each_target([] {
    for (DType t : float_dtypes())
      for (double v : softmax_row(t, {60000, 60000, 60000, 60000})) CHECK(v == 0.25);
  });
}

TEST_CASE("softmax gives no weight to -inf, and NaN to a row of -inf alone or with NaN or +inf") {
  for_each_target([] {
    for (DType t : float_dtypes()) {
      CAPTURE(t);
      CHECK(softmax_row(t, {1, -kInfinity, 1}) == std::vector<double>{0.5, 0, 0.5});
      for (const auto& row : {std::vector<double>(5, -kInfinity), {1, kInfinity, 2}, {kNaN, 1, 2}, {1, 2, kNaN}})
        for (double v : softmax_row(t, row)) CHECK(std::isnan(v));
    }
  });
}

TEST_CASE("softmax gives small weights down to the least subnormal number, with the digits that these have") {
  for_each_target([] {
    std::vector<float> x = {0}, y;
    double sum = 1;
    for (int i = 0; i < 500; ++i)
      x.push_back(-30 - 0.152F * static_cast<float>(i)), sum += std::exp(static_cast<double>(x.back()));
    y.resize(x.size());
    SoftmaxArgs a;
    a.x = x.data(), a.y = y.data();
    a.x_stride = a.y_stride = a.cols = static_cast<int64_t>(x.size());
    Scratch scratch(rows_scratch_bytes(f32, a.cols));
    softmax_rows(a, 0, 1, scratch.data());
    for (size_t i = 0; i < x.size(); ++i) {
      const double exact = std::exp(static_cast<double>(x[i])) / sum;
      INFO("e^", x[i], " = ", exact, " is ", y[i]);
      CHECK(std::fabs(static_cast<double>(y[i]) - exact) <= 4 * 0x1p-24 * exact + 0x1p-149);
    }
  });
}

TEST_CASE("softmax can be done in place") {
  for_each_target([] {
    Elements x = Elements::random(f32, 100, 3);
    std::vector<double> values;
    for (int64_t i = 0; i < 100; ++i) values.push_back(x[i]);
    Scratch scratch(rows_scratch_bytes(f32, 100));
    softmax_rows({.x = x.data(), .y = x.data(), .x_stride = 100, .y_stride = 100, .cols = 100}, 0, 1, scratch.data());
    const std::vector<double> want = softmax(values, false);
    for (int64_t i = 0; i < 100; ++i) CHECK(is_close(f32, x[i], want[static_cast<size_t>(i)], 32));
  });
}

TEST_CASE("logsumexp equals the formula, also for infinities and an empty row") {
  for_each_target([] {
    for (DType t : float_dtypes()) {
      const auto of = [&](const std::vector<double>& row) {
        const auto n = static_cast<int64_t>(row.size());
        Elements x(t, n), y(t, 1);
        for (int64_t i = 0; i < n; ++i) x.set(i, row[static_cast<size_t>(i)]);
        Scratch scratch(rows_scratch_bytes(t, n));
        logsumexp_rows({.dtype = t, .x = x.data(), .y = y.data(), .x_stride = n, .cols = n}, 0, 1, scratch.data());
        return y[0];
      };
      CAPTURE(t);
      CHECK(is_close(t, of({1, 2, 3}), std::log(std::exp(1) + std::exp(2) + std::exp(3))));
      CHECK(is_close(t, of({1000, 1000}), 1000 + std::log(2)));
      CHECK(of({}) == -kInfinity);
      CHECK(of({-kInfinity, -kInfinity}) == -kInfinity);
      CHECK(of({1, kInfinity}) == kInfinity);
      CHECK(std::isnan(of({1, kNaN, 2})));
      CHECK(std::isnan(of({kNaN, kInfinity, 2})));
    }
  });
}

namespace {

struct NormCase {
  bool bias, residual, sum, gamma, beta, centred;
};

void check_norm(DType t, const Rows& r, const NormCase& c) {
  const Elements x = Elements::random(t, r.count * r.stride, 1, -3, 5),
                 residual = Elements::random(t, r.count * r.stride, 2);
  const Elements bias = Elements::random(t, r.cols, 3), gamma = Elements::random(t, r.cols, 4),
                 beta = Elements::random(t, r.cols, 5);
  Elements y(t, r.count * r.cols), sum(t, r.count * r.cols);
  Scratch scratch(rows_scratch_bytes(t, r.cols));
  NormArgs args{.dtype = t, .x = x.data(), .y = y.data(), .x_stride = r.stride, .y_stride = r.cols, .cols = r.cols};
  if (c.bias) args.bias = bias.data();
  if (c.residual) args.residual = residual.data(), args.residual_stride = r.stride;
  if (c.sum) args.sum = sum.data(), args.sum_stride = r.cols;
  if (c.gamma) args.gamma = gamma.data();
  if (c.beta) args.beta = beta.data();
  c.centred ? layer_norm_rows(args, 0, r.count, scratch.data()) : rms_norm_rows(args, 0, r.count, scratch.data());

  Elements one(t, 1);
  const auto rounded = [&](double v) {
    one.set(0, is_low_precision(t) ? static_cast<double>(static_cast<float>(v)) : v);
    return one[0];
  };
  for (int64_t row = 0; row < r.count; ++row) {
    std::vector<double> s;
    double mean = 0, variance = 0;
    const auto n = static_cast<double>(r.cols);
    for (int64_t i = 0; i < r.cols; ++i) {
      double v = x[row * r.stride + i];
      if (c.bias) v = rounded(v + bias[i]);
      if (c.residual) v = rounded(v + residual[row * r.stride + i]);
      s.push_back(v);
      mean += v / n;
      if (c.sum) REQUIRE(sum[row * r.cols + i] == v);
    }
    if (!c.centred) mean = 0;
    for (double v : s) variance += (v - mean) * (v - mean) / n;
    for (int64_t i = 0; i < r.cols; ++i) {
      const double z = (s[static_cast<size_t>(i)] - mean) / std::sqrt(variance + args.eps);
      const double want = z * (c.gamma ? gamma[i] : 1) + (c.beta ? beta[i] : 0), got = y[row * r.cols + i];
      require_close(t, i, got, want, 16, std::abs(z) * 2 + 2 + (r.cols < 3 ? 1e3 : 0));
    }
  }
}

}  // namespace

TEST_CASE("layer_norm and rms_norm equal the formula, with residual, bias, gamma and beta or without") {
  for_each_target([] {
    for (DType t : float_dtypes())
      for (const Rows& r : kShapes)
        for (bool centred : {true, false})
          for (const NormCase& c : {NormCase{false, false, false, true, true, centred},
                                    {true, true, true, true, true, centred},
                                    {false, true, false, false, false, centred},
                                    {false, true, true, true, false, centred},
                                    {true, false, false, false, true, centred}})
            check_norm(t, r, c);
  });
}

TEST_CASE("layer_norm keeps its digits when the mean is far from zero") {
  for_each_target([] {
    const int64_t n = 768;
    Elements x = Elements::random(f32, n, 9, 9999, 10001), y(f32, n);
    Scratch scratch(rows_scratch_bytes(f32, n));
    layer_norm_rows({.x = x.data(), .y = y.data(), .x_stride = n, .y_stride = n, .cols = n}, 0, 1, scratch.data());
    double mean = 0, variance = 0;
    for (int64_t i = 0; i < n; ++i) mean += x[i] / n;
    for (int64_t i = 0; i < n; ++i) variance += (x[i] - mean) * (x[i] - mean) / n;
    // The mean itself is good to one rounding of 10,000, which is 1e-3 here; E[x^2] - E[x]^2 would be off by 6.
    for (int64_t i = 0; i < n; ++i) CHECK(std::abs(y[i] - (x[i] - mean) / std::sqrt(variance + 1e-5)) < 2e-3);
  });
}

TEST_CASE("a norm may write over its residual") {
  for_each_target([] {
    const int64_t n = 33;
    Elements x = Elements::random(f32, n, 1), residual = Elements::random(f32, n, 2), separate(f32, n);
    Scratch scratch(rows_scratch_bytes(f32, n));
    NormArgs args{.x = x.data(), .y = separate.data(), .x_stride = n, .y_stride = n, .cols = n};
    args.residual = residual.data(), args.residual_stride = n;
    layer_norm_rows(args, 0, 1, scratch.data());
    args.y = residual.data();
    layer_norm_rows(args, 0, 1, scratch.data());
    for (int64_t i = 0; i < n; ++i) CHECK(residual[i] == separate[i]);
  });
}

// Norms with gamma and beta by channel, and their gradient, against scalar loops in double.
#include "kernels/norm/group_norm.h"

#include "kernels/kernel_test.h"

using namespace rlx;
using namespace rlx::kernels;
using namespace rlx::test;

namespace {

struct Shape3 {
  int64_t n, groups, channels, space;
};
const std::vector<Shape3> kShapes{{1, 1, 1, 1},  {2, 1, 3, 5},  {3, 2, 4, 1},  {2, 3, 6, 16},
                                  {1, 2, 4, 17}, {2, 4, 4, 33}, {1, 1, 2, 70}, {1, 2, 2, 4099},
                                  {2, 2, 4, 0},  {0, 2, 4, 3},  {2, 1, 5, 130}};

/// Elements of x[n, channels, space] that share their statistics, and the channel of each.
struct Group {
  std::vector<int64_t> at, channel;
};
std::vector<Group> groups_of(const Shape3& s, bool over_channels) {
  std::vector<Group> all;
  auto add = [&](int64_t n, int64_t c, int64_t p) {
    all.back().at.push_back((n * s.channels + c) * s.space + p);
    all.back().channel.push_back(c);
  };
  const int64_t in_group = s.channels / s.groups;
  for (int64_t n = 0; n < s.n; ++n) {
    if (over_channels) {
      for (int64_t p = 0; p < s.space; ++p) {
        all.emplace_back();
        for (int64_t c = 0; c < s.channels; ++c) add(n, c, p);
      }
      continue;
    }
    for (int64_t g = 0; g < s.groups; ++g) {
      all.emplace_back();
      for (int64_t c = g * in_group; c < (g + 1) * in_group; ++c)
        for (int64_t p = 0; p < s.space; ++p) add(n, c, p);
    }
  }
  return all;
}

struct Statistics {
  double mean = 0, inverse = 0;
  Statistics(const Elements& x, const Group& group, double eps) {
    long double sum = 0, squares = 0;
    const auto n = double(group.at.size());
    for (int64_t i : group.at) sum += x[i];
    mean = double(sum / n);
    for (int64_t i : group.at) squares += (x[i] - mean) * (x[i] - mean);
    inverse = 1 / std::sqrt(double(squares / n) + eps);
  }
};

GroupNormArgs args_of(const Shape3& s, DType t, const Elements& x, Elements& y) {
  void* to = y.data();  // non-const access first: it may copy the elements that y shares with x
  GroupNormArgs args{.dtype = t, .x = x.data(), .y = to};
  args.groups = s.groups, args.channels = s.channels, args.space = s.space, args.eps = 0.01;
  return args;
}

}  // namespace

TEST_CASE("group and channel norms equal the formula, in place and not, in any split") {
  for_each_target([] {
    for (DType t : float_dtypes())
      for (const Shape3& s : kShapes)
        for (int flags = 0; flags < 16; ++flags) {
          const int64_t count = s.n * s.channels * s.space;
          const Elements x = Elements::random(t, count + 1, 1, 2, 6);
          const Elements gamma = Elements::random(t, s.channels, 2), beta = Elements::random(t, s.channels, 3);
          const bool over_channels = flags & 1;
          Elements y = flags & 2 ? x : Elements::filled(t, count + 1, 77);
          GroupNormArgs args = args_of(s, t, flags & 2 ? y : x, y);
          if (flags & 4) args.gamma = gamma.data();
          if (flags & 8) args.beta = beta.data();
          const int64_t tasks = over_channels ? s.n * s.space : s.n * s.groups;
          auto f = over_channels ? channel_norm : group_norm;
          f(args, 0, tasks / 3);
          f(args, tasks / 3, tasks);
          for (const Group& group : groups_of(s, over_channels)) {
            const Statistics of(x, group, args.eps);
            for (size_t k = 0; k < group.at.size(); ++k) {
              double want = (x[group.at[k]] - of.mean) * of.inverse;
              if (args.gamma) want *= gamma[group.channel[k]];
              if (args.beta) want += beta[group.channel[k]];
              require_close(t, group.at[k], y[group.at[k]], want, 64, 10);
            }
          }
          REQUIRE(y[count] == (flags & 2 ? x[count] : 77));
        }
  });
}

TEST_CASE("a mean far from zero costs no more digits than it must") {
  for_each_target([] {
    const Shape3 s{1, 1, 2, 9000};
    Elements x(f32, 18000), y(f32, 18000);
    for (int64_t i = 0; i < 18000; ++i)
      x.set(i, i == 0 ? 1e6 : 1000 + double(i % 3));  // an outlier, then a narrow band
    group_norm(args_of(s, f32, x, y), 0, 1);
    const Statistics of(x, groups_of(s, false)[0], 0.01);
    // Sums of f32 in four lanes, in blocks of 4096, lose 12.4 roundings here (NumPy, in the same order).
    for (int64_t i = 0; i < 18000; ++i)
      require_close(f32, i, y[i], (x[i] - of.mean) * of.inverse, 16, 1000 * of.inverse + 1);
  });
}

TEST_CASE("NaN and infinities make their group NaN and no other") {
  for_each_target([] {
    for (DType t : float_dtypes())
      for (double v : {std::nan(""), std::numeric_limits<double>::infinity()}) {
        Elements x = Elements::random(t, 60, 4), y(t, 60);
        x.set(17, v);
        group_norm(args_of({1, 2, 4, 15}, t, x, y), 0, 2);
        for (int64_t i = 0; i < 60; ++i) CHECK(std::isnan(y[i]) == (i < 30));
        channel_norm(args_of({1, 2, 4, 15}, t, x, y), 0, 15);
        for (int64_t i = 0; i < 60; ++i) CHECK(std::isnan(y[i]) == (i % 15 == 2));
      }
  });
}

TEST_CASE("the gradient of a group norm equals the formula") {
  for_each_target([] {
    for (DType t : {f32, f64})
      for (const Shape3& s : kShapes)
        for (bool has_gamma : {false, true}) {
          const int64_t count = s.n * s.channels * s.space;
          const Elements x = Elements::random(t, count, 1, -1, 4), ct = Elements::random(t, count, 2);
          const Elements gamma = Elements::random(t, s.channels, 3);
          Elements d_x = Elements::filled(t, count + 1, 77), d_gamma(t, s.channels + 1), d_beta(t, s.channels + 1);
          GroupNormArgs args = args_of(s, t, x, d_x);
          args.ct = ct.data();
          if (has_gamma) args.gamma = gamma.data();
          std::vector<double> sums(size_t(2 * s.n * s.channels) + 1);
          double* const both[2] = {sums.data(), sums.data() + s.n * s.channels};
          group_norm_backward(args, 0, s.n * s.groups / 2, both);
          group_norm_backward(args, s.n * s.groups / 2, s.n * s.groups, both);
          add_group_sums(t, both[0], s.n, s.channels, d_gamma.data());
          add_group_sums(t, both[1], s.n, s.channels, d_beta.data());
          std::vector<double> want_gamma(size_t(s.channels)), want_beta(size_t(s.channels));
          for (const Group& group : groups_of(s, false)) {
            const Statistics of(x, group, args.eps);
            double mean_g = 0, mean_gh = 0;
            const auto n = double(group.at.size());
            auto h = [&](size_t k) { return (x[group.at[k]] - of.mean) * of.inverse; };
            auto g = [&](size_t k) { return ct[group.at[k]] * (has_gamma ? gamma[group.channel[k]] : 1); };
            for (size_t k = 0; k < group.at.size(); ++k) {
              mean_g += g(k) / n, mean_gh += g(k) * h(k) / n;
              want_gamma[size_t(group.channel[k])] += ct[group.at[k]] * h(k);
              want_beta[size_t(group.channel[k])] += ct[group.at[k]];
            }
            for (size_t k = 0; k < group.at.size(); ++k)
              require_close(t, group.at[k], d_x[group.at[k]], (g(k) - mean_g - h(k) * mean_gh) * of.inverse, 64,
                            10 * of.inverse);
          }
          for (int64_t c = 0; c < s.channels; ++c) {
            require_close(t, c, d_gamma[c], want_gamma[size_t(c)], 64, std::sqrt(double(count)) + 1);
            require_close(t, c, d_beta[c], want_beta[size_t(c)], 64, std::sqrt(double(count)) + 1);
          }
          REQUIRE(d_x[count] == 77);
        }
  });
}

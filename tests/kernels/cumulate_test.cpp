// Running sums, products and maxima against a loop in double, for integers modulo their width.
#include "kernels/reduce/cumulate.h"

#include <complex>

#include "kernels/kernel_test.h"

using namespace rlx;
using namespace rlx::kernels;
using namespace rlx::test;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

struct View {
  int64_t outer, extent, inner;
};
const std::vector<View> kViews{{1, 1, 1},  {1, 9, 1},  {3, 5, 1},  {4, 6, 1},  {5, 7, 1}, {11, 3, 1}, {2, 4, 3},
                               {1, 5, 16}, {2, 3, 17}, {3, 2, 33}, {1, 3, 50}, {0, 4, 2}, {3, 0, 2},  {2, 1, 40}};

double lowest(DType t) {
  if (is_float(t)) return -kInfinity;
  return kind_of(t) == Kind::signed_int ? -std::ldexp(1.0, info(t).bits - 1) : 0;
}
double combined(CumulateOp op, double x, double y) {
  if (op == CumulateOp::sum) return x + y;
  if (op == CumulateOp::prod) return x * y;
  return std::isnan(x) ? x : std::isnan(y) ? y : std::max(x, y);
}

/// The expected running results of a vector, before they are rounded or wrap.
std::vector<double> expected(CumulateOp op, DType t, std::vector<double> x, bool exclusive, bool reverse) {
  if (reverse) std::reverse(x.begin(), x.end());
  double running = op == CumulateOp::sum ? 0 : op == CumulateOp::prod ? 1 : lowest(t);
  for (double& v : x) {
    double next = combined(op, running, v);
    v = exclusive ? running : next;
    running = next;
  }
  if (reverse) std::reverse(x.begin(), x.end());
  return x;
}

void check(CumulateOp op, const Elements& x, const View& v, bool exclusive, bool reverse, bool in_place) {
  DType t = x.dtype();
  Elements y = in_place ? x : Elements::filled(t, x.size() + 1, 3);
  CumulateArgs args{.op = op,
                    .dtype = t,
                    .x = in_place ? y.data() : x.data(),
                    .y = y.data(),
                    .extent = v.extent,
                    .inner = v.inner,
                    .exclusive = exclusive,
                    .reverse = reverse};
  const int64_t vectors = v.outer * v.inner;
  cumulate(args, 0, vectors / 2);
  cumulate(args, vectors / 2, vectors);
  for (int64_t o = 0; o < v.outer; ++o)
    for (int64_t k = 0; k < v.inner; ++k) {
      auto at = [&](int64_t i) { return (o * v.extent + i) * v.inner + k; };
      std::vector<double> in;
      for (int64_t i = 0; i < v.extent; ++i) in.push_back(x[at(i)]);
      const std::vector<double> want = expected(op, t, in, exclusive, reverse);
      for (int64_t i = 0; i < v.extent; ++i) {
        Elements wrapped(t, 1);
        if (is_integer(t)) wrapped.set(0, want[size_t(i)]);
        require_close(t, at(i), y[at(i)], is_integer(t) ? wrapped[0] : want[size_t(i)], 1);
      }
    }
  if (!in_place) REQUIRE(y[x.size()] == 3);
}

}  // namespace

TEST_CASE("running results of every real and integer dtype, along any axis, from either end") {
  std::vector<DType> dtypes = float_dtypes();
  dtypes.insert(dtypes.end(), integer_dtypes().begin(), integer_dtypes().end());
  for (DType t : dtypes)
    for (const View& v : kViews)
      for (CumulateOp op : {CumulateOp::sum, CumulateOp::prod, CumulateOp::max})
        for (int flags = 0; flags < 8; ++flags)
          check(op,
                Elements::random(t, v.outer * v.extent * v.inner, uint64_t(flags), is_float(t) ? -2 : 0,
                                 is_float(t) ? 2 : 9),
                v, flags & 1, flags & 2, flags & 4);
}

TEST_CASE("NaN stays, infinities meet as they do in arithmetic") {
  for (DType t : float_dtypes()) {
    Elements x(t, 5);
    for (int64_t i = 0; i < 5; ++i) x.set(i, std::vector<double>{1, kInfinity, -kInfinity, 2, kNaN}[size_t(i)]);
    for (CumulateOp op : {CumulateOp::sum, CumulateOp::prod, CumulateOp::max})
      for (bool reverse : {false, true}) check(op, x, {1, 5, 1}, false, reverse, false);
  }
}

TEST_CASE("integers wrap") {
  Elements x = Elements::filled(i8, 3, 100), y(i8, 3);
  cumulate({.op = CumulateOp::sum, .dtype = i8, .x = x.data(), .y = y.data(), .extent = 3}, 0, 1);
  CHECK(y[1] == -56);
  CHECK(y[2] == 44);
  cumulate({.op = CumulateOp::prod, .dtype = i8, .x = x.data(), .y = y.data(), .extent = 3}, 0, 1);
  CHECK(y[1] == 16);
}

TEST_CASE("a long sum of f32 loses no more than one rounding") {
  Elements x = Elements::filled(f32, 100000, 0.1), y(f32, 100000);
  cumulate({.x = x.data(), .y = y.data(), .extent = 100000}, 0, 1);
  CHECK(is_close(f32, y[99999], 100000 * double(0.1f), 1));
}

TEST_CASE("the maximum of booleans is or") {
  Elements x(boolean, 4), y(boolean, 4);
  x.set(1, 1), x.set(2, 0), x.set(3, 1);
  auto run = [&](bool exclusive) {
    cumulate(
        {.op = CumulateOp::max, .dtype = boolean, .x = x.data(), .y = y.data(), .extent = 4, .exclusive = exclusive}, 0,
        1);
    return std::vector<double>{y[0], y[1], y[2], y[3]};
  };
  CHECK(run(false) == std::vector<double>{0, 1, 1, 1});
  CHECK(run(true) == std::vector<double>{0, 0, 1, 1});
}

TEST_CASE("complex numbers") {
  using C = std::complex<float>;
  std::vector<C> x = {{1, 2}, {0, -1}, {3, 1}}, y(3);
  CumulateArgs args{.op = CumulateOp::prod, .dtype = c64, .x = x.data(), .y = y.data(), .extent = 3};
  cumulate(args, 0, 1);
  CHECK(y == std::vector<C>{{1, 2}, {2, -1}, {7, -1}});
  args.op = CumulateOp::sum, args.reverse = true;
  cumulate(args, 0, 1);
  CHECK(y == std::vector<C>{{4, 2}, {3, 0}, {3, 1}});
}

TEST_CASE("sums along rows of f32 are the sums in double, rounded, on every target and also in place") {
  for_each_target([] {
    Random r(5);
    for (int64_t extent = 0; extent < 70; ++extent) {
      std::vector<float> x;
      for (int64_t i = 0; i < 3 * extent; ++i) x.push_back(static_cast<float>(r.between(-2, 2)));
      if (extent == 40) x[45] = static_cast<float>(kInfinity), x[50] = static_cast<float>(kNaN);
      std::vector<float> y(x.size());
      cumulate_row_sums(x.data(), y.data(), 3, extent);
      std::vector<float> same = x;
      cumulate_row_sums(same.data(), same.data(), 3, extent);
      double sum = 0;
      for (size_t i = 0; i < x.size(); ++i) {
        sum = (i % static_cast<size_t>(extent) ? sum : 0) + static_cast<double>(x[i]);
        CAPTURE(i);
        // The double's own rounding depends on the order; of what is rounded to f32 that is at most the last place.
        if (std::isfinite(sum)) CHECK(std::fabs(static_cast<double>(y[i]) - sum) <= 0x1p-24 * std::fabs(sum) + 1e-14);
        else CHECK((std::isnan(sum) ? std::isnan(y[i]) : static_cast<double>(y[i]) == sum));
        CHECK((same[i] == y[i] || std::isnan(y[i])));
      }
    }
  });
}

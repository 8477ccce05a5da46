// argsort and top_k against std::stable_sort.
#include "kernels/index/sort.h"

#include <algorithm>
#include <complex>
#include <numeric>

#include "kernels/kernel_test.h"

using namespace rlx;
using namespace rlx::kernels;
using namespace rlx::test;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

bool less(double a, double b) { return std::isnan(b) ? !std::isnan(a) : a < b; }

std::vector<int64_t> expected(const std::vector<double>& vector, bool descending, int64_t k) {
  std::vector<int64_t> order(vector.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    const double x = vector[static_cast<size_t>(a)], y = vector[static_cast<size_t>(b)];
    return descending ? less(y, x) : less(x, y);
  });
  order.resize(static_cast<size_t>(k));
  return order;
}

}  // namespace

TEST_CASE("argsort and top_k are stable in every dtype, along any axis, NaN above all numbers") {
  std::vector<DType> types = integer_dtypes();
  for (DType t : {f32, f16, bf16, f64, f8e5m2, f8e4m3fn, boolean}) types.push_back(t);
  for (DType t : types) {
    for (uint64_t seed = 0; seed < 30; ++seed) {
      Random r(seed);
      const int64_t outer = 1 + r.below(3), inner = 1 + r.below(3), extent = r.below(seed % 5 == 0 ? 500 : 40);
      const int64_t axis_stride = inner + r.below(2), outer_stride = axis_stride * extent + 1;
      Elements x(t, outer * outer_stride + inner);
      for (int64_t i = 0; i < x.size(); ++i) {
        const double specials[] = {kNaN, kInfinity, -kInfinity, 0, -0.0};
        const int64_t choice = is_float(t) ? r.below(12) : 99;
        x.set(i, t == boolean ? static_cast<double>(r.below(2))
                 : choice < 5 ? specials[choice]
                              : static_cast<double>(r.below(20) - (kind_of(t) == Kind::unsigned_int ? 0 : 10)));
      }
      for (bool descending : {false, true}) {
        for (int64_t k : {extent, std::min<int64_t>(extent, 3)}) {
          std::vector<int32_t> narrow(static_cast<size_t>(outer * inner * k), -1);
          std::vector<int64_t> wide(narrow.size(), -1);
          SortArgs args{.dtype = t,
                        .x = x.data(),
                        .extent = extent,
                        .inner = inner,
                        .outer_stride = outer_stride,
                        .axis_stride = axis_stride,
                        .descending = descending,
                        .indices = narrow.data(),
                        .index_dtype = i32,
                        .k = k};
          Scratch scratch(sort_scratch_bytes(t, extent));
          argsort(args, 0, 1, scratch.data());
          argsort(args, 1, outer * inner, scratch.data());
          args.indices = wide.data(), args.index_dtype = i64;
          argsort(args, 0, outer * inner, scratch.data());
          for (int64_t o = 0; o < outer; ++o) {
            for (int64_t i = 0; i < inner; ++i) {
              std::vector<double> vector;
              for (int64_t e = 0; e < extent; ++e) vector.push_back(x[o * outer_stride + e * axis_stride + i]);
              const std::vector<int64_t> want = expected(vector, descending, k);
              for (int64_t e = 0; e < k; ++e) {
                const auto at = static_cast<size_t>((o * k + e) * inner + i);
                REQUIRE(narrow[at] == want[static_cast<size_t>(e)]);
                REQUIRE(wide[at] == want[static_cast<size_t>(e)]);
              }
            }
          }
        }
      }
    }
  }
}

TEST_CASE("64-bit integers that no double tells apart are told apart") {
  const int64_t big = int64_t{1} << 62;
  const std::vector<int64_t> x{big + 1, big, -big, big + 2, -big - 1};
  std::vector<int32_t> order(5);
  Scratch scratch(sort_scratch_bytes(i64, 5));
  SortArgs args{.dtype = i64, .x = x.data(), .extent = 5, .indices = order.data(), .k = 5};
  argsort(args, 0, 1, scratch.data());
  CHECK(order == std::vector<int32_t>{4, 2, 1, 0, 3});
  args.dtype = u64;  // negative ones are the largest
  argsort(args, 0, 1, scratch.data());
  CHECK(order == std::vector<int32_t>{1, 0, 3, 4, 2});
}

TEST_CASE("complex numbers sort by real part, then imaginary part") {
  const std::vector<std::complex<float>> x{{1, 2}, {0, 5}, {1, -1}, {0, -5}, {1, 2}};
  std::vector<int32_t> order(5);
  Scratch scratch(sort_scratch_bytes(c64, 5));
  SortArgs args{.dtype = c64, .x = x.data(), .extent = 5, .indices = order.data(), .k = 5};
  argsort(args, 0, 1, scratch.data());
  CHECK(order == std::vector<int32_t>{3, 1, 2, 0, 4});
}

TEST_CASE("top_k of a long vector keeps the smaller index of equal values") {
  const int64_t n = 10000;
  Elements x(f32, n);
  Random r(4);
  std::vector<double> vector;
  for (int64_t i = 0; i < n; ++i) {
    x.set(i, static_cast<double>(r.below(50)));
    vector.push_back(x[i]);
  }
  std::vector<int32_t> order(400);
  Scratch scratch(sort_scratch_bytes(f32, n));
  SortArgs args{.x = x.data(), .extent = n, .descending = true, .indices = order.data(), .k = 400};
  argsort(args, 0, 1, scratch.data());
  const std::vector<int64_t> want = expected(vector, true, 400);
  CHECK(std::equal(order.begin(), order.end(), want.begin()));
}

TEST_CASE("top_k of vectors longer than the vectors' groups, on every instruction set") {
  for_each_target([] {
    for (DType t : {f32, f16, i32, u8}) {
      for (int64_t n : {256, 257, 303, 1000, 4099}) {
        Random r(static_cast<uint64_t>(n));
        Elements x(t, n);
        std::vector<double> vector;
        for (int64_t i = 0; i < n; ++i) {
          const int64_t choice = is_float(t) ? r.below(40) : 99;
          x.set(i, choice == 0   ? kNaN
                   : choice == 1 ? -kInfinity
                   : choice == 2 ? -0.0
                                 : static_cast<double>(r.below(120)));
          vector.push_back(x[i]);
        }
        for (bool descending : {false, true}) {
          for (int64_t k : {int64_t{1}, int64_t{17}, n / 8, n}) {
            std::vector<int32_t> order(static_cast<size_t>(k));
            Scratch scratch(sort_scratch_bytes(t, n));
            argsort({.dtype = t, .x = x.data(), .extent = n, .descending = descending, .indices = order.data(), .k = k},
                    0, 1, scratch.data());
            const std::vector<int64_t> want = expected(vector, descending, k);
            CAPTURE(n);
            CAPTURE(k);
            CHECK(std::equal(order.begin(), order.end(), want.begin()));
          }
        }
      }
    }
  });
}

// argmax and argmin against a scalar search.
#include "kernels/reduce/argmax.h"

#include "kernels/kernel_test.h"

using namespace rlx;
using namespace rlx::kernels;
using namespace rlx::test;

namespace {

struct View {
  int64_t outer, extent, inner;
};
const std::vector<View> kViews{{1, 1, 1}, {3, 2, 1},  {2, 15, 1}, {2, 16, 1}, {3, 67, 1}, {1, 64, 1}, {2, 300, 1},
                               {2, 5, 3}, {1, 9, 16}, {2, 4, 17}, {3, 6, 40}, {1, 1, 20}, {0, 3, 2},  {1, 70, 8}};

int32_t expected_index(const Elements& x, int64_t first, int64_t extent, int64_t inner, bool largest) {
  int64_t best = 0;
  for (int64_t i = 0; i < extent; ++i) {
    double v = x[first + i * inner], b = x[first + best * inner];
    if (std::isnan(v)) return int32_t(i);
    if (largest ? v > b : v < b) best = i;
  }
  return int32_t(best);
}

void check(const Elements& x, const View& v) {
  for (bool largest : {true, false}) {
    const int64_t vectors = v.outer * v.inner;
    std::vector<int32_t> indices(size_t(vectors + 1), 77);
    ArgmaxArgs args{.dtype = x.dtype(), .largest = largest, .x = x.data(), .indices = indices.data()};
    args.extent = v.extent, args.inner = v.inner;
    argmax_indices(args, 0, vectors / 3);
    argmax_indices(args, vectors / 3, vectors);
    for (int64_t vector = 0; vector < vectors; ++vector) {
      int32_t want =
          expected_index(x, vector / v.inner * v.extent * v.inner + vector % v.inner, v.extent, v.inner, largest);
      INFO(std::string(name_of(x.dtype())), " ", v.outer, "x", v.extent, "x", v.inner, " vector ", vector);
      REQUIRE(indices[size_t(vector)] == want);
    }
    REQUIRE(indices.back() == 77);
  }
}

}  // namespace

TEST_CASE("the first of the largest and of the smallest, for every dtype, along any axis") {
  std::vector<DType> dtypes = float_dtypes();
  dtypes.insert(dtypes.end(), integer_dtypes().begin(), integer_dtypes().end());
  dtypes.push_back(boolean);
  for_each_target([&] {
    for (DType t : dtypes)
      for (const View& v : kViews) {
        const int64_t n = v.outer * v.extent * v.inner;
        Elements few(t, n);  // few values, so that many are equal
        Random random(9);
        for (int64_t i = 0; i < n; ++i) few.set(i, double(random.below(t == boolean ? 2 : 4)));
        check(few, v);
        if (t != boolean) check(Elements::random(t, n, 5, kind_of(t) == Kind::unsigned_int ? 0 : -100, 100), v);
      }
  });
}

TEST_CASE("a NaN is the maximum and the minimum, wherever it is; infinities and zeros are numbers") {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
  for_each_target([&] {
    for (DType t : float_dtypes())
      for (int64_t inner : {1, 20})
        for (int64_t extent : {1, 3, 40, 70})
          for (int64_t at = 0; at < extent; at += 7)
            for (double v : {kNaN, kInfinity, -kInfinity, -0.0}) {
              Elements x = Elements::random(t, extent * inner, uint64_t(at));
              x.set(at * inner + inner / 2, v);
              if (at + 2 < extent) x.set((at + 2) * inner + inner / 2, v);
              check(x, {1, extent, inner});
              check(Elements::filled(t, extent * inner, v), {1, extent, inner});
            }
  });
}

TEST_CASE("integers beyond the precision of a double") {
  std::vector<int64_t> x = {INT64_MAX - 1, INT64_MAX, INT64_MIN + 1, INT64_MIN};
  int32_t index = 0;
  ArgmaxArgs args{.dtype = i64, .x = x.data(), .indices = &index, .extent = 4};
  argmax_indices(args, 0, 1);
  CHECK(index == 1);
  args.largest = false;
  argmax_indices(args, 0, 1);
  CHECK(index == 3);
  args.dtype = u64, args.largest = true;
  argmax_indices(args, 0, 1);
  CHECK(index == 2);
}

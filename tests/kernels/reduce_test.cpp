// Reductions against scalar loops.
#include "kernels/reduce/reduce.h"

#include <complex>

#include "kernels/kernel_test.h"

using namespace rlx;
using namespace rlx::kernels;
using namespace rlx::test;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

struct View {
  int64_t outer, reduce, inner;
};
const std::vector<View> kViews{{3, 5, 1},   {2, 1, 1},    {4, 100, 1},   {2, 1000, 1}, {1, 3, 7},
                               {2, 17, 16}, {3, 9, 33},   {1, 40, 1100}, {2, 5000, 3}, {19, 37, 1},
                               {8, 16, 1},  {9, 9000, 1}, {1, 1, 5}};

/// x in memory with gaps: reduce_stride = inner + 1 (1 for rows), outer_stride beyond that.
struct Case {
  View v;
  int64_t reduce_stride, outer_stride;
  explicit Case(const View& view) : v(view) {
    reduce_stride = v.inner == 1 ? 1 : v.inner + 1;
    outer_stride = reduce_stride * v.reduce + 3;
  }
  int64_t at(int64_t o, int64_t r, int64_t i) const { return o * outer_stride + r * reduce_stride + i; }
  int64_t size() const { return v.outer * outer_stride + v.inner; }
  ReduceArgs args(ReduceOp op, DType t, const void* x, void* y) const {
    return {.op = op,
            .dtype = t,
            .x = x,
            .y = y,
            .outer = v.outer,
            .reduce = v.reduce,
            .inner = v.inner,
            .outer_stride = outer_stride,
            .reduce_stride = reduce_stride};
  }
};

double combine(ReduceOp op, double a, double b) {
  switch (op) {
    case ReduceOp::sum: return a + b;
    case ReduceOp::prod: return a * b;
    case ReduceOp::max: return std::isnan(a) || std::isnan(b) ? kNaN : std::max(a, b);
    default: return std::isnan(a) || std::isnan(b) ? kNaN : std::min(a, b);
  }
}
double neutral(ReduceOp op) {
  return op == ReduceOp::sum ? 0 : op == ReduceOp::prod ? 1 : op == ReduceOp::max ? -kInfinity : kInfinity;
}

}  // namespace

TEST_CASE("float reductions equal the exact ones, over rows and over columns, in any split") {
  for_each_target([] {
    for (DType t : {f32, f16, bf16, f64, f8e5m2}) {
      for (const View& view : kViews) {
        for (ReduceOp op : {ReduceOp::sum, ReduceOp::prod, ReduceOp::max, ReduceOp::min}) {
          const Case c(view);
          const bool is_prod = op == ReduceOp::prod;
          const Elements x = Elements::random(t, c.size(), 5, is_prod ? 0.96 : -1, is_prod ? 1.04 : 1);
          Elements y(t, view.outer * view.inner);
          const ReduceArgs args = c.args(op, t, x.data(), y.data());
          const int64_t count = view.outer * view.inner, middle = count / 3;
          reduce(args, 0, middle);
          reduce(args, middle, count);
          for (int64_t k = 0; k < count; ++k) {
            double want = neutral(op), size = 0;
            for (int64_t r = 0; r < view.reduce; ++r) {
              const double v = x[c.at(k / view.inner, r, k % view.inner)];
              want = combine(op, want, v);
              size += std::abs(v);
            }
            // A sum's error is relative to the sum of the magnitudes; a product's grows with its length.
            require_close(t, k, y[k], want, is_prod ? 2 + static_cast<double>(view.reduce) : 6, is_prod ? 0 : size);
          }
        }
      }
    }
  });
}

TEST_CASE("the sum of many ones is exact in f32, f16 and bf16, by rows and by columns") {
  for_each_target([] {
    for (DType t : {f32, f16, bf16}) {
      const int64_t n = 40960;  // which all of them represent
      const Elements x = Elements::filled(t, n * 2, 1);
      Elements y(t, 2);
      ReduceArgs rows{
          .dtype = t, .x = x.data(), .y = y.data(), .outer = 2, .reduce = n, .outer_stride = n, .reduce_stride = 1};
      reduce(rows, 0, 2);
      CHECK((y[0] == n && y[1] == n));
      ReduceArgs columns{.dtype = t, .x = x.data(), .y = y.data(), .reduce = n, .inner = 2, .reduce_stride = 2};
      reduce(columns, 0, 2);
      CHECK((y[0] == n && y[1] == n));
      columns.scale = 1.0 / n;
      reduce(columns, 0, 2);
      CHECK(std::abs(y[1] - 1) < 1e-6);
    }
  });
}

TEST_CASE("a long f32 sum stays near the exact one") {
  for_each_target([] {
    const int64_t n = 3000000;
    const Elements x = Elements::random(f32, n, 8, 0, 1);
    double exact = 0;
    for (int64_t i = 0; i < n; ++i) exact += x[i];
    Elements y(f32, 1);
    reduce({.x = x.data(), .y = y.data(), .reduce = n, .reduce_stride = 1}, 0, 1);
    CHECK(std::abs(y[0] - exact) < exact * 2e-7);
    // The same numbers as three columns.
    Elements z(f32, 3);
    reduce({.x = x.data(), .y = z.data(), .reduce = n / 3, .inner = 3, .reduce_stride = 3}, 0, 3);
    CHECK(std::abs(z[0] + z[1] + z[2] - exact) < exact * 4e-6);
  });
}

TEST_CASE("max and min pass NaN on from any position") {
  for_each_target([] {
    for (DType t : float_dtypes()) {
      for (int64_t position = 0; position < 70; position += 3) {
        Elements x = Elements::random(t, 70, 1), y(t, 1);
        x.set(position, kNaN);
        for (ReduceOp op : {ReduceOp::max, ReduceOp::min}) {
          reduce({.op = op, .dtype = t, .x = x.data(), .y = y.data(), .reduce = 70, .reduce_stride = 1}, 0, 1);
          REQUIRE(std::isnan(y[0]));
          reduce({.op = op, .dtype = t, .x = x.data(), .y = y.data(), .reduce = 35, .inner = 1, .reduce_stride = 2}, 0,
                 1);
          REQUIRE(std::isnan(y[0]) == (position % 2 == 0));
        }
      }
    }
  });
}

TEST_CASE("integer reductions wrap, order by sign and combine bits") {
  for (DType t : integer_dtypes()) {
    for (const View& view : kViews) {
      const Case c(view);
      Elements x(t, c.size());
      Random random(3);
      for (int64_t i = 0; i < c.size(); ++i)
        x.set(i, static_cast<double>(random.below(256) - (kind_of(t) == Kind::signed_int ? 128 : 0)));
      Elements y(t, view.outer * view.inner), one(t, 1);
      for (ReduceOp op : {ReduceOp::sum, ReduceOp::prod, ReduceOp::max, ReduceOp::min, ReduceOp::all, ReduceOp::any}) {
        reduce(c.args(op, t, x.data(), y.data()), 0, view.outer * view.inner);
        for (int64_t k = 0; k < view.outer * view.inner; ++k) {
          uint64_t bits = op == ReduceOp::prod ? 1 : op == ReduceOp::all ? ~uint64_t{0} : 0;
          double best = neutral(op);
          for (int64_t r = 0; r < view.reduce; ++r) {
            const double v = x[c.at(k / view.inner, r, k % view.inner)];
            const auto u = static_cast<uint64_t>(static_cast<int64_t>(v));
            if (op == ReduceOp::sum) bits += u;
            else if (op == ReduceOp::prod) bits *= u;
            else if (op == ReduceOp::all) bits &= u;
            else if (op == ReduceOp::any) bits |= u;
            else best = combine(op, best, v);
          }
          if (op == ReduceOp::max || op == ReduceOp::min) {
            REQUIRE(y[k] == best);
          } else {
            std::memcpy(one.data(), &bits, byte_size(t));
            REQUIRE(y[k] == one[0]);
          }
        }
      }
    }
  }
}

TEST_CASE("booleans reduce by and and or") {
  const bool x[] = {true, false, true, true, false, false, true, true, true};
  Elements y(boolean, 3);
  const auto rows = [&](ReduceOp op) {
    reduce({.op = op,
            .dtype = boolean,
            .x = x,
            .y = y.data(),
            .outer = 3,
            .reduce = 3,
            .outer_stride = 3,
            .reduce_stride = 1},
           0, 3);
    return std::vector<double>{y[0], y[1], y[2]};
  };
  CHECK(rows(ReduceOp::all) == std::vector<double>{0, 0, 1});
  CHECK(rows(ReduceOp::any) == std::vector<double>{1, 1, 1});
  CHECK(rows(ReduceOp::max) == std::vector<double>{1, 1, 1});
  CHECK(rows(ReduceOp::prod) == std::vector<double>{0, 0, 1});
}

TEST_CASE("complex numbers are summed and multiplied") {
  const std::complex<float> x[] = {{1, 2}, {3, -1}, {0, 1}, {2, 2}};
  std::complex<float> y[2];
  reduce({.dtype = c64, .x = x, .y = y, .outer = 2, .reduce = 2, .outer_stride = 2, .reduce_stride = 1}, 0, 2);
  CHECK((y[0] == std::complex<float>(4, 1) && y[1] == std::complex<float>(2, 3)));
  reduce({.op = ReduceOp::prod, .dtype = c64, .x = x, .y = y, .reduce = 2, .inner = 2, .reduce_stride = 2}, 0, 2);
  CHECK((y[0] == std::complex<float>(-2, 1) && y[1] == std::complex<float>(8, 4)));
}

TEST_CASE("an empty reduction gives the neutral element") {
  for_each_target([] {
    for (int64_t inner : {1, 3}) {
      Elements y(f32, inner), i(i8, inner), u(u16, inner), b(boolean, inner);
      const auto of = [&](ReduceOp op, Elements& out) {
        reduce({.op = op, .dtype = out.dtype(), .x = nullptr, .y = out.data(), .reduce = 0, .inner = inner}, 0, inner);
        return out[inner - 1];
      };
      CHECK(of(ReduceOp::sum, y) == 0);
      CHECK(of(ReduceOp::prod, y) == 1);
      CHECK(of(ReduceOp::max, y) == -kInfinity);
      CHECK(of(ReduceOp::min, y) == kInfinity);
      CHECK(of(ReduceOp::max, i) == -128);
      CHECK(of(ReduceOp::min, i) == 127);
      CHECK(of(ReduceOp::all, i) == -1);
      CHECK(of(ReduceOp::max, u) == 0);
      CHECK(of(ReduceOp::all, b) == 1);
      CHECK(of(ReduceOp::any, b) == 0);
    }
  });
}

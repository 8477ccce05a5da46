// Products by Ozaki splits (kernels/gemm/ozaki/split_product.h), with the processor's matrix tiles or emulated ones
// (support/emulated_tiles.h), beside sums in double. Which weights are split is in split_weights_test.cpp, the
// epilogues are in gemm_test.cpp.
#include "kernels/gemm/ozaki/split_product.h"

#include <doctest/doctest.h>
#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <random>
#include <vector>

#include "kernels/constant_product_test.h"
#include "kernels/gemm/ozaki/split_plan.h"
#include "kernels/gemm/ozaki/split_weights.h"
#include "kernels/memory/aligned_memory.h"
#include "support/emulated_tiles.h"
#include "support/sanitized.h"

using namespace rlx;
using namespace rlx::kernels;
using namespace rlx::test;

TEST_CASE_FIXTURE(
    MatrixTiles,
    "Ozaki splits: any number of rows, columns and of k, either way round, lose less than sums of f32 do") {
  size_t cases = 0;
  for (bool transposed : {false, true})
    for (int64_t m : {1, 15, 16, 17, 33, 300})
      for (int64_t n : {48, 49, 64, 83, 97})
        for (int64_t k : {700, 768, 1025}) {
          if (m == 300 && n != 83) continue;
          if (test::sanitized() && ++cases % 7 != 0) continue;  // the sums in double beside them take minutes there
          ConstantProduct p(m, n, k, transposed);
          for (int threads : {1, 2, 3}) {
            INFO(m, " x ", k, " x ", n, ", transposed ", transposed, ", ", threads, " threads");
            p.run(threads);
            const auto [over_plain, worst] = p.errors();
            CHECK(over_plain < 1.01);
            CHECK(worst < 0x1p-22);
          }
        }
}

TEST_CASE_FIXTURE(MatrixTiles, "Ozaki splits: the same results with any number of threads") {
  ConstantProduct p(70, 200, 400);
  p.run(1);
  const std::vector<float> one = p.y;
  for (int threads : {2, 3, 5}) {
    p.run(threads);
    CHECK(p.y == one);
  }
}

TEST_CASE_FIXTURE(MatrixTiles,
                  "Ozaki splits: integers are multiplied exactly, also where rows of weights are balanced") {
  for (int variant = 0; variant < 3; ++variant) {
    ConstantProduct p(20, 200, 512);
    std::mt19937 random(3);
    for (float& v : p.x) v = static_cast<float>(static_cast<int>(random() % 31) - 15);
    for (int64_t i = 0; i < p.k; ++i)
      for (int64_t j = 0; j < p.n; ++j) {
        float& v = p.w_at(i, j);
        if (variant == 0) v = i <= j ? 1.0f : 0.0f;  // running sums
        else v = static_cast<float>(static_cast<int>(random() % 101) - 50) * (variant == 2 && i == 7 ? 256.0f : 1.0f);
      }
    p.run();
    INFO("variant ", variant);
    CHECK(p.inexact() == 0);
  }
}

TEST_CASE_FIXTURE(MatrixTiles, "Ozaki splits: one large number in a column costs the others nothing") {
  ConstantProduct p(17, 64, 1024);
  for (int64_t j = 0; j < p.n; j += 5) p.w_at(3 * j, j) = 100;  // beside it, three slices would leave 17 bits
  for (int64_t i = 0; i < p.m; ++i)
    for (int64_t j = 0; j < p.n; j += 5) p.x_at(i, 3 * j) = 0;
  p.run();
  const auto [over_plain, worst] = p.errors();
  CHECK(over_plain < 1.01);
  CHECK(worst < 0x1p-22);
}

TEST_CASE_FIXTURE(MatrixTiles, "Ozaki splits: features of unlike units, with weights that make up for it") {
  ConstantProduct p(33, 80, 600);
  for (int64_t f = 0; f < p.k; f += 7) {
    const float unit = std::ldexp(1.37f, static_cast<int>(f % 41) - 20);
    for (int64_t i = 0; i < p.m; ++i) p.x_at(i, f) *= unit;
    for (int64_t j = 0; j < p.n; ++j) p.w_at(f, j) /= unit;
  }
  p.run();
  const auto [over_plain, worst] = p.errors();
  CHECK(over_plain < 1.1);
  CHECK(worst < 0x1p-22);
}

TEST_CASE_FIXTURE(MatrixTiles,
                  "Ozaki splits: the largest sums along k do not overflow, and longer ones go by multiply-adds") {
  for (int64_t k : {SplitLayout::kMaxK, SplitLayout::kMaxK + 1}) {
    ConstantProduct p(2, 48, k);
    // All digits at their ends, and a column with a fourth slice.
    std::fill(p.x.begin(), p.x.end(), -0x1.010102p+0f), std::fill(p.w.begin(), p.w.end(), -0x1.010102p+0f);
    for (int64_t f = 0; f < k; ++f) p.w_at(f, 3) = f == 5 ? -1.5f : -0x1.010102p-8f;
    p.run();
    for (int64_t j : {0, 3, 4}) {
      const ConstantProduct::Sum s = p.sum(0, j);
      const double bound = p.is_split() ? 0x1p-20 : 0x1p-24 * static_cast<double>(k);
      CHECK(std::fabs(static_cast<double>(p.y_at(1, j)) - s.exact) <= bound * s.magnitude);
    }
  }
}

TEST_CASE_FIXTURE(MatrixTiles, "Ozaki splits: weights of few bits, beside numbers of many") {
  for (int variant = 0; variant < 5; ++variant) {
    ConstantProduct p(17, 512, 512);
    std::mt19937 random(5);
    for (int64_t i = 0; i < p.k; ++i)
      for (int64_t j = 0; j < p.n; ++j) {
        const int bits = static_cast<int>(random() >> 8);
        const float all[] = {i == j ? 1.0f : 0.0f, bits % 2 ? 1.0f : -1.0f, i <= j ? 1.0f : 0.0f,
                             static_cast<float>(bits % 15 - 7), 0x1p-7f * static_cast<float>(bits % 255 - 127)};
        p.w_at(i, j) = all[variant];
      }
    p.run();
    INFO("variant ", variant);
    double squares = 0, error = 0;
    for (int64_t i = 0; i < p.m; ++i)
      for (int64_t j = 0; j < p.n; ++j) {
        const double exact = p.sum(i, j).exact, by = static_cast<double>(p.y_at(i, j)) - exact;
        squares += exact * exact, error += by * by;
      }
    CHECK(std::sqrt(error / squares) < 0x1p-20);
  }
}

TEST_CASE_FIXTURE(MatrixTiles, "Ozaki splits: what meets a row of zeros costs nothing") {
  for (const float large : {1e6f, 1e9f, 1e17f}) {
    ConstantProduct p(17, 128, 512);
    for (int64_t j = 0; j < p.n; ++j) p.w_at(9, j) = 0;
    for (int64_t i = 0; i < p.m; ++i) p.x_at(i, 9) = large;
    p.run();
    INFO(large);
    CHECK(p.errors().over_plain < 1.01);
  }
}

TEST_CASE_FIXTURE(
    MatrixTiles,
    "Ozaki splits: a few large weights do not take digits from the others of their row, nor tiny ones add up") {
  for (int variant = 0; variant < 3; ++variant) {
    ConstantProduct p(17, 128, 1024);
    for (float& v : p.x) v = std::fabs(v);
    for (int64_t f = 0; f < p.k; ++f)
      for (int64_t j = 0; j < p.n; ++j) {
        float& v = p.w_at(f, j);
        if (variant == 0 && f == 0 && j == 5) v = 1e6f;
        if (variant == 1 && f < 512 && j >= 64) v *= 1e4f;
        if (variant == 2 && (f + j) % 2) v = 1e-20f;
      }
    p.run();
    INFO("variant ", variant);
    double squares = 0, error = 0;
    for (int64_t i = 0; i < p.m; ++i)
      for (int64_t j = 16; j < 64; ++j) {
        const ConstantProduct::Sum s = p.sum(i, j);
        const double by = static_cast<double>(p.y_at(i, j)) - s.exact;
        squares += s.exact * s.exact, error += by * by;
      }
    CHECK(std::sqrt(error / squares) < 0x1p-19);
  }
}

TEST_CASE_FIXTURE(MatrixTiles, "Ozaki splits: large numbers in rows and in columns, at different places") {
  ConstantProduct p(33, 96, 768);
  for (int64_t j = 0; j < p.n; ++j) p.w_at(7 * j % p.k, j) = 1000;
  for (int64_t i = 0; i < p.m; ++i)
    for (int64_t f = 0; f < 4; ++f) p.x_at(i, (i + 100 * f) % p.k) = 1000;
  p.run();
  const auto [over_plain, worst] = p.errors();
  CHECK(over_plain < 1.5);
  CHECK(worst < 0x1p-20);
}

TEST_CASE_FIXTURE(MatrixTiles, "Ozaki splits: weights and rows of many kinds lose less than sums of f32 do") {
  const auto heavy = [](float v) { return v / std::sqrt(std::fabs(v) + 0.01f) * std::exp(std::fabs(v)); };
  const struct {
    const char* what;
    std::function<float(float v, int64_t p)> x, w;
  } kinds[] = {
      {"positive", [](float v, int64_t) { return std::fabs(v); }, [](float v, int64_t) { return std::fabs(v); }},
      {"half of a row 0", [](float v, int64_t) { return std::max(v, 0.0f); }, [](float v, int64_t) { return v; }},
      {"heavy tails", [&](float v, int64_t) { return heavy(v); }, [&](float v, int64_t) { return heavy(v); }},
      {"a large feature", [](float v, int64_t p) { return p == 3 ? 1e5f * v : v; }, [](float v, int64_t) { return v; }},
      {"signs alone", [](float v, int64_t) { return v; }, [](float v, int64_t) { return v < 0 ? -1.0f : 1.0f; }},
      {"one number", [](float v, int64_t) { return v; }, [](float, int64_t) { return 0.002f; }},
      {"few bits", [](float v, int64_t) { return v; }, [](float v, int64_t) { return std::round(v * 64) + 0.5f; }},
  };
  for (const auto& kind : kinds) {
    ConstantProduct p(17, 96, 1024);
    for (int64_t i = 0; i < p.m; ++i)
      for (int64_t f = 0; f < p.k; ++f) p.x_at(i, f) = kind.x(p.x_at(i, f), f);
    for (int64_t f = 0; f < p.k; ++f)
      for (int64_t j = 0; j < p.n; ++j) p.w_at(f, j) = kind.w(p.w_at(f, j), f);
    INFO(kind.what);
    p.run();
    CHECK(p.errors().over_plain < 1.01);
  }
}

TEST_CASE_FIXTURE(MatrixTiles, "Ozaki splits: rows of any size, each for itself") {
  ConstantProduct p(24, 50, 800);
  const float scales[] = {0x1p-120f, 0x1p-61f, 0x1p-59f, 0x1p-30f, 1, 0x1p40f, 0x1p59f, 0x1p61f, 0x1p110f, 0};
  for (int64_t i = 0; i < p.m; ++i)
    for (int64_t f = 0; f < p.k; ++f) p.x_at(i, f) *= scales[i % 10];
  p.run();
  for (int64_t i = 0; i < p.m; ++i)
    for (int64_t j = 0; j < p.n; ++j) {
      const ConstantProduct::Sum s = p.sum(i, j);
      INFO("row ", i, " column ", j);
      CHECK(std::fabs(static_cast<double>(p.y_at(i, j)) - s.exact) <= 0x1p-20 * s.magnitude);
    }
}

TEST_CASE_FIXTURE(MatrixTiles,
                  "Ozaki splits: what is not finite stays in its row, and infinities keep the signs of their weights") {
  ConstantProduct p(20, 60, 640);
  ConstantProduct clean = p;
  for (ConstantProduct* q : {&p, &clean}) q->w_at(5, 7) = -1e-20f, q->w_at(5, 8) = 1e-20f, q->w_at(5, 9) = 0;
  clean.run();
  p.x_at(2, 11) = kNan, p.x_at(4, 5) = kInf, p.x_at(6, 5) = kInf, p.x_at(6, 6) = -kInf;
  p.run();
  for (int64_t i = 0; i < p.m; ++i)
    for (int64_t j = 0; j < p.n; ++j) {
      INFO("row ", i, " column ", j);
      const float y = p.y_at(i, j);
      if (i == 2) CHECK(std::isnan(y));
      else if (i == 4 && j == 9) CHECK(std::isnan(y));
      else if (i == 4) CHECK(y == std::copysign(kInf, p.w_at(5, j)));
      else if (i == 6 && p.w_at(5, j) * p.w_at(6, j) > 0) CHECK(std::isnan(y));
      else if (i != 6) CHECK(y == clean.y_at(i, j));
    }
}

TEST_CASE_FIXTURE(MatrixTiles, "Ozaki splits: no rows at all") {
  ConstantProduct p(0, 64, 640);
  for (int threads : {1, 2}) p.run(threads);
}

TEST_CASE_FIXTURE(MatrixTiles,
                  "Ozaki splits: 16 rows and columns of any length, of which nothing is read behind the last") {
  if (!are_there) return;  // these call the tiles directly
  for (const int64_t k : {1, 3, 16, 17, 63, 64, 65, 127, 130})
    for (const int64_t lines : {1, 7, 16}) {
      ConstantProduct p(lines, 16, k);
      p.make_weights_alike();
      p.x.insert(p.x.end(), 100, kNan);
      const SplitLayout layout{k, 16};
      const StridedMatrix weights{p.w.data(), 16, 1, f32};
      SplitPlan plan;
      REQUIRE(plan_splits(weights, layout, 1, plan));
      const AlignedMemory columns = aligned_memory(static_cast<size_t>(layout.bytes(plan.fourth_blocks)));
      split_columns(weights, layout, plan, 1, columns.get());
      const SplitColumns sliced(layout, columns.get());
      const int64_t row_bytes = layout.steps() * SplitLayout::kRowStepBytes;
      const AlignedMemory rows = aligned_memory(static_cast<size_t>(2 * row_bytes));
      std::memset(rows.get(), 0x11, static_cast<size_t>(row_bytes));
      std::memset(rows.get() + row_bytes, 0xee, static_cast<size_t>(row_bytes));
      float units[16], sums[256];
      for (int copy = 0; copy < 2; ++copy)
        split_rows(p.x.data(), k, lines, layout, sliced.balances(), rows.get() + copy * row_bytes, units);
      INFO(lines, " x ", k);
      CHECK(std::memcmp(rows.get(), rows.get() + row_bytes, static_cast<size_t>(row_bytes)) == 0);
      CHECK(std::count(units, units + 16, 0.0f) == 0);
      {
        const TileScope scope;
        Prefetch nothing{columns.get(), columns.get(), 0};
        multiply_splits(sliced, 0, rows.get(), units, sums, 16, nothing);
      }
      for (int64_t i = 0; i < 16; ++i)
        for (int64_t j = 0; j < 16; ++j) {
          const ConstantProduct::Sum s = i < lines ? p.sum(i, j) : ConstantProduct::Sum{};
          CHECK(std::fabs(static_cast<double>(sums[i * 16 + j]) - s.exact) <= 0x1p-21 * s.magnitude);
        }
    }
}

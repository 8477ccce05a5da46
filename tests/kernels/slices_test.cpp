// Products by slices of integers (kernels/slices.h), where the processor has matrix tiles, beside sums in double; where
// it has none the same products go by multiply-adds, and what is asked of them holds too. The epilogues are in
// gemm_test.cpp.
#include "kernels/slices.h"

#include <doctest/doctest.h>
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "kernels/cost_model.h"
#include "kernels/gemm.h"
#include "kernels/gemm_backends.h"
#include "kernels/thread_pool.h"

using namespace rlx;
using namespace rlx::kernels;

namespace {

constexpr float kInf = std::numeric_limits<float>::infinity(), kNan = std::numeric_limits<float>::quiet_NaN();

struct Product {
  int64_t m, n, k;
  bool turned;  // weights [n, k]
  std::vector<float> x, w, y;

  Product(int64_t rows, int64_t columns, int64_t depth, bool weights_turned = false)
      : m(rows), n(columns), k(depth), turned(weights_turned) {
    std::mt19937 random(static_cast<unsigned>(m * 31 + n * 7 + k));
    std::normal_distribution<float> real;
    x.resize(static_cast<size_t>(m * k)), w.resize(static_cast<size_t>(k * n)), y.resize(static_cast<size_t>(m * n));
    for (auto* values : {&x, &w})
      for (float& v : *values) v = real(random);
  }
  float& x_at(int64_t i, int64_t p) { return x[static_cast<size_t>(i * k + p)]; }
  float& w_at(int64_t p, int64_t j) { return w[static_cast<size_t>(turned ? j * k + p : p * n + j)]; }
  float& y_at(int64_t i, int64_t j) { return y[static_cast<size_t>(i * n + j)]; }

  WeightsSpec spec(int threads) const {
    WeightsSpec s;
    s.k = k, s.n = n, s.k_stride = turned ? 1 : n, s.n_stride = turned ? k : 1, s.threads = threads;
    s.rows = 32;
    return s;
  }
  bool is_sliced() const { return pack_sliced(spec(1), w.data()) != nullptr; }
  void run(const PackedWeights& weights, int threads) {
    GemmSpec gemm;
    gemm.m = m, gemm.x_stride = k, gemm.y_stride = n, gemm.threads = threads;
    const PreparedGemm product = weights.prepare(gemm);
    std::vector<char> scratch(product.scratch_bytes() + 128, '\x7f');
    char* aligned = scratch.data() + (64 - reinterpret_cast<uintptr_t>(scratch.data()) % 64) % 64;
    std::fill(y.begin(), y.end(), 1e30f);
    product.run({x.data(), y.data()}, aligned, ThreadPool::shared());
    CHECK(std::all_of(aligned + product.scratch_bytes(), scratch.data() + scratch.size(),
                      [](char c) { return c == '\x7f'; }));
  }
  void run(int threads = 1) { run(*PackedWeights::pack(spec(threads), w.data()), threads); }

  struct Sum {
    double exact = 0, magnitude = 0;
    double plain_error = 0;  ///< of a sum of f32, one multiply-add after the other
  };
  Sum sum(int64_t i, int64_t j) {
    Sum s;
    float plain = 0;
    for (int64_t p = 0; p < k; ++p) {
      const double term = static_cast<double>(x_at(i, p)) * static_cast<double>(w_at(p, j));
      s.exact += term, s.magnitude += std::fabs(term);
      plain = std::fma(x_at(i, p), w_at(p, j), plain);
    }
    s.plain_error = static_cast<double>(plain) - s.exact;
    return s;
  }
  /// Root mean squares of the errors, over those of sums of f32; and the worst error over the sum of magnitudes.
  struct Errors {
    double over_plain, worst;
  };
  Errors errors() {
    double squares = 0, plain_squares = 0, worst = 0;
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < n; ++j) {
        const Sum s = sum(i, j);
        const double error = static_cast<double>(y_at(i, j)) - s.exact;
        squares += error * error, plain_squares += s.plain_error * s.plain_error;
        worst = std::max(worst, std::fabs(error) / s.magnitude);
      }
    return {std::sqrt(squares / plain_squares), worst};
  }
  int64_t inexact() {
    int64_t wrong = 0;
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < n; ++j) wrong += !(static_cast<double>(y_at(i, j)) == sum(i, j).exact);
    return wrong;
  }
};

}  // namespace

TEST_CASE("by slices: any number of rows, columns and of k, either way round, lose less than sums of f32 do") {
  if (!has_matrix_tiles()) MESSAGE("no matrix tiles here: this file's products go by multiply-adds");
  for (bool turned : {false, true})
    for (int64_t m : {1, 15, 16, 17, 33, 300})
      for (int64_t n : {48, 49, 64, 83, 97})
        for (int64_t k : {700, 768, 1025}) {
          if (m == 300 && n != 83) continue;
          Product p(m, n, k, turned);
          CHECK(p.is_sliced() == has_matrix_tiles());
          for (int threads : {1, 2, 3}) {
            INFO(m, " x ", k, " x ", n, ", turned ", turned, ", ", threads, " threads");
            p.run(threads);
            const auto [over_plain, worst] = p.errors();
            CHECK(over_plain < 1.01);
            CHECK(worst < (has_matrix_tiles() ? 0x1p-22 : 0x1p-24 * static_cast<double>(k)));
          }
        }
}

TEST_CASE("by slices: the same results with any number of threads") {
  Product p(70, 200, 400);
  p.run(1);
  const std::vector<float> one = p.y;
  for (int threads : {2, 3, 5}) {
    p.run(threads);
    CHECK(p.y == one);
  }
}

TEST_CASE("by slices: integers are multiplied exactly, also where rows of weights are balanced") {
  for (int variant = 0; variant < 3; ++variant) {
    Product p(20, 200, 512);
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
    CHECK(p.is_sliced() == (has_matrix_tiles() && variant > 0));  // not where half of the weights are 0
    CHECK(p.inexact() == 0);
  }
}

TEST_CASE("by slices: one large number in a column costs the others nothing") {
  Product p(17, 64, 1024);
  for (int64_t j = 0; j < p.n; j += 5) p.w_at(3 * j, j) = 100;  // beside it, three slices would leave 17 bits
  for (int64_t i = 0; i < p.m; ++i)
    for (int64_t j = 0; j < p.n; j += 5) p.x_at(i, 3 * j) = 0;
  p.run();
  CHECK(p.is_sliced() == has_matrix_tiles());
  const auto [over_plain, worst] = p.errors();
  CHECK(over_plain < 1.01);
  CHECK(worst < (has_matrix_tiles() ? 0x1p-22 : 0x1p-24 * 1024));
}

TEST_CASE("by slices: features of unlike units, with weights that make up for it") {
  Product p(33, 80, 600);
  for (int64_t f = 0; f < p.k; f += 7) {
    const float unit = std::ldexp(1.37f, static_cast<int>(f % 41) - 20);
    for (int64_t i = 0; i < p.m; ++i) p.x_at(i, f) *= unit;
    for (int64_t j = 0; j < p.n; ++j) p.w_at(f, j) /= unit;
  }
  p.run();
  CHECK(p.is_sliced() == has_matrix_tiles());
  const auto [over_plain, worst] = p.errors();
  CHECK(over_plain < 1.1);
  CHECK(worst < (has_matrix_tiles() ? 0x1p-22 : 0x1p-24 * 600));
}

TEST_CASE("by slices: the largest sums along k do not overflow, and longer ones go by multiply-adds") {
  for (int64_t k : {SlicedLayout::kMostK, SlicedLayout::kMostK + 1}) {
    Product p(2, 48, k);
    // All digits at their ends, and a column with a fourth slice.
    std::fill(p.x.begin(), p.x.end(), -0x1.010102p+0f), std::fill(p.w.begin(), p.w.end(), -0x1.010102p+0f);
    for (int64_t f = 0; f < k; ++f) p.w_at(f, 3) = f == 5 ? -1.5f : -0x1.010102p-8f;
    CHECK(p.is_sliced() == (has_matrix_tiles() && k == SlicedLayout::kMostK));
    p.run();
    for (int64_t j : {0, 3, 4}) {
      const Product::Sum s = p.sum(0, j);
      const double bound = p.is_sliced() ? 0x1p-20 : 0x1p-24 * static_cast<double>(k);
      CHECK(std::fabs(static_cast<double>(p.y_at(1, j)) - s.exact) <= bound * s.magnitude);
    }
  }
}

TEST_CASE("by slices: weights of few bits, beside numbers of many") {
  for (int variant = 0; variant < 5; ++variant) {
    Product p(17, 512, 512);
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

TEST_CASE("by slices: what meets a row of zeros costs nothing") {
  for (const float large : {1e6f, 1e9f, 1e17f}) {
    Product p(17, 128, 512);
    for (int64_t j = 0; j < p.n; ++j) p.w_at(9, j) = 0;
    for (int64_t i = 0; i < p.m; ++i) p.x_at(i, 9) = large;
    p.run();
    INFO(large);
    CHECK(p.is_sliced() == has_matrix_tiles());
    CHECK(p.errors().over_plain < 1.01);
  }
}

TEST_CASE("by slices: a few large weights do not take digits from the others of their row, nor tiny ones add up") {
  for (int variant = 0; variant < 3; ++variant) {
    Product p(17, 128, 1024);
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
        const Product::Sum s = p.sum(i, j);
        const double by = static_cast<double>(p.y_at(i, j)) - s.exact;
        squares += s.exact * s.exact, error += by * by;
      }
    CHECK(std::sqrt(error / squares) < 0x1p-19);
  }
}

TEST_CASE("by slices: large numbers in rows and in columns, at different places") {
  Product p(33, 96, 768);
  for (int64_t j = 0; j < p.n; ++j) p.w_at(7 * j % p.k, j) = 1000;
  for (int64_t i = 0; i < p.m; ++i)
    for (int64_t f = 0; f < 4; ++f) p.x_at(i, (i + 100 * f) % p.k) = 1000;
  CHECK(p.is_sliced() == has_matrix_tiles());
  p.run();
  const auto [over_plain, worst] = p.errors();
  CHECK(over_plain < 1.5);
  CHECK(worst < (has_matrix_tiles() ? 0x1p-20 : 0x1p-24 * 768));
}

TEST_CASE("by slices: weights and rows of many kinds lose less than sums of f32 do") {
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
    Product p(17, 96, 1024);
    for (int64_t i = 0; i < p.m; ++i)
      for (int64_t f = 0; f < p.k; ++f) p.x_at(i, f) = kind.x(p.x_at(i, f), f);
    for (int64_t f = 0; f < p.k; ++f)
      for (int64_t j = 0; j < p.n; ++j) p.w_at(f, j) = kind.w(p.w_at(f, j), f);
    INFO(kind.what);
    CHECK(p.is_sliced() == has_matrix_tiles());
    p.run();
    CHECK(p.errors().over_plain < 1.01);
  }
}

TEST_CASE("weights of which a part is 0 or next to nothing are multiplied as they are: rows may be large there alone") {
  for (const float small : {0.0f, 1e-12f})
    for (const bool scattered : {false, true}) {
      Product p(17, 96, 512);
      for (int64_t f = 0; f < p.k; ++f)
        for (int64_t j = 0; j < p.n; ++j)
          if (scattered ? (f + j) % 8 == 0 : (f < 256) != (j < 48)) p.w_at(f, j) = small;
      for (int64_t i = 0; i < p.m; ++i)
        for (int64_t f = 0; f < 256; ++f) p.x_at(i, f) *= 1e7f;
      CHECK(!p.is_sliced());
      p.run();
      CHECK(p.errors().worst < 0x1p-24 * 512);
    }
}

TEST_CASE("by slices: rows of any size, each for itself") {
  Product p(24, 50, 800);
  const float scales[] = {0x1p-120f, 0x1p-61f, 0x1p-59f, 0x1p-30f, 1, 0x1p40f, 0x1p59f, 0x1p61f, 0x1p110f, 0};
  for (int64_t i = 0; i < p.m; ++i)
    for (int64_t f = 0; f < p.k; ++f) p.x_at(i, f) *= scales[i % 10];
  p.run();
  for (int64_t i = 0; i < p.m; ++i)
    for (int64_t j = 0; j < p.n; ++j) {
      const Product::Sum s = p.sum(i, j);
      INFO("row ", i, " column ", j);
      CHECK(std::fabs(static_cast<double>(p.y_at(i, j)) - s.exact) <= 0x1p-20 * s.magnitude);
    }
}

TEST_CASE("by slices: what is not finite stays in its row, and infinities keep the signs of their weights") {
  Product p(20, 60, 640);
  Product clean = p;
  for (Product* q : {&p, &clean}) q->w_at(5, 7) = -1e-20f, q->w_at(5, 8) = 1e-20f, q->w_at(5, 9) = 0;
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

TEST_CASE("weights that slices do not stand for are multiplied by multiply-adds") {
  for (const float odd : {kNan, kInf, 1e30f, 0x1p-70f}) {
    Product p(3, 64, 640);
    for (int64_t f = 0; f < (odd == 0x1p-70f ? p.k : 1); ++f) p.w_at(f, 40) = odd;
    INFO(odd);
    CHECK(!p.is_sliced());
    p.run();
    for (int64_t i = 0; i < p.m; ++i)
      for (int64_t j = 0; j < p.n; ++j) {
        const Product::Sum s = p.sum(i, j);
        const auto y = static_cast<double>(p.y_at(i, j));
        if (std::isnan(s.exact)) CHECK(std::isnan(y));
        else if (std::isinf(s.exact)) CHECK(y == s.exact);
        else CHECK(std::fabs(y - s.exact) <= 0x1p-20 * s.magnitude);
      }
  }
  Product zeros(3, 64, 640);
  std::fill(zeros.w.begin(), zeros.w.end(), 0.0f);
  zeros.run();
  CHECK(std::all_of(zeros.y.begin(), zeros.y.end(), [](float v) { return v == 0; }));
}

TEST_CASE("sliced weights that were kept are taken, and others are not") {
  Product p(18, 70, 650);
  p.w_at(100, 3) = 60;  // a fourth slice
  const auto weights = PackedWeights::pack(p.spec(1), p.w.data());
  if (!has_matrix_tiles()) return;
  p.run(*weights, 1);
  const std::vector<float> expected = p.y;
  const std::span<const std::byte> packed = weights->packed();
  const auto block = std::shared_ptr<std::byte>(static_cast<std::byte*>(std::aligned_alloc(64, packed.size() + 4096)),
                                                [](std::byte* b) { std::free(b); });
  std::copy(packed.begin(), packed.end(), block.get());
  const std::span<const std::byte> kept(block.get(), packed.size());
  const auto adopted = PackedWeights::adopt(p.spec(1), kept, block);
  REQUIRE(adopted);
  p.run(*adopted, 1);
  CHECK(p.y == expected);

  CHECK(!PackedWeights::adopt(p.spec(1), kept.first(kept.size() - 64), block));
  CHECK(!PackedWeights::adopt(p.spec(1), kept.first(32), block));
  const SlicedLayout layout{p.k, p.n};
  auto* const places = reinterpret_cast<int32_t*>(block.get() + layout.fourth_places());
  CHECK(places[0] == 0);
  for (const int32_t place : {1, 1 << 30, -2, -1}) {
    places[0] = place;
    INFO(place);
    CHECK(!PackedWeights::adopt(p.spec(1), kept, block));
  }
}

TEST_CASE("weights are left as they are where that is asked for") {
  const Product p(1, 64, 640);
  CostModel model;
  model.weight_slices = false;
  const CostModelHere here(model);
  const auto weights = PackedWeights::pack(p.spec(1), p.w.data());
  CHECK(!weights->are_sliced());
  CHECK(rows_for_packing(p.spec(1), 100) == 0);  // so that nothing is packed twice
  CHECK(packed_form().find("slices") == std::string::npos);
}

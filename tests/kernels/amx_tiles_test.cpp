// Products large enough for matrix tiles, the processor's or emulated ones (support/emulated_tiles.h), beside sums in
// double. tests/kernels/gemm_test.cpp has the other shapes and the epilogues.
#include "kernels/gemm/amx/tiles.h"

#include <doctest/doctest.h>
#include <algorithm>
#include <bit>

#include <cmath>
#include <cstddef>
#include <cstring>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

#include "kernels/gemm/fma/micro_kernels.h"
#include "kernels/gemm/gemm.h"
#include "kernels/threads/thread_pool.h"
#include "kernels/vector/narrow_float.h"
#include "support/emulated_tiles.h"

using namespace rlx;
using namespace rlx::kernels;
using rlx::test::MatrixTiles;

namespace {

/// How they come: element (k, n) side by side along n, side by side along k, or packed before.
enum class Weights { along_n, along_k, packed };
constexpr Weights kEach[] = {Weights::along_n, Weights::along_k, Weights::packed};
std::string name_of(Weights w) {
  return w == Weights::packed ? "packed" : w == Weights::along_k ? "along k" : "along n";
}

struct Product {
  int64_t m, n, k;
  std::vector<float> x, w, y;

  Product(int64_t rows, int64_t columns, int64_t depth, float scale = 1) : m(rows), n(columns), k(depth) {
    std::mt19937 random(7);
    std::uniform_real_distribution<float> real(-scale, scale);
    x.resize(static_cast<size_t>(m * k)), w.resize(static_cast<size_t>(k * n)), y.resize(static_cast<size_t>(m * n));
    for (auto* values : {&x, &w})
      for (float& v : *values) v = real(random);
  }
  void run(int threads, Weights weights) {
    std::vector<char> scratch;
    const auto aligned = [&](size_t bytes) {
      scratch.resize(bytes + 64);
      return scratch.data() + (64 - reinterpret_cast<uintptr_t>(scratch.data()) % 64) % 64;
    };
    if (weights == Weights::packed) {
      WeightsSpec spec;
      spec.k = k, spec.n = n, spec.k_stride = n, spec.n_stride = 1, spec.threads = threads;
      GemmSpec gemm;
      gemm.m = m, gemm.x_stride = k, gemm.y_stride = n, gemm.threads = threads;
      const PreparedGemm product = PackedWeights::pack(spec, w.data())->prepare(gemm);
      return product.run({x.data(), y.data()}, aligned(product.scratch_bytes()), ThreadPool::shared());
    }
    BatchedGemmSpec s;
    s.m = m, s.n = n, s.k = k, s.lhs_m_stride = k, s.rhs_k_stride = n, s.y_m_stride = n, s.threads = threads;
    std::vector<float> transposed;
    if (weights == Weights::along_k) {
      s.rhs_k_stride = 1, s.rhs_n_stride = k;
      transposed.resize(w.size());
      for (int64_t p = 0; p < k; ++p)
        for (int64_t j = 0; j < n; ++j) transposed[static_cast<size_t>(j * k + p)] = at(w, p * n + j);
    }
    const PreparedBatchedGemm product = prepare_batched_gemm(s);
    product.run({x.data(), transposed.empty() ? w.data() : transposed.data(), y.data()},
                aligned(product.scratch_bytes()), ThreadPool::shared());
  }
  float at(const std::vector<float>& v, int64_t i) const { return v[static_cast<size_t>(i)]; }
  double sum(int64_t i, int64_t j) const {
    double s = 0;
    for (int64_t p = 0; p < k; ++p) s += static_cast<double>(at(x, i * k + p)) * static_cast<double>(at(w, p * n + j));
    return s;
  }
  /// Of the sums of magnitudes, the worst.
  double worst_error() const {
    double worst = 0;
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < n; ++j) {
        double magnitude = 0;
        for (int64_t p = 0; p < k; ++p)
          magnitude += std::fabs(static_cast<double>(at(x, i * k + p)) * static_cast<double>(at(w, p * n + j)));
        worst = std::max(worst, std::fabs(static_cast<double>(at(y, i * n + j)) - sum(i, j)) / magnitude);
      }
    return worst;
  }
};

}  // namespace

TEST_CASE_FIXTURE(MatrixTiles,
                  "an f32 product is as exact as one multiply-add after the other, with few rows and with many") {
  for (int threads : {1, 2, 3})
    for (Weights weights : kEach)
      for (int64_t m : {64, 79, 700}) {
        Product p(m, 83, 515);
        p.run(threads, weights);
        INFO(m, " rows, ", threads, " threads, weights ", name_of(weights));
        // 515 multiply-adds one after the other round as often; tiles add 32 products before they round.
        CHECK(p.worst_error() < (are_there ? 0x1p-23 : 0x1p-24 * std::sqrt(515.0)));
      }
}

TEST_CASE_FIXTURE(
    MatrixTiles,
    "columns that are split while products run: one block of rows and several, any number of columns and of k") {
  for (Weights weights : kEach)
    for (int64_t m : {24, 32, 33, 49, 90})
      for (int64_t n : {16, 47, 48, 49, 64, 80, 97})
        for (int64_t k : {32, 33, 63, 64, 130}) {
          Product p(m, n, k);
          // What k multiply-adds may round, where there are no tiles or they do not pay.
          const bool small = n < 48 || (weights == Weights::along_k && m < 64);
          const double bound = are_there && !small ? 0x1p-22 : 0x1p-24 * static_cast<double>(k);
          for (int threads : {1, 2}) {
            std::fill(p.y.begin(), p.y.end(), 1e30f);
            p.run(threads, weights);
            INFO(m, " x ", k, " x ", n, ", ", threads, " threads, weights ", name_of(weights));
            CHECK(p.worst_error() < bound);
          }
        }
}

namespace {

/// Numbers of one dtype: as they are stored, and as they are.
struct Numbers {
  std::vector<std::byte> stored;
  std::vector<double> exact;

  Numbers(DType dtype, int64_t count, unsigned seed) : stored(static_cast<size_t>(count) * byte_size(dtype)) {
    std::mt19937 random(seed);
    std::uniform_real_distribution<float> real(-1, 1);
    for (int64_t i = 0; i < count; ++i) {
      const auto put = [&](auto v) {
        std::memcpy(stored.data() + static_cast<size_t>(i) * sizeof v, &v, sizeof v);
        if constexpr (std::is_same_v<decltype(v), float>) exact.push_back(static_cast<double>(v));
        else exact.push_back(static_cast<double>(to_f32(v)));
      };
      const float v = real(random);
      if (dtype == f32) put(v);
      else if (dtype == f16) put(from_f32<F16>(v));
      else put(from_f32<BF16>(v));
    }
  }
};

}  // namespace

TEST_CASE_FIXTURE(MatrixTiles,
                  "products of f32, f16 and bf16 with each other, whose terms differ in number, are as exact as f32") {
  constexpr int64_t m = 70, n = 83, k = 130;
  for (DType x_dtype : {f32, f16, bf16})
    for (DType w_dtype : {f32, f16, bf16})
      for (Weights weights : kEach) {
        const Numbers x(x_dtype, m * k, 1), w(w_dtype, k * n, 2);  // w is [n, k] if it is contiguous along k
        const bool along_k = weights == Weights::along_k;
        std::vector<float> y(static_cast<size_t>(m * n));
        std::vector<std::max_align_t> scratch;
        const auto aligned = [&](size_t bytes) {
          scratch.resize(bytes / sizeof(std::max_align_t) + 8);
          void* at = scratch.data();
          size_t room = scratch.size() * sizeof(std::max_align_t);
          return std::align(64, bytes, at, room);
        };
        if (weights == Weights::packed) {
          WeightsSpec spec;
          spec.k = k, spec.n = n, spec.k_stride = n, spec.n_stride = 1, spec.dtype = w_dtype, spec.x_dtype = x_dtype;
          GemmSpec s;
          s.m = m, s.x_stride = k, s.y_stride = n;
          const PreparedGemm product = PackedWeights::pack(spec, w.stored.data())->prepare(s);
          product.run({x.stored.data(), y.data()}, aligned(product.scratch_bytes()), ThreadPool::shared());
        } else {
          BatchedGemmSpec s;
          s.m = m, s.n = n, s.k = k, s.lhs_m_stride = k, s.y_m_stride = n, s.lhs_dtype = x_dtype, s.rhs_dtype = w_dtype;
          s.rhs_k_stride = along_k ? 1 : n, s.rhs_n_stride = along_k ? k : 1;
          const PreparedBatchedGemm product = prepare_batched_gemm(s);
          product.run({x.stored.data(), w.stored.data(), y.data()}, aligned(product.scratch_bytes()),
                      ThreadPool::shared());
        }
        double worst = 0;
        for (int64_t i = 0; i < m; ++i)
          for (int64_t j = 0; j < n; ++j) {
            double sum = 0, magnitude = 0;
            for (int64_t p = 0; p < k; ++p) {
              const double term = x.exact[static_cast<size_t>(i * k + p)] *
                                  w.exact[static_cast<size_t>(along_k ? j * k + p : p * n + j)];
              sum += term, magnitude += std::fabs(term);
            }
            worst =
                std::max(worst, std::fabs(static_cast<double>(y[static_cast<size_t>(i * n + j)]) - sum) / magnitude);
          }
        INFO(std::string(rlx::name_of(x_dtype)), " times ", std::string(rlx::name_of(w_dtype)), ", weights ",
             name_of(weights));
        CHECK(worst < (are_there ? 0x1p-22 : 0x1p-24 * k));
      }
}

TEST_CASE_FIXTURE(MatrixTiles, "rows with a single number are its products with a row of the weights, rounded once") {
  for (Weights weights : kEach)
    for (int64_t m : {24, 33, 64, 79})
      for (int64_t n : {47, 64, 97})
        for (int64_t k : {33, 130}) {
          Product p(m, n, k);
          const auto is_single = [&](int64_t i) { return i % 5 == 1; };
          const auto place = [&](int64_t i) { return i * 37 % k; };
          for (int64_t i = 0; i < m; ++i)
            for (int64_t q = 0; is_single(i) && q < k; ++q)
              if (q != place(i)) p.x[static_cast<size_t>(i * k + q)] = 0;
          for (int64_t q = 0; q < k; ++q) p.w[static_cast<size_t>(q * n + 3)] = 0;  // sums of +0, also of -x times 0
          for (int threads : {1, 2}) {
            std::fill(p.y.begin(), p.y.end(), 1e30f);
            p.run(threads, weights);
            INFO(m, " x ", k, " x ", n, ", ", threads, " threads, weights ", name_of(weights));
            int64_t wrong = 0;
            for (int64_t i = 0; i < m; ++i)
              for (int64_t j = 0; is_single(i) && j < n; ++j) {
                const auto wanted = static_cast<float>(p.sum(i, j));
                wrong += p.at(p.y, i * n + j) != wanted || std::signbit(p.at(p.y, i * n + j)) != std::signbit(wanted);
              }
            CHECK(wrong == 0);
          }
        }
}

TEST_CASE_FIXTURE(MatrixTiles, "weights along k with what follows the sums, and rows of y that lie apart") {
  constexpr int64_t k = 130;
  for (int64_t m : {64, 81})
    for (int64_t n : {48, 70}) {
      Product p(m, n, k);
      std::vector<float> weights(p.w.size()), bias(static_cast<size_t>(n)), residual(static_cast<size_t>(m * (n + 3)));
      for (int64_t i = 0; i < k; ++i)
        for (int64_t j = 0; j < n; ++j) weights[static_cast<size_t>(j * k + i)] = p.at(p.w, i * n + j);
      for (size_t j = 0; j < bias.size(); ++j) bias[j] = static_cast<float>(j % 7) - 3;
      for (size_t i = 0; i < residual.size(); ++i) residual[i] = static_cast<float>(i % 5);
      BatchedGemmSpec s;
      s.m = m, s.n = n, s.k = k, s.lhs_m_stride = k, s.rhs_k_stride = 1, s.rhs_n_stride = k, s.y_m_stride = n + 3;
      s.epilogue.bias = true, s.epilogue.activation = Activation::relu, s.epilogue.residual = Residual::separate;
      const PreparedBatchedGemm product = prepare_batched_gemm(s);
      std::vector<char> scratch(product.scratch_bytes() + 64);
      void* at = scratch.data();
      size_t room = scratch.size();
      std::vector<float> y(residual.size(), 77);
      product.run({p.x.data(), weights.data(), y.data(), bias.data(), residual.data()},
                  std::align(64, product.scratch_bytes(), at, room), ThreadPool::shared());
      for (int64_t i = 0; i < m; ++i)
        for (int64_t j = 0; j < n + 3; ++j) {
          const double sum = j < n ? std::max(0.0, p.sum(i, j) + static_cast<double>(bias[static_cast<size_t>(j)])) : 0;
          const double want = j < n ? sum + static_cast<double>(p.at(residual, i * (n + 3) + j)) : 77;
          const double got = static_cast<double>(p.at(y, i * (n + 3) + j));
          if (!(std::fabs(got - want) <= 1e-5)) FAIL_CHECK("row ", i, ", column ", j, ": ", got, " instead of ", want);
        }
    }
}

TEST_CASE_FIXTURE(MatrixTiles, "columns of the smallest numbers, and a NaN that is one by its last bit alone") {
  for (Weights weights : kEach)
    for (int64_t m : {24, 70}) {
      INFO(m, " rows, weights ", name_of(weights));
      Product p(m, 96, 64);
      for (float& v : p.x) v *= 0x1p100f;
      for (int64_t i = 0; i < p.k; ++i) {
        p.w[static_cast<size_t>(i * p.n + 3)] *= 0x1p-127f;   // subnormal, some without upper halves
        p.w[static_cast<size_t>(i * p.n + 40)] *= 0x1p-140f;  // all without
      }
      p.run(1, weights);
      CHECK(p.worst_error() < 0x1p-20);
      p.w[static_cast<size_t>(5 * p.n + 90)] = std::bit_cast<float>(0x7f800001u);
      p.run(1, weights);
      for (int64_t i = 0; i < m; ++i) CHECK(std::isnan(p.at(p.y, i * p.n + 90)));
    }
}

TEST_CASE_FIXTURE(MatrixTiles, "integers below 2^24 are multiplied exactly") {
  Product p(70, 50, 96);
  std::mt19937 random(3);
  for (auto* values : {&p.x, &p.w})
    for (float& v : *values) v = static_cast<float>(static_cast<int>(random() % 511) - 255);
  p.run(1, Weights::packed);
  int64_t wrong = 0;
  for (int64_t i = 0; i < p.m; ++i)
    for (int64_t j = 0; j < p.n; ++j) wrong += static_cast<double>(p.at(p.y, i * p.n + j)) != p.sum(i, j);
  CHECK(wrong == 0);
}

TEST_CASE_FIXTURE(MatrixTiles, "numbers that bf16 terms cannot represent take the fp32 fallback") {
  constexpr float kInf = std::numeric_limits<float>::infinity(), kNan = std::numeric_limits<float>::quiet_NaN();
  for (Weights weights : kEach)
    for (int64_t m : {52, 70, 700})
      for (int threads : {1, 2}) {
        INFO(m, " rows, ", threads, " threads, weights ", name_of(weights));
        Product p(m, 100, 520);
        p.x[static_cast<size_t>(3 * p.k + 5)] = kInf;
        p.x[static_cast<size_t>(40 * p.k + 1)] = kNan;
        p.x[static_cast<size_t>(50 * p.k + 2)] = 3e38f;
        p.w[static_cast<size_t>(7 * p.n + 60)] = -kInf;
        p.run(threads, weights);
        for (int64_t i = 0; i < p.m; ++i)
          for (int64_t j = 0; j < p.n; ++j) {
            const double want = p.sum(i, j), got = static_cast<double>(p.at(p.y, i * p.n + j));
            const bool same = std::isnan(want)   ? std::isnan(got)
                              : std::isinf(want) ? got == want
                                                 : std::fabs(got - want) <= 1e-5 * std::max(30.0, std::fabs(want));
            if (!same) FAIL_CHECK("row ", i, ", column ", j, ": ", got, " instead of ", want);
          }
      }
}

TEST_CASE_FIXTURE(MatrixTiles, "matrices of tiny numbers keep their digits") {
  for (Weights weights : kEach) {
    Product few(24, 50, 64, 1e-18f);
    for (float& v : few.w) v *= 1e16f;
    few.run(1, weights);
    CHECK(few.worst_error() < 0x1p-22);
    Product p(64, 50, 64, 1e-18f);
    for (float& v : p.w) v *= 1e16f;
    p.run(1, weights);
    CHECK(p.worst_error() < 0x1p-22);
    Product q(64, 50, 64, 1e-30f);  // products below the least normal number
    for (float& v : q.w) v *= 1e28f;
    q.run(1, weights);
    CHECK(q.worst_error() < 0x1p-20);
  }
}

TEST_CASE_FIXTURE(MatrixTiles,
                  "rows and columns of other sizes than their neighbours keep their digits, and products reach the end "
                  "of the exponents") {
  for (Weights weights : kEach)
    for (float scale : {0x1p-60f, 0x1p-58f, 0x1p-52f, 0x1p-50f, 0x1p-40f, 0x1p60f, 0x1p62f}) {
      INFO("scale ", scale, ", weights ", name_of(weights));
      Product both(64, 64, 64, scale);  // both operands, with products between 2^-120 and 2^124
      both.run(1, weights);
      CHECK(both.worst_error() < 0x1p-21);
      Product row(64, 64, 64), column(64, 64, 64);
      for (int64_t p = 0; p < 64; ++p) {
        row.x[static_cast<size_t>(5 * 64 + p)] *= scale * scale;
        column.w[static_cast<size_t>(p * 64 + 9)] *= scale * scale;
      }
      row.run(1, weights), column.run(1, weights);
      CHECK(row.worst_error() < 0x1p-21);
      CHECK(column.worst_error() < 0x1p-21);
    }
  for (Weights weights : kEach) {
    Product subnormal(64, 64, 64), large(64, 64, 64);
    for (float& v : subnormal.w) v *= 0x1p100f;
    for (int64_t p = 0; p < 64; ++p) subnormal.x[static_cast<size_t>(5 * 64 + p)] *= 0x1p-127f;
    subnormal.run(1, weights);
    CHECK(subnormal.worst_error() < 0x1p-20);
    std::fill(large.x.begin(), large.x.end(), 0.0f), std::fill(large.w.begin(), large.w.end(), 0.0f);
    for (int64_t i = 0; i < 64; ++i)
      large.x[static_cast<size_t>(i * 64)] = large.w[static_cast<size_t>(i)] = 0x1.fffcbap63f;
    large.run(1, weights);
    CHECK(static_cast<double>(large.y[0]) == doctest::Approx(large.sum(0, 0)));
  }
}

TEST_CASE_FIXTURE(
    MatrixTiles,
    "bf16 numbers that tiles and dot products would take for 0 are multiplied as they are, in any number of rows") {
  constexpr int64_t n = 64;
  const auto bits = [](float v) { return static_cast<uint16_t>(std::bit_cast<uint32_t>(v) >> 16); };
  for (int64_t m : {1, 3, 8, 64})
    for (bool constant : {false, true})
      for (bool tiny_weight : {false, true}) {
        const int64_t row = m - 1;
        std::vector<uint16_t> x(static_cast<size_t>(m * n), bits(1)), w(static_cast<size_t>(n * n), bits(0x1p100f));
        for (int64_t k = 0; k < n; ++k) {
          if (tiny_weight) x[static_cast<size_t>(row * n + k)] = bits(0x1p100f);
          else x[static_cast<size_t>(row * n + k)] = bits(0x1p-130f);  // subnormal
          if (tiny_weight) w[static_cast<size_t>(k * n + 4)] = bits(0x1p-130f);
        }
        w[3] = bits(std::numeric_limits<float>::infinity());  // k = 0, column 3
        std::vector<float> y(static_cast<size_t>(m * n));
        std::vector<std::max_align_t> scratch;
        const auto aligned = [&](size_t bytes) {
          scratch.resize(bytes / sizeof(std::max_align_t) + 8);
          void* at = scratch.data();
          size_t room = scratch.size() * sizeof(std::max_align_t);
          return std::align(64, bytes, at, room);
        };
        if (constant) {
          WeightsSpec spec;
          spec.k = n, spec.n = n, spec.k_stride = n, spec.n_stride = 1, spec.dtype = spec.x_dtype = bf16;
          GemmSpec s;
          s.m = m, s.x_stride = n, s.y_stride = n;
          const PreparedGemm product = PackedWeights::pack(spec, w.data())->prepare(s);
          product.run({x.data(), y.data()}, aligned(product.scratch_bytes()), ThreadPool::shared());
        } else {
          BatchedGemmSpec s;
          s.m = m, s.n = n, s.k = n, s.lhs_m_stride = n, s.rhs_k_stride = n, s.y_m_stride = n;
          s.lhs_dtype = s.rhs_dtype = bf16;
          const PreparedBatchedGemm product = prepare_batched_gemm(s);
          product.run({x.data(), w.data(), y.data()}, aligned(product.scratch_bytes()), ThreadPool::shared());
        }
        INFO(m, " rows, ", constant ? "constant" : "run-time", ", tiny ", tiny_weight ? "weights" : "rows");
        CHECK(y[static_cast<size_t>(row * n + 4)] == 0x1p-24f);  // 64 products of 2^-30
        CHECK(y[static_cast<size_t>(row * n + 3)] == std::numeric_limits<float>::infinity());
        if (m > 1) CHECK(y[4] == (tiny_weight ? 0x1p-124f : 0x1p106f));
      }
}

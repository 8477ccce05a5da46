// A product of f32 with constant weights, beside sums in double: for the tests of Ozaki splits.
#pragma once

#include <doctest/doctest.h>
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <random>
#include <vector>

#include "kernels/gemm/backends.h"
#include "kernels/gemm/gemm.h"
#include "kernels/threads/thread_pool.h"

namespace rlx::test {

inline constexpr float kInf = std::numeric_limits<float>::infinity(), kNan = std::numeric_limits<float>::quiet_NaN();

struct ConstantProduct {
  int64_t m, n, k;
  bool transposed;  // weights [n, k]
  std::vector<float> x, w, y;

  ConstantProduct(int64_t rows, int64_t columns, int64_t depth, bool weights_transposed = false)
      : m(rows), n(columns), k(depth), transposed(weights_transposed) {
    std::mt19937 random(static_cast<unsigned>(m * 31 + n * 7 + k));
    std::normal_distribution<float> real;
    x.resize(static_cast<size_t>(m * k)), w.resize(static_cast<size_t>(k * n)), y.resize(static_cast<size_t>(m * n));
    for (auto* values : {&x, &w})
      for (float& v : *values) v = real(random);
  }
  /// Weights of 0.5 to 2 alone, which splits represent however few they are.
  void make_weights_alike() {
    for (float& v : w) v = std::copysign(std::clamp(std::fabs(v), 0.5f, 2.0f), v);
  }
  float& x_at(int64_t i, int64_t p) { return x[static_cast<size_t>(i * k + p)]; }
  float& w_at(int64_t p, int64_t j) { return w[static_cast<size_t>(transposed ? j * k + p : p * n + j)]; }
  float& y_at(int64_t i, int64_t j) { return y[static_cast<size_t>(i * n + j)]; }

  kernels::WeightsSpec spec(int threads) const {
    kernels::WeightsSpec s;
    s.k = k, s.n = n, s.k_stride = transposed ? 1 : n, s.n_stride = transposed ? k : 1, s.threads = threads;
    s.rows = 32, s.policy.row_relative = true;
    return s;
  }
  bool is_split() const { return kernels::pack_split(spec(1), w.data()) != nullptr; }
  void run(const kernels::PackedWeights& weights, int threads) {
    kernels::GemmSpec gemm;
    gemm.m = m, gemm.x_stride = k, gemm.y_stride = n, gemm.threads = threads;
    const kernels::PreparedGemm product = weights.prepare(gemm);
    std::vector<char> scratch(product.scratch_bytes() + 128, '\x7f');
    char* aligned = scratch.data() + (64 - reinterpret_cast<uintptr_t>(scratch.data()) % 64) % 64;
    std::fill(y.begin(), y.end(), 1e30f);
    product.run({x.data(), y.data()}, aligned, kernels::ThreadPool::shared());
    CHECK(std::all_of(aligned + product.scratch_bytes(), scratch.data() + scratch.size(),
                      [](char c) { return c == '\x7f'; }));
  }
  void run(int threads = 1) { run(*kernels::PackedWeights::pack(spec(threads), w.data()), threads); }

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

}  // namespace rlx::test

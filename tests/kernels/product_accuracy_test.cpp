// The promise of docs/runtime.md, "Sums of f32", element by element: an error is bounded by the terms of its own
// sum, whatever else stands in its row and its column. With constant weights and with two run-time operands, few rows
// and many, over distributions that make kernels go wrong which scale, split or flush numbers. On every instruction
// set. bench/product_accuracy.cpp has larger sizes, and OpenBLAS and oneDNN beside ours.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "kernels/vector/highway_targets.h"
// Above: the instruction sets must be chosen before any Highway header.
#include "kernels/gemm/fma/micro_kernels.h"
#include "kernels/gemm/gemm.h"
#include "kernels/kernel_test.h"
#include "kernels/quant/quantized_weights.h"
#include "kernels/threads/thread_pool.h"
#include "support/product_distributions.h"
#include "support/sanitized.h"
#include "support/tolerance.h"

namespace rlx::kernels {
namespace {

using accuracy::Distribution;
using accuracy::kRows;
using accuracy::kWeights;
using accuracy::Matrix;

struct Size {
  int64_t m, k, n;
};

template <class Prepared, class Operands>
void run(const Prepared& product, const Operands& operands) {
  std::vector<char> scratch(product.scratch_bytes() + 64);
  void* at = scratch.data();
  size_t room = scratch.size();
  product.run(operands, std::align(64, product.scratch_bytes(), at, room), ThreadPool::shared());
}

std::vector<float> with_constant_weights(const Matrix& x, const Matrix& w, ProductPolicy policy = {}) {
  WeightsSpec spec;
  spec.k = w.rows, spec.n = w.cols, spec.k_stride = w.cols, spec.n_stride = 1, spec.policy = policy;
  spec.rows = rows_for_packing(spec, x.rows);
  GemmSpec gemm;
  gemm.m = x.rows, gemm.x_stride = x.cols, gemm.y_stride = w.cols;
  std::vector<float> y(static_cast<size_t>(x.rows * w.cols));
  run(PackedWeights::pack(spec, w.values.data())->prepare(gemm), GemmOperands{x.values.data(), y.data()});
  return y;
}

Matrix transposed_of(const Matrix& m) {
  Matrix t(m.cols, m.rows);
  for (int64_t i = 0; i < m.rows; ++i)
    for (int64_t j = 0; j < m.cols; ++j) t.at(j, i) = m.at(i, j);
  return t;
}

/// `along_k`: the right operand's columns are adjacent along k, as those of weights [n, k] are. `x_transposed`: the
/// left operand's rows are adjacent, as in the gradient of weights.
std::vector<float> at_run_time(const Matrix& x, const Matrix& w, bool along_k, ProductPolicy policy = {},
                               bool x_transposed = false) {
  // Prepared products are kept for the process, which has one instruction set but here: a number of threads of its own
  // for each keeps them apart.
  static std::vector<int64_t> lanes_seen;
  const auto found = std::find(lanes_seen.begin(), lanes_seen.end(), product_lanes(f32));
  const int threads = 1 + static_cast<int>(found - lanes_seen.begin());
  if (found == lanes_seen.end()) lanes_seen.push_back(product_lanes(f32));
  const Matrix left = x_transposed ? transposed_of(x) : x, right = along_k ? transposed_of(w) : w;
  BatchedGemmSpec s;
  s.m = x.rows, s.n = w.cols, s.k = w.rows, s.y_m_stride = w.cols, s.policy = policy, s.threads = threads;
  s.lhs_m_stride = x_transposed ? 1 : x.cols, s.lhs_k_stride = x_transposed ? x.rows : 1;
  s.rhs_k_stride = along_k ? 1 : w.cols, s.rhs_n_stride = along_k ? w.rows : 1;
  std::vector<float> y(static_cast<size_t>(x.rows * w.cols));
  run(prepare_batched_gemm(s), BatchedGemmOperands{left.values.data(), right.values.data(), y.data()});
  return y;
}

/// The worst error, less half a unit in the last place of the result, over what the promise allows.
double worst_of_bound(const Matrix& x, const Matrix& w, const std::vector<float>& y) {
  double worst = 0;
  const double root = kProductErrorOfRoot * 0x1p-24 * std::sqrt(static_cast<double>(w.rows));
  std::vector<double> exact(static_cast<size_t>(w.cols)), magnitude(exact.size());
  for (int64_t i = 0; i < x.rows; ++i) {
    std::fill(exact.begin(), exact.end(), 0), std::fill(magnitude.begin(), magnitude.end(), 0);
    for (int64_t p = 0; p < w.rows; ++p)
      for (size_t j = 0; j < exact.size(); ++j) {
        const double term = static_cast<double>(x.at(i, p)) * static_cast<double>(w.at(p, static_cast<int64_t>(j)));
        exact[j] += term, magnitude[j] += std::fabs(term);
      }
    for (size_t j = 0; j < exact.size(); ++j) {
      const auto nearest = std::fabs(static_cast<float>(exact[j]));
      const double half_ulp = static_cast<double>(std::nextafterf(nearest, INFINITY) - nearest) / 2 * (1 + 1e-6);
      const double error = std::fabs(static_cast<double>(y[static_cast<size_t>(i) * exact.size() + j]) - exact[j]);
      if (error <= half_ulp) continue;
      worst = std::max(worst, (error - half_ulp) / (root * magnitude[j]));
      if (!(error < INFINITY)) return INFINITY;
    }
  }
  return worst;
}

Matrix filled(const Distribution& d, int64_t rows, int64_t cols, unsigned seed) {
  Matrix m(rows, cols);
  accuracy::Random random(seed);
  d.fill(m, random);
  return m;
}

}  // namespace

TEST_CASE("each element of a product of f32 is as exact as sums of f32 are, whatever stands beside it") {
  if (test::sanitized())
    return;  // the sums in double take minutes there, and gemm_test reads and writes the same memory
  test::for_each_target([] {
    for (const Size s : {Size{12, 256, 48}, Size{33, 130, 77}, Size{40, 1100, 64}}) {
      for (const Distribution& rows : kRows)
        for (const Distribution& weights : kWeights) {
          const Matrix x = filled(rows, s.m, s.k, 1), w = filled(weights, s.k, s.n, 2);
          INFO(std::string(rows.name), " x ", std::string(weights.name), ", ", s.m, " x ", s.k, " x ", s.n);
          CHECK(worst_of_bound(x, w, with_constant_weights(x, w)) <= 1);
          CHECK(worst_of_bound(x, w, at_run_time(x, w, false)) <= 1);
          CHECK(worst_of_bound(x, w, at_run_time(x, w, true)) <= 1);
        }
    }
  });
}

TEST_CASE("long sums of equal terms are as exact as others") {
  if (test::sanitized()) return;  // as above
  // What a running sum rounds worst: its errors have one sign for as long as it stays between two powers of two.
  test::for_each_target([] {
    for (const int64_t k : {300, 512, 1000, 4096})
      for (const int64_t m : {1, 13})
        for (int i = 0; i < 12; ++i) {
          Matrix x(m, k), w(k, 50);
          std::fill(x.values.begin(), x.values.end(), 1 + static_cast<float>(i) / 37);
          std::fill(w.values.begin(), w.values.end(), 0.7F + 0.0311F * static_cast<float>(i));
          INFO(m, " x ", k, ", ", i);
          CHECK(worst_of_bound(x, w, with_constant_weights(x, w)) <= 1);
          CHECK(worst_of_bound(x, w, at_run_time(x, w, false)) <= 1);
          CHECK(worst_of_bound(x, w, at_run_time(x, w, true)) <= 1);
        }
  });
}

TEST_CASE("columns that ignore a large feature do not lose their digits to it") {
  // A time stamp beside normal features, and weights that are 0 for it in every third column.
  const Distribution& stamps = *std::find_if(std::begin(kRows), std::end(kRows), [](const Distribution& d) {
    return std::strcmp(d.name, "time stamp 1.7e9") == 0;
  });
  const Matrix x = filled(stamps, 32, 256, 1);
  Matrix w = filled(kWeights[0], 256, 128, 2);
  for (int64_t j = 0; j < 128; j += 3) w.at(7, j) = 0;
  const std::vector<float> y = with_constant_weights(x, w);
  for (int64_t i = 0; i < 32; ++i)
    for (int64_t j = 0; j < 128; j += 3) {
      double exact = 0;
      for (int64_t p = 0; p < 256; ++p) exact += static_cast<double>(x.at(i, p)) * static_cast<double>(w.at(p, j));
      CHECK(std::fabs(static_cast<double>(y[static_cast<size_t>(i * 128 + j)]) - exact) < 1e-4);
    }
}

TEST_CASE("codes near their zero point lose no digits to it, nor to a bias") {
  // Codes of 8 and 4 bits that are one apart from what their zero point or bias takes away: +-0.01 each.
  constexpr int64_t kDepth = 192, kColumns = 80, kBlock = 64;
  test::for_each_target([] {
    for (const DType codes : {u8, u4})
      for (const bool by_bias : {false, true})
        for (const int64_t rows : {1, 7}) {
          const int middle = codes == u8 ? 128 : 8;
          accuracy::Random random(11);
          std::vector<float> x(static_cast<size_t>(rows * kDepth)), y(static_cast<size_t>(rows * kColumns), 0);
          for (float& v : x) v = accuracy::uniform(random, 0, 1);
          std::vector<int> q(static_cast<size_t>(kDepth * kColumns));
          for (int& v : q) v = middle + (random() % 2 == 0 ? 1 : -1);
          std::vector<uint8_t> packed;
          for (size_t i = 0; i < q.size(); i += codes == u8 ? 1 : 2)
            packed.push_back(static_cast<uint8_t>(codes == u8 ? q[i] : q[i] | q[i + 1] << 4));
          const size_t params = static_cast<size_t>(kDepth / kBlock * kColumns);
          const std::vector<float> scale(params, 0.01F),
              shift(params, by_bias ? -0.01F * static_cast<float>(middle) : static_cast<float>(middle));
          QuantizedWeightsProduct p;
          p.w_dtype = codes, p.w = QuantizedReader::of(codes), p.w.data = packed.data();
          p.k = kDepth, p.n = kColumns, p.block = kBlock;
          p.scale = QuantizedReader::of(f32), p.scale.data = scale.data();
          QuantizedReader& other = by_bias ? p.bias : p.zero_point;
          other = QuantizedReader::of(f32), other.data = shift.data();
          p.rows = rows, p.x = x.data(), p.x_stride = kDepth, p.y = y.data();
          multiply_quantized_weights(p, 0, kColumns);
          double worst = 0;
          for (int64_t i = 0; i < rows; ++i)
            for (int64_t j = 0; j < kColumns; ++j) {
              double exact = 0, magnitude = 0;
              for (int64_t k = 0; k < kDepth; ++k) {
                const double code = q[static_cast<size_t>(k * kColumns + j)];
                const double step = static_cast<double>(scale[0]), other_number = static_cast<double>(shift[0]);
                const double w = by_bias ? code * step + other_number : (code - other_number) * step;
                const double term = static_cast<double>(x[static_cast<size_t>(i * kDepth + k)]) * w;
                exact += term, magnitude += std::fabs(term);
              }
              const double error = std::fabs(static_cast<double>(y[static_cast<size_t>(i * kColumns + j)]) - exact);
              worst = std::max(worst, error / (kProductErrorOfRoot * std::sqrt(192.0) * 0x1p-24 * magnitude));
            }
          INFO(std::string(name_of(codes)), by_bias ? ", bias, " : ", zero point, ", rows, " rows");
          CHECK(worst <= 1);
        }
  });
}

TEST_CASE("a product with rows of the identity gives the weights, bit by bit") {
  test::for_each_target([] {
    for (const Distribution& weights : kWeights)
      for (const int64_t m : {1, 5, 24, 64}) {
        const Matrix w = filled(weights, 96, 80, 3);
        Matrix x(m, 96);
        for (int64_t i = 0; i < m; ++i) x.at(i, (i * 37 + 1) % 96) = 1;
        INFO(std::string(weights.name), ", ", m, " rows");
        for (const std::vector<float>& y :
             {with_constant_weights(x, w), at_run_time(x, w, false), at_run_time(x, w, true)}) {
          int64_t wrong = 0;
          for (int64_t i = 0; i < m; ++i)
            for (int64_t j = 0; j < 80; ++j) wrong += y[static_cast<size_t>(i * 80 + j)] != w.at((i * 37 + 1) % 96, j);
          CHECK(wrong == 0);
        }
      }
  });
}

TEST_CASE("a row with a single number is rounded once an element, whatever the rows beside it") {
  test::for_each_target([] {
    for (const Size size : {Size{24, 96, 80}, Size{33, 1000, 77}, Size{64, 1536, 384}, Size{128, 384, 512}})
      for (const bool all_single : {true, false}) {
        const int64_t m = size.m, k = size.k, n = size.n;  // clang captures no structured bindings
        const Matrix w = filled(kWeights[0], k, n, 6), numbers = filled(kRows[0], m, 1, 7);
        Matrix x = all_single ? Matrix(m, k) : filled(kRows[0], m, k, 8);
        const auto is_single = [&](int64_t i) { return all_single || i % 13 == 5; };
        const auto at_of = [&](int64_t i) { return (i * 37 + 1) % k; };
        for (int64_t i = 0; i < m; ++i)
          for (int64_t p = 0; is_single(i) && p < k; ++p) x.at(i, p) = p == at_of(i) ? numbers.at(i, 0) : 0;
        INFO(m, " x ", k, " x ", n, all_single ? ", single numbers alone" : ", beside dense rows");
        for (const std::vector<float>& y :
             {with_constant_weights(x, w), at_run_time(x, w, false), at_run_time(x, w, true),
              at_run_time(x, w, false, {}, true), at_run_time(x, w, true, {}, true)}) {
          int64_t wrong = 0;
          for (int64_t i = 0; i < m; ++i)
            for (int64_t j = 0; is_single(i) && j < n; ++j) {
              const double exact = static_cast<double>(numbers.at(i, 0)) * static_cast<double>(w.at(at_of(i), j));
              wrong += y[static_cast<size_t>(i * n + j)] != static_cast<float>(exact);
            }
          CHECK(wrong == 0);
        }
      }
  });
}

TEST_CASE("batch-invariant products: a row's bits do not depend on how many rows there are") {
  static constexpr ProductPolicy kInvariant{false, true};
  test::for_each_target([] {
    for (const int64_t k : {1, 31, 64, 513, 1537})
      for (const int64_t n : {1, 7, 48, 99}) {
        const Matrix all = filled(kRows[0], 90, k, 4), w = filled(kWeights[0], k, n, 5);
        const std::vector<float> constant = with_constant_weights(all, w, kInvariant),
                                 apart = at_run_time(all, w, false, kInvariant),
                                 along = at_run_time(all, w, true, kInvariant);
        for (const int64_t m : {1, 2, 3, 4, 5, 11, 12, 23, 24, 33, 64}) {
          Matrix x(m, k);
          std::copy_n(all.values.begin(), x.values.size(), x.values.begin());
          INFO(m, " rows of 90, k ", k, ", n ", n);
          const auto same = [&](const std::vector<float>& some, const std::vector<float>& of_all) {
            return std::memcmp(some.data(), of_all.data(), some.size() * sizeof(float)) == 0;
          };
          CHECK(same(with_constant_weights(x, w, kInvariant), constant));
          CHECK(same(at_run_time(x, w, false, kInvariant), apart));
          CHECK(same(at_run_time(x, w, true, kInvariant), along));
        }
      }
  });
}

}  // namespace rlx::kernels

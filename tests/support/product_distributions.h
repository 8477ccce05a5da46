// Distributions of operands of products, for tests and bench/product_accuracy.cpp: what people multiply, and what makes
// a kernel that scales, splits or flushes numbers go wrong. Every generator is a pure function of its seed.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

namespace rlx::accuracy {

using Random = std::mt19937;

struct Matrix {
  int64_t rows = 0, cols = 0;
  std::vector<float> values = {};

  Matrix(int64_t r, int64_t c) : rows(r), cols(c), values(static_cast<size_t>(r * c)) {}
  float& at(int64_t i, int64_t j) { return values[static_cast<size_t>(i * cols + j)]; }
  float at(int64_t i, int64_t j) const { return values[static_cast<size_t>(i * cols + j)]; }
};

struct Distribution {
  const char* name;
  void (*fill)(Matrix&, Random&);
};

inline float normal(Random& r) { return std::normal_distribution<float>()(r); }
inline float uniform(Random& r, float lo, float hi) { return std::uniform_real_distribution<float>(lo, hi)(r); }

template <class F>
void fill_each(Matrix& m, F f) {
  for (float& v : m.values) v = f();
}
inline void fill_normal(Matrix& m, Random& r) {
  fill_each(m, [&] { return normal(r); });
}
/// exp(sharpness * normal), each row divided by its sum: what attention multiplies values by.
inline void fill_softmax(Matrix& m, Random& r, float sharpness) {
  for (int64_t i = 0; i < m.rows; ++i) {
    std::vector<double> e(static_cast<size_t>(m.cols));
    double most = -1e30, sum = 0;
    for (double& v : e) v = static_cast<double>(sharpness * normal(r)), most = std::max(most, v);
    for (double& v : e) v = std::exp(v - most), sum += v;
    for (int64_t j = 0; j < m.cols; ++j) m.at(i, j) = static_cast<float>(e[static_cast<size_t>(j)] / sum);
  }
}
/// One column (of rows) or row (of weights) is much larger or smaller than all others.
inline void fill_with_column(Matrix& m, Random& r, float value) {
  fill_normal(m, r);
  for (int64_t i = 0; i < m.rows; ++i) m.at(i, std::min<int64_t>(7, m.cols - 1)) = value;
}

/// Of the left operand, x [m, k].
inline const Distribution kRows[] = {
    {"normal", fill_normal},
    {"uniform 0..1", [](Matrix& m, Random& r) { fill_each(m, [&] { return uniform(r, 0, 1); }); }},
    {"uniform -1..1", [](Matrix& m, Random& r) { fill_each(m, [&] { return uniform(r, -1, 1); }); }},
    {"relu", [](Matrix& m, Random& r) { fill_each(m, [&] { return std::max(0.0f, normal(r)); }); }},
    {"gelu",
     [](Matrix& m, Random& r) {
       fill_each(m, [&] {
         const double v = 3 * static_cast<double>(normal(r));
         return static_cast<float>(v * std::erfc(-v / std::sqrt(2.0)) / 2);
       });
     }},
    {"exp(2 normal)", [](Matrix& m, Random& r) { fill_each(m, [&] { return std::exp(2 * normal(r)); }); }},
    {"exp(8 normal)",
     [](Matrix& m, Random& r) { fill_each(m, [&] { return std::copysign(std::exp(8 * normal(r)), normal(r)); }); }},
    {"softmax(normal)", [](Matrix& m, Random& r) { fill_softmax(m, r, 1); }},
    {"softmax(12 normal)", [](Matrix& m, Random& r) { fill_softmax(m, r, 12); }},
    {"time stamp 1.7e9", [](Matrix& m, Random& r) { fill_with_column(m, r, 1.7e9f); }},
    {"one column 1e6", [](Matrix& m, Random& r) { fill_with_column(m, r, 1e6f); }},
    {"one column 1e-9", [](Matrix& m, Random& r) { fill_with_column(m, r, 1e-9f); }},
    {"identity",
     [](Matrix& m, Random&) {
       for (int64_t i = 0; i < m.rows; ++i) m.at(i, (i * 37) % m.cols) = 1;
     }},
    {"one-hot of any size",
     [](Matrix& m, Random& r) {
       for (int64_t i = 0; i < m.rows; ++i) m.at(i, (i * 61 + 5) % m.cols) = std::ldexp(normal(r), int(r() % 60) - 30);
     }},
    {"5 % not zero", [](Matrix& m, Random& r) { fill_each(m, [&] { return r() % 20 == 0 ? normal(r) : 0.0f; }); }},
    {"columns of unlike units",
     [](Matrix& m, Random& r) {
       for (int64_t j = 0; j < m.cols; ++j) {
         const int exponent = static_cast<int>(r() % 41) - 20;
         for (int64_t i = 0; i < m.rows; ++i) m.at(i, j) = std::ldexp(normal(r), exponent);
       }
     }},
    {"integers to 255", [](Matrix& m, Random& r) { fill_each(m, [&] { return static_cast<float>(r() % 256); }); }},
    {"near 1e-20", [](Matrix& m, Random& r) { fill_each(m, [&] { return 1e-20f * normal(r); }); }},
    {"down to 2^-120",
     [](Matrix& m, Random& r) { fill_each(m, [&] { return std::ldexp(normal(r), -static_cast<int>(r() % 121)); }); }},
};

/// Of the right one, w [k, n].
inline const Distribution kWeights[] = {
    {"normal", fill_normal},
    {"uniform 0..1", [](Matrix& m, Random& r) { fill_each(m, [&] { return uniform(r, 0, 1); }); }},
    {"row 7 zero in a third",
     [](Matrix& m, Random& r) {
       fill_normal(m, r);
       for (int64_t j = 0; j < m.cols; j += 3) m.at(std::min<int64_t>(7, m.rows - 1), j) = 0;
     }},
    {"90 % pruned", [](Matrix& m, Random& r) { fill_each(m, [&] { return r() % 10 == 0 ? normal(r) : 0.0f; }); }},
    {"blocks along the diagonal",
     [](Matrix& m, Random& r) {
       for (int64_t p = 0; p < m.rows; ++p)
         for (int64_t j = 0; j < m.cols; ++j)
           if (p * 8 / m.rows == j * 8 / m.cols) m.at(p, j) = normal(r);
     }},
    {"identity + 1e-3 normal",
     [](Matrix& m, Random& r) {
       fill_each(m, [&] { return 1e-3f * normal(r); });
       for (int64_t p = 0; p < std::min(m.rows, m.cols); ++p) m.at(p, p) += 1;
     }},
    {"exp(3 normal)",
     [](Matrix& m, Random& r) { fill_each(m, [&] { return std::copysign(std::exp(3 * normal(r)), normal(r)); }); }},
    {"rows of unlike units",
     [](Matrix& m, Random& r) {
       for (int64_t p = 0; p < m.rows; ++p) {
         const int exponent = static_cast<int>(r() % 41) - 20;
         for (int64_t j = 0; j < m.cols; ++j) m.at(p, j) = std::ldexp(normal(r), exponent);
       }
     }},
    {"columns of unlike units",
     [](Matrix& m, Random& r) {
       for (int64_t j = 0; j < m.cols; ++j) {
         const int exponent = static_cast<int>(r() % 41) - 20;
         for (int64_t p = 0; p < m.rows; ++p) m.at(p, j) = std::ldexp(normal(r), exponent);
       }
     }},
    {"one of 1e-9 in a column",
     [](Matrix& m, Random& r) {
       fill_normal(m, r);
       for (int64_t j = 0; j < m.cols; ++j) m.at((j * 13) % m.rows, j) = 1e-9f;
     }},
    {"one of 1e4 in a column",
     [](Matrix& m, Random& r) {
       fill_normal(m, r);
       for (int64_t j = 0; j < m.cols; ++j) m.at((j * 13) % m.rows, j) = 1e4f;
     }},
    {"integers to 127",
     [](Matrix& m, Random& r) { fill_each(m, [&] { return static_cast<float>(static_cast<int>(r() % 255) - 127); }); }},
    {"down to 2^-60",
     [](Matrix& m, Random& r) { fill_each(m, [&] { return std::ldexp(normal(r), -static_cast<int>(r() % 61)); }); }},
};

}  // namespace rlx::accuracy

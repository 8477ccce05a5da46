#include "kernels/gemm/gemm.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "kernels/gemm/amx/tiles.h"
#include "kernels/kernel_test.h"
#include "kernels/memory/cache_sizes.h"
#include "kernels/threads/thread_pool.h"
#include "rlx/error.h"

using namespace rlx;
using namespace rlx::kernels;

// The judge: a triple loop in double over operands that are exact in their dtype.

namespace {

double decode(const void* data, DType t, int64_t i) {
  if (t == f64) return static_cast<const double*>(data)[i];
  if (t == f32) return static_cast<const float*>(data)[i];
  const uint16_t bits = static_cast<const uint16_t*>(data)[i];
  const int mantissa_bits = info(t).mantissa_bits, exponent_bits = info(t).exponent_bits;
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const int exponent = bits >> mantissa_bits & ((1 << exponent_bits) - 1);
  const int mantissa = bits & ((1 << mantissa_bits) - 1);
  const double sign = bits & 0x8000 ? -1 : 1;
  if (exponent == (1 << exponent_bits) - 1)
    return mantissa ? std::numeric_limits<double>::quiet_NaN() : sign * std::numeric_limits<double>::infinity();
  return sign * std::ldexp(exponent ? mantissa + (1 << mantissa_bits) : mantissa,
                           (exponent ? exponent : 1) - bias - mantissa_bits);
}

// For normal values that are exact in t.
void encode(void* data, DType t, int64_t i, double v) {
  if (t == f64) static_cast<double*>(data)[i] = v;
  else if (t == f32) static_cast<float*>(data)[i] = static_cast<float>(v);
  else {
    int exponent = 0;
    const double fraction = std::frexp(std::fabs(v), &exponent);
    const int mantissa_bits = info(t).mantissa_bits, bias = (1 << (info(t).exponent_bits - 1)) - 1;
    const auto mantissa = static_cast<int>(std::ldexp(fraction, mantissa_bits + 1)) - (1 << mantissa_bits);
    const int bits = v == 0 ? 0 : (exponent - 1 + bias) << mantissa_bits | mantissa;
    static_cast<uint16_t*>(data)[i] = static_cast<uint16_t>(bits | (v < 0 ? 0x8000 : 0));
  }
}

struct Operand {
  DType dtype = f32;
  std::vector<char> bytes;

  Operand() = default;
  Operand(DType t, int64_t size) : dtype(t), bytes(static_cast<size_t>(size) * byte_size(t)) {}
  Operand(DType t, int64_t size, std::mt19937& random) : Operand(t, size) {
    std::uniform_int_distribution<int> whole(-64, 64);
    std::uniform_real_distribution<double> real(-1, 1);
    for (int64_t i = 0; i < size; ++i)
      encode(data(), t, i,
             is_low_precision(t) ? whole(random) / 64.0
             : t == f32          ? static_cast<float>(real(random))
                                 : real(random));
  }
  void* data() { return bytes.data(); }
  const void* data() const { return bytes.data(); }
  double operator[](int64_t i) const { return decode(data(), dtype, i); }
  std::vector<double> decoded() const {
    std::vector<double> all(bytes.size() / byte_size(dtype));
    for (size_t i = 0; i < all.size(); ++i) all[i] = (*this)[static_cast<int64_t>(i)];
    return all;
  }
};

// The sums of a product and those of its terms' magnitudes, each [m, n].
struct Sums {
  std::vector<double> sum, magnitude;
};

// Of lhs[i * lhs_m + p * lhs_k] * rhs[p * rhs_k + j * rhs_n] over p.
Sums sums_of(int64_t m, int64_t n, int64_t k, const double* lhs, int64_t lhs_m, int64_t lhs_k, const double* rhs,
             int64_t rhs_k, int64_t rhs_n) {
  const auto count = static_cast<size_t>(m * n);
  Sums sums{std::vector<double>(count), std::vector<double>(count)};
  for (int64_t i = 0; i < m; ++i) {
    double *sum = sums.sum.data() + i * n, *magnitude = sums.magnitude.data() + i * n;
    for (int64_t p = 0; p < k; ++p) {
      const double x = lhs[i * lhs_m + p * lhs_k], *w = rhs + p * rhs_k;
      for (int64_t j = 0; j < n; ++j) {
        const double term = x * w[j * rhs_n];
        sum[j] += term, magnitude[j] += std::fabs(term);
      }
    }
  }
  return sums;
}

double activate(Activation a, double x) {
  switch (a) {
    case Activation::none: return x;
    case Activation::relu: return x < 0 ? 0 : x;
    case Activation::gelu_erf: return 0.5 * x * std::erfc(-x / std::sqrt(2.0));
    case Activation::gelu_tanh: return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
    case Activation::silu: return x / (1 + std::exp(-x));
    case Activation::sigmoid: return 1 / (1 + std::exp(-x));
    case Activation::tanh: return std::tanh(x);
    case Activation::relu6: return std::clamp(x, 0.0, 6.0);
    case Activation::hard_swish: return x * std::clamp(x + 3, 0.0, 6.0) / 6;
  }
  return x;
}

// One output and how far a right result may be from it.
struct Expected {
  double value, tolerance;
};

Expected expected(double sum, double magnitude, int64_t k, const Epilogue& e, DType y, double bias, double residual) {
  const double unit = y == f64 ? 0x1p-53 : 0x1p-24, narrow = std::ldexp(1.0, -info(y).mantissa_bits - 1);
  double v = e.alpha * sum;
  if (e.bias) v += bias;
  // 1.2: the steepest activation. Rounding errors of a sum are bounded by k units of the magnitudes, and seen to be
  // nearer to the square root.
  double tolerance = 1.2 * unit * (4 + 2 * std::sqrt(static_cast<double>(k))) * std::fabs(e.alpha) * magnitude;
  const bool adds = e.residual != Residual::none;
  if (adds && e.residual_first) v += residual, tolerance += unit * 8 * std::fabs(v);
  v = activate(e.activation, v);
  tolerance += unit * 8 * (std::fabs(v) + std::fabs(bias));
  if (adds && !e.residual_first) v += residual;
  tolerance += narrow * 1.01 * std::fabs(v);
  return {v, tolerance + 1e-37};
}

struct Scratch {
  std::vector<char> bytes;
  explicit Scratch(size_t size) : bytes(size + 128, '\x7f') {
    // Scratch that is too small is noticed behind its end.
    for (int i = 0; i < 64; ++i) aligned()[size + static_cast<size_t>(i)] = 0x55;
    size_ = size;
  }
  char* aligned() { return bytes.data() + (64 - reinterpret_cast<uintptr_t>(bytes.data()) % 64) % 64; }
  bool intact() {
    for (int i = 0; i < 64; ++i)
      if (aligned()[size_ + static_cast<size_t>(i)] != 0x55) return false;
    return true;
  }
  size_t size_ = 0;
};

struct Linear {
  int64_t m = 1, n = 1, k = 1;
  DType x = f32, w = f32, y = f32;
  Epilogue epilogue;
  bool transposed = false;
  int64_t pad = 0;  // of each row
  int threads = 1;
};

std::string text(const Linear& c) {
  return text_of("m ", c.m, " n ", c.n, " k ", c.k, " ", c.x, " ", c.w, " -> ", c.y, " act ",
                 static_cast<int>(c.epilogue.activation), " residual ", static_cast<int>(c.epilogue.residual), " bias ",
                 c.epilogue.bias, " alpha ", c.epilogue.alpha, " transposed ", c.transposed, " pad ", c.pad,
                 " threads ", c.threads);
}

// Its operands and the sums.
struct LinearData {
  Operand x, w, bias, residual, y;
  Sums sums;
  explicit LinearData(const Linear& c) {
    std::mt19937 random(static_cast<unsigned>(c.m * 31 + c.n * 7 + c.k));
    x = Operand(c.x, c.m * (c.k + c.pad), random), w = Operand(c.w, c.k * c.n, random);
    bias = Operand(c.epilogue.bias_dtype, c.n, random), residual = Operand(c.y, c.m * (c.n + 2 * c.pad), random);
    y = Operand(c.y, c.m * (c.n + 3 * c.pad), random);
    sums = sums_of(c.m, c.n, c.k, x.decoded().data(), c.k + c.pad, 1, w.decoded().data(), c.transposed ? 1 : c.n,
                   c.transposed ? c.k : 1);
  }
};

// The largest error in units of its tolerance.
double worst_error(const Linear& c, const LinearData& data) {
  const Operand &x = data.x, &bias = data.bias, &residual = data.residual, &before = data.y;
  Operand w = data.w, y = data.y;
  WeightsSpec weights_spec;
  weights_spec.k = c.k, weights_spec.n = c.n, weights_spec.dtype = c.w, weights_spec.x_dtype = c.x;
  weights_spec.k_stride = c.transposed ? 1 : c.n, weights_spec.n_stride = c.transposed ? c.k : 1;
  weights_spec.threads = c.threads;
  weights_spec.rows = rows_for_packing(weights_spec, c.m);
  GemmSpec spec;
  spec.m = c.m, spec.x_stride = c.k + c.pad, spec.residual_stride = c.n + 2 * c.pad, spec.y_stride = c.n + 3 * c.pad;
  spec.y_dtype = c.y, spec.epilogue = c.epilogue, spec.threads = c.threads;

  auto weights = PackedWeights::pack(weights_spec, w.data());
  const PreparedGemm product = weights->prepare(spec);
  std::fill(w.bytes.begin(), w.bytes.end(), '\x7f');  // the weights were copied
  weights.reset();                                    // and the product keeps them
  Scratch scratch(product.scratch_bytes());
  product.run({x.data(), y.data(), bias.data(), residual.data()}, scratch.aligned(), ThreadPool::shared());
  CHECK(scratch.intact());

  double worst = 0;
  for (int64_t i = 0; i < c.m; ++i)
    for (int64_t j = 0; j < spec.y_stride; ++j) {
      const int64_t at = i * spec.y_stride + j;
      if (j >= c.n) {
        if (y[at] != before[at]) return 1e9;  // wrote between the rows
        continue;
      }
      const double added =
          c.epilogue.residual == Residual::in_place ? before[at] : residual[i * spec.residual_stride + j];
      const auto sum = static_cast<size_t>(i * c.n + j);
      const Expected want =
          expected(data.sums.sum[sum], data.sums.magnitude[sum], c.k, c.epilogue, c.y, bias[j], added);
      const double error = std::fabs(y[at] - want.value) / want.tolerance;
      if (!(error <= worst)) worst = error;
    }
  return worst;
}

void check(const Linear& c) {
  const double worst = worst_error(c, LinearData(c));
  CAPTURE(text(c));
  CHECK(worst <= 1);
}

struct Batched {
  BatchedGemmSpec spec;
  int64_t lhs_size = 0, rhs_size = 0, y_size = 0;
};

// Where the matrices of batch `b` begin.
struct BatchAt {
  int64_t lhs = 0, rhs = 0, y = 0;
  BatchAt(const BatchedGemmSpec& s, int64_t b) {
    for (int d = s.batch_rank - 1; d >= 0; --d) {
      const int64_t index = b % s.batch_dims[d];
      b /= s.batch_dims[d];
      lhs += index * s.lhs_batch_strides[d], rhs += index * s.rhs_batch_strides[d], y += index * s.y_batch_strides[d];
    }
  }
};

struct BatchedData {
  Operand lhs, rhs, bias, residual, y;
  std::vector<Sums> sums;  // of each batch
  explicit BatchedData(const Batched& c) {
    const BatchedGemmSpec& s = c.spec;
    std::mt19937 random(static_cast<unsigned>(s.m * 31 + s.n * 7 + s.k));
    lhs = Operand(s.lhs_dtype, c.lhs_size, random), rhs = Operand(s.rhs_dtype, c.rhs_size, random);
    bias = Operand(s.epilogue.bias_dtype, s.n, random), residual = Operand(s.y_dtype, c.y_size, random);
    y = Operand(s.y_dtype, c.y_size, random);
    const auto x = lhs.decoded(), w = rhs.decoded();
    int64_t batches = 1;
    for (int d = 0; d < s.batch_rank; ++d) batches *= s.batch_dims[d];
    for (int64_t b = 0; b < batches; ++b) {
      const BatchAt at(s, b);
      sums.push_back(sums_of(s.m, s.n, s.k, x.data() + at.lhs, s.lhs_m_stride, s.lhs_k_stride, w.data() + at.rhs,
                             s.rhs_k_stride, s.rhs_n_stride));
    }
  }
};

double worst_error(const Batched& c, const BatchedData& data) {
  const BatchedGemmSpec& s = c.spec;
  const Operand &lhs = data.lhs, &rhs = data.rhs, &bias = data.bias, &residual = data.residual, &before = data.y;
  Operand y = data.y;
  const PreparedBatchedGemm product = prepare_batched_gemm(s);
  Scratch scratch(product.scratch_bytes());
  product.run({lhs.data(), rhs.data(), y.data(), bias.data(), residual.data()}, scratch.aligned(),
              ThreadPool::shared());
  CHECK(scratch.intact());

  std::vector<bool> written(static_cast<size_t>(c.y_size));
  double worst = 0;
  for (size_t b = 0; b < data.sums.size(); ++b) {
    const int64_t y_at = BatchAt(s, static_cast<int64_t>(b)).y;
    for (int64_t i = 0; i < s.m; ++i)
      for (int64_t j = 0; j < s.n; ++j) {
        const int64_t at = y_at + i * s.y_m_stride + j * s.y_n_stride;
        const auto sum = static_cast<size_t>(i * s.n + j);
        written[static_cast<size_t>(at)] = true;
        const double added = s.epilogue.residual == Residual::in_place ? before[at] : residual[at];
        const Expected want =
            expected(data.sums[b].sum[sum], data.sums[b].magnitude[sum], s.k, s.epilogue, s.y_dtype, bias[j], added);
        const double error = std::fabs(y[at] - want.value) / want.tolerance;
        if (!(error <= worst)) worst = error;
      }
  }
  for (int64_t at = 0; at < c.y_size; ++at)
    if (!written[static_cast<size_t>(at)] && y[at] != before[at]) return 1e9;
  return worst;
}

void check(const Batched& c) {
  const BatchedData data(c);
  const double worst = worst_error(c, data);
  const BatchedGemmSpec& s = c.spec;
  CAPTURE(s.m);
  CAPTURE(s.n);
  CAPTURE(s.k);
  CAPTURE(s.lhs_dtype);
  CAPTURE(s.rhs_dtype);
  CAPTURE(s.y_dtype);
  CAPTURE(s.lhs_m_stride);
  CAPTURE(s.rhs_k_stride);
  CAPTURE(s.y_m_stride);
  CAPTURE(s.threads);
  CHECK(worst <= 1);
}

// [b0, b1, m, k] x [b0, b1, k, n], each matrix stored as it is or transposed.
Batched dense(int64_t b0, int64_t b1, int64_t m, int64_t n, int64_t k, bool lhs_t, bool rhs_t, bool y_t) {
  Batched c;
  BatchedGemmSpec& s = c.spec;
  s.m = m, s.n = n, s.k = k;
  s.lhs_m_stride = lhs_t ? 1 : k, s.lhs_k_stride = lhs_t ? m : 1;
  s.rhs_k_stride = rhs_t ? 1 : n, s.rhs_n_stride = rhs_t ? k : 1;
  s.y_m_stride = y_t ? 1 : n, s.y_n_stride = y_t ? m : 1;
  s.batch_rank = 2;
  const int64_t dims[2] = {b0, b1};
  const int64_t sizes[3] = {m * k, k * n, m * n};
  int64_t* strides[3] = {s.lhs_batch_strides, s.rhs_batch_strides, s.y_batch_strides};
  for (int d = 0; d < 2; ++d) {
    s.batch_dims[d] = dims[d];
    for (int t = 0; t < 3; ++t) strides[t][d] = d == 0 ? b1 * sizes[t] : sizes[t];
  }
  c.lhs_size = b0 * b1 * m * k, c.rhs_size = b0 * b1 * k * n, c.y_size = b0 * b1 * m * n;
  return c;
}

}  // namespace

TEST_CASE("a product is right for shapes around the tiles, panels and vectors") {
  const int64_t sizes[] = {1, 2, 3, 5, 8, 9, 16, 17, 31, 33, 48, 49, 65, 96, 127, 129};
  std::mt19937 random(1);
  for (int64_t m : sizes)
    for (int64_t n : sizes) {
      Linear c;
      c.m = m, c.n = n, c.k = sizes[random() % std::size(sizes)];
      c.transposed = random() % 2;
      c.threads = 1 + static_cast<int>(random() % 4);
      check(c);
    }
}

TEST_CASE("empty extents give nothing, and an empty sum gives the epilogue of zero") {
  for (int threads : {1, 3}) {
    for (int64_t m : {0, 3})
      for (int64_t n : {0, 5})
        for (int64_t k : {0, 7}) {
          Linear c;
          c.m = m, c.n = n, c.k = k, c.threads = threads;
          c.epilogue.bias = true;
          c.epilogue.activation = Activation::sigmoid;
          c.epilogue.residual = Residual::separate;
          check(c);
        }
    check(dense(0, 3, 2, 2, 2, false, false, false));
    check(dense(2, 3, 0, 2, 2, false, false, false));
    check(dense(2, 3, 2, 0, 2, false, false, false));
    check(dense(2, 3, 2, 2, 0, false, false, false));
  }
}

TEST_CASE("every activation, with and without bias, residual and scale, follows the sum") {
  for (Activation activation :
       {Activation::none, Activation::relu, Activation::gelu_erf, Activation::gelu_tanh, Activation::silu,
        Activation::sigmoid, Activation::tanh, Activation::relu6, Activation::hard_swish})
    for (Residual residual : {Residual::none, Residual::separate, Residual::in_place})
      for (DType dtype : {f32, bf16, f16, f64})
        for (int variant = 0; variant < 8; ++variant) {
          Linear c;
          c.m = 13, c.n = 70, c.k = 40, c.threads = 2;
          c.x = c.w = c.y = c.epilogue.bias_dtype = dtype;
          c.epilogue.activation = activation;
          c.epilogue.residual = residual;
          c.epilogue.bias = variant & 1;
          if (variant & 2) c.epilogue.alpha = 0.375;
          c.epilogue.residual_first = variant & 4;
          check(c);
        }
}

TEST_CASE("dtypes mix where the accumulator is f32") {
  for (DType x : {f32, bf16, f16})
    for (DType w : {f32, bf16, f16})
      for (DType y : {f32, bf16, f16})
        for (int64_t m : {1, 4, 40}) {
          Linear c;
          c.m = m, c.n = 67, c.k = 100, c.x = x, c.w = w, c.y = y, c.threads = 2, c.transposed = m == 4;
          c.epilogue.bias = true;
          c.epilogue.bias_dtype = m == 1 ? y : f32;
          check(c);
        }
}

TEST_CASE("bias, activation and residual of f16 and bf16 are rounded once, behind the last of them") {
  for (DType dtype : {bf16, f16})
    for (int64_t m : {1, 9, 64}) {
      Linear c;
      c.m = m, c.n = 50, c.k = 64, c.x = c.w = c.y = c.epilogue.bias_dtype = dtype;
      c.epilogue.bias = true, c.epilogue.residual = Residual::separate;
      c.epilogue.activation = Activation::tanh;
      check(c);
    }
}

TEST_CASE("rows may lie apart, and what lies between them is not touched") {
  for (DType dtype : {f32, bf16, f16, f64})
    for (int64_t m : {1, 7, 70}) {
      Linear c;
      c.m = m, c.n = 51, c.k = 33, c.pad = 5, c.threads = 2, c.transposed = m == 7;
      c.x = c.w = c.y = c.epilogue.bias_dtype = dtype;
      c.epilogue.bias = true;
      c.epilogue.residual = Residual::separate;
      check(c);
    }
}

TEST_CASE("the shapes of transformer layers are right on several threads") {
  const int64_t layers[][2] = {{384, 1152}, {384, 384}, {384, 1536}, {1536, 384}};
  for (auto [k, n] : layers)
    for (int64_t m : {1, 16, 128})
      for (int threads : {1, 2, 4}) {
        Linear c;
        c.m = m, c.n = n, c.k = k, c.threads = threads, c.transposed = true;
        c.epilogue.bias = true;
        if (n == 1536) c.epilogue.activation = Activation::gelu_erf;
        if (n == 384) c.epilogue.residual = Residual::separate;
        check(c);
      }
}

TEST_CASE("few rows by many columns, where panels are read side by side, are right") {
  for (DType dtype : {f32, bf16, f16, f64})
    for (int64_t m : {1, 2, 3, 4, 5})
      for (int64_t n : {900, 1003}) {
        Linear c;
        c.x = c.w = c.y = c.epilogue.bias_dtype = dtype;
        c.m = m, c.n = n, c.k = 61, c.threads = static_cast<int>(m % 3);
        check(c);
        c.epilogue.bias = true, c.epilogue.activation = Activation::relu;
        check(c);
        for (bool transposed : {false, true}) {
          Batched b = dense(1, 1, m, n, 61, false, transposed, false);
          b.spec.lhs_dtype = b.spec.rhs_dtype = b.spec.y_dtype = dtype;
          check(b);
        }
      }
}

TEST_CASE("a long sum and many rows are right") {
  for (DType dtype : {f32, bf16}) {
    Linear c;
    c.x = c.w = c.y = dtype;
    c.m = 9, c.n = 50, c.k = 9000, c.threads = 2;
    check(c);
    c.m = 700, c.n = 70, c.k = 300;
    check(c);
  }
}

TEST_CASE("a batched product takes its operands in any order of rows and columns") {
  const int64_t shapes[][3] = {{1, 1, 1},    {1, 50, 33},  {33, 1, 50},   {3, 70, 65},
                               {40, 48, 64}, {64, 65, 17}, {129, 31, 127}};
  for (auto [m, n, k] : shapes)
    for (int order = 0; order < 8; ++order)
      for (int threads : {1, 3}) {
        Batched c = dense(2, 3, m, n, k, order & 1, order & 2, order & 4);
        c.spec.threads = threads;
        check(c);
      }
}

TEST_CASE("batched operands may be broadcast, strided and reversed") {
  Batched c = dense(2, 3, 10, 60, 20, false, false, false);
  c.spec.rhs_batch_strides[0] = c.spec.rhs_batch_strides[1] = 0;  // more rows
  check(c);
  c = dense(2, 3, 10, 60, 20, false, false, false);
  c.spec.rhs_batch_strides[1] = 0;
  check(c);
  c.spec.lhs_batch_strides[0] = 0;
  check(c);
  c = dense(1, 4, 10, 60, 20, false, true, false);  // every second column and row
  c.spec.m = 5, c.spec.lhs_m_stride *= 2, c.spec.y_m_stride *= 2;
  c.spec.n = 30, c.spec.rhs_n_stride *= 2, c.spec.y_n_stride = 2;
  check(c);
  c.spec.lhs_k_stride = 2, c.spec.k = 10, c.spec.rhs_k_stride = 2;
  check(c);
}

TEST_CASE("a batched product takes every dtype and epilogue") {
  for (DType lhs : {f32, bf16, f16, f64})
    for (DType rhs : {f32, bf16, f16, f64})
      for (DType y : {f32, bf16, f16, f64}) {
        if ((lhs == f64) != (rhs == f64) || (lhs == f64) != (y == f64)) continue;
        for (int64_t m : {1, 3, 40})
          for (int order = 0; order < 8; ++order) {
            Batched c = dense(2, 2, m, 51, 37, order & 1, order & 2, order & 4);
            c.spec.lhs_dtype = lhs, c.spec.rhs_dtype = rhs, c.spec.y_dtype = c.spec.epilogue.bias_dtype = y;
            c.spec.epilogue.alpha = 0.125;
            c.spec.epilogue.bias = order & 1;
            c.spec.epilogue.residual = order & 2 ? Residual::in_place : Residual::none;
            c.spec.epilogue.activation = Activation::relu;
            c.spec.threads = 2;
            check(c);
          }
      }
}

TEST_CASE("right operands of bf16 that are contiguous along k are packed in pairs, whatever k and n are") {
  for (int64_t k : {1, 2, 7, 8, 10, 37, 64, 74})
    for (int64_t n : {15, 16, 33, 48, 51, 130}) {
      Batched c = dense(1, 1, 9, n, k, false, true, false);
      c.spec.lhs_dtype = c.spec.rhs_dtype = c.spec.y_dtype = bf16;
      check(c);
    }
}

TEST_CASE("large batched products, where the threads pack together, are right") {
  for (int order = 0; order < 8; ++order) {
    Batched c = dense(1, 2, 600, 130, 700, order & 1, order & 2, order & 4);
    c.spec.threads = 1 + order % 3;
    check(c);
  }
}

TEST_CASE("every instruction set of this processor gives right products") {
  int64_t k = 45;  // another for each, because the plan of an equal shape is kept, and is for its instruction set
  test::for_each_target([&] {
    ++k;
    for (DType dtype : {f32, bf16, f16, f64})
      for (int64_t m : {1, 5, 30})
        for (int64_t n : {3, 17, 61, 400}) {
          Linear c;
          c.m = m, c.n = n, c.k = k, c.threads = 2, c.transposed = m == 5;
          c.x = c.w = c.y = c.epilogue.bias_dtype = dtype;
          c.epilogue.bias = true;
          c.epilogue.activation = n == 3 ? Activation::gelu_erf : Activation::silu;
          c.epilogue.residual = Residual::separate;
          check(c);
          for (int order = 0; order < 8; ++order) {
            Batched b = dense(2, 1, m, n, k, order & 1, order & 2, order & 4);
            b.spec.lhs_dtype = b.spec.rhs_dtype = b.spec.y_dtype = dtype;
            check(b);
          }
        }
  });
}

TEST_CASE("a product gives the same bits each time and on any number of threads") {
  std::mt19937 random(3);
  const int64_t m = 130, n = 200, k = 150;
  Operand x(f32, m * k, random), w(f32, k * n, random);
  WeightsSpec spec;
  spec.k = k, spec.n = n, spec.k_stride = n, spec.n_stride = 1, spec.threads = 4;
  auto weights = PackedWeights::pack(spec, w.data());
  std::vector<float> first;
  for (int threads : {1, 1, 2, 3, 4}) {
    GemmSpec shape;
    shape.m = m, shape.x_stride = k, shape.y_stride = n, shape.threads = threads;
    shape.epilogue.activation = Activation::gelu_tanh;
    PreparedGemm product = weights->prepare(shape);
    std::vector<float> y(m * n);
    Scratch scratch(product.scratch_bytes());
    product.run({x.data(), y.data()}, scratch.aligned(), ThreadPool::shared());
    if (first.empty()) first = y;
    CHECK(std::memcmp(first.data(), y.data(), y.size() * sizeof(float)) == 0);
  }
}

TEST_CASE("sums in pieces of k have the bits that they have in one, and are right") {
  // Beside so many columns the sums of a piece would not stay in a cache, and k is one piece.
  const int64_t m = 160, n = 100, wide = 6592, k = 1100;
  std::mt19937 random(8);
  Operand x(f32, m * k, random), w(f32, k * wide), bias(f32, wide, random), residual(f32, m * wide, random);
  auto *rows = static_cast<float*>(x.data()), *columns = static_cast<float*>(w.data());
  std::fill_n(rows + 3 * k, k, 0.0f), rows[3 * k + 500] = 0.7f;  // a row with one number
  rows[40 * k + 5] = 1e30f;                                      // beyond what terms hold, in the first piece
  rows[70 * k + k - 1] = 1e30f;                                  // and in the last
  const Operand numbers(f32, k * n, random);
  for (int64_t i = 0; i < k; ++i)
    for (int64_t j = 0; j < n; ++j) columns[i * wide + j] = static_cast<float>(numbers[i * n + j]);
  const auto product = [&](int64_t outputs, int threads, const Epilogue& epilogue, std::string& strategy) {
    WeightsSpec weights;
    weights.k = k, weights.n = outputs, weights.k_stride = wide, weights.n_stride = 1, weights.threads = threads;
    GemmSpec shape;
    shape.m = m, shape.x_stride = k, shape.y_stride = shape.residual_stride = wide, shape.threads = threads;
    shape.epilogue = epilogue;
    const PreparedGemm prepared = PackedWeights::pack(weights, w.data())->prepare(shape);
    std::vector<float> y(static_cast<size_t>(m * wide));
    Scratch scratch(prepared.scratch_bytes());
    prepared.run({x.data(), y.data(), bias.data(), residual.data()}, scratch.aligned(), ThreadPool::shared());
    CHECK(scratch.intact());
    strategy = prepared.strategy();
    return y;
  };
  const auto has = [](const std::string& text, const char* words) { return text.find(words) != std::string::npos; };
  Epilogue whole;
  whole.bias = true, whole.activation = Activation::gelu_tanh, whole.residual = Residual::separate;
  int compared = 0;  // of caches that hold the rows, on a processor with tiles
  for (const Epilogue& epilogue : {Epilogue(), whole})
    for (int threads : {1, 3}) {
      std::string pieces, one;
      const std::vector<float> y = product(n, threads, epilogue, pieces), wanted = product(wide, 1, epilogue, one);
      if (!has(pieces, "2 pieces of k") || !has(one, "columns split") || has(one, "pieces")) continue;
      size_t differing = 0;
      for (int64_t i = 0; i < m; ++i)
        differing += std::memcmp(&y[static_cast<size_t>(i * wide)], &wanted[static_cast<size_t>(i * wide)],
                                 static_cast<size_t>(n) * sizeof(float)) != 0;
      CHECK(differing == 0);
      ++compared;
    }
  if (has_matrix_tiles() && cache_sizes().l2_bytes >= 2 << 20) CHECK(compared > 0);
  else
    MESSAGE(compared, " products compared bit by bit: ",
            std::string(has_matrix_tiles() ? "the second-level cache does not hold the rows in one piece"
                                           : "there are no matrix tiles, which sum in pieces of k"));
  for (int64_t rows_of : {30, 64, 100, 128, 192})
    for (int64_t depth : {1025, 2048, 3000})
      check({.m = rows_of, .n = 70, .k = depth, .epilogue = whole, .threads = static_cast<int>(rows_of % 3) + 1});
}

TEST_CASE("one prepared product serves several threads at once") {
  std::mt19937 random(4);
  const int64_t m = 20, n = 100, k = 64;
  Operand x(f32, m * k, random), w(f32, k * n, random);
  WeightsSpec spec;
  spec.k = k, spec.n = n, spec.k_stride = n, spec.n_stride = 1, spec.threads = 2;
  auto weights = PackedWeights::pack(spec, w.data());
  GemmSpec shape;
  shape.m = m, shape.x_stride = k, shape.y_stride = n, shape.threads = 2;
  PreparedGemm product = weights->prepare(shape);
  std::vector<float> want(m * n);
  Scratch own(product.scratch_bytes());
  product.run({x.data(), want.data()}, own.aligned(), ThreadPool::shared());
  std::atomic<int> wrong{0};
  std::vector<std::thread> callers;
  for (int c = 0; c < 4; ++c)
    callers.emplace_back([&] {
      std::vector<float> y(m * n);
      for (int round = 0; round < 200; ++round) {
        GemmSpec other = shape;
        other.m = 1 + round % m;  // through the cache of plans, with more shapes than it holds
        PreparedGemm prepared = round % 2 ? product : weights->prepare(other);
        const int64_t rows = round % 2 ? m : other.m;
        Scratch scratch(prepared.scratch_bytes());
        std::fill(y.begin(), y.end(), 0.0f);
        prepared.run({x.data(), y.data()}, scratch.aligned(), ThreadPool::shared());
        for (int64_t i = 0; i < rows * n; ++i)
          if (std::fabs(y[i] - want[i]) > 1e-5f) ++wrong;
      }
    });
  for (std::thread& caller : callers) caller.join();
  CHECK(wrong == 0);
}

TEST_CASE("what cannot be computed is refused with the dtypes named") {
  float data[4] = {};
  WeightsSpec spec;
  spec.k = 2, spec.n = 2, spec.k_stride = 2, spec.n_stride = 1;
  spec.x_dtype = f64;
  CHECK_THROWS_WITH_AS(
      PackedWeights::pack(spec, data),
      "a product of f64 and f32 into f64 with a bias of f64 mixes f64 with narrower dtypes; convert them first", Error);
  spec.x_dtype = f32, spec.dtype = i8;
  CHECK_THROWS_WITH_AS(PackedWeights::pack(spec, data),
                       "the CPU's products take f32, bf16, f16 and f64, not i8; convert it first", Error);
  BatchedGemmSpec batched;
  batched.m = -1;
  CHECK_THROWS_WITH_AS(prepare_batched_gemm(batched), "a product cannot have the extents m = -1, n = 0, k = 0", Error);
}

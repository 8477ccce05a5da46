// Our own product. For now the plain loops, one output element at a time.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

#include "kernels/gemm_backends.h"
#include "kernels/gemm_plan_cache.h"
#include "kernels/thread_pool.h"
#include "rlx/error.h"

namespace rlx::kernels {
namespace {

float from_half(uint16_t h) {
  uint32_t sign = uint32_t(h & 0x8000u) << 16, exponent = (h >> 10) & 31, mantissa = h & 1023;
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7F800000u | mantissa << 13);
  if (exponent == 0) {
    float v = std::ldexp(static_cast<float>(mantissa), -24);
    return sign ? -v : v;
  }
  return std::bit_cast<float>(sign | (exponent + 112) << 23 | mantissa << 13);
}
uint16_t to_half(float f) {
  uint32_t bits = std::bit_cast<uint32_t>(f), sign = bits >> 16 & 0x8000u;
  float a = std::fabs(f);
  if (std::isnan(f)) return static_cast<uint16_t>(sign | 0x7E00u);
  if (a >= 65520.0f) return static_cast<uint16_t>(sign | 0x7C00u);
  int e = 0;
  std::frexp(a, &e);
  e = std::max(e, -13);
  float q = std::nearbyint(std::ldexp(a, 11 - e));  // in units of 2^(e-11)
  if (a == 0) return static_cast<uint16_t>(sign);
  if (q >= 2048.0f) { q /= 2; ++e; }
  auto i = static_cast<uint32_t>(q);
  return static_cast<uint16_t>(sign | (i < 1024 ? i : static_cast<uint32_t>(e + 14) << 10 | (i - 1024)));
}
double load(const void* p, DType t, int64_t i) {
  if (t == f64) return static_cast<const double*>(p)[i];
  if (t == f32) return static_cast<const float*>(p)[i];
  uint16_t h = static_cast<const uint16_t*>(p)[i];
  return t == bf16 ? std::bit_cast<float>(uint32_t(h) << 16) : from_half(h);
}
void store(void* p, DType t, int64_t i, double v) {
  auto f = static_cast<float>(v);
  if (t == f64) static_cast<double*>(p)[i] = v;
  else if (t == f32) static_cast<float*>(p)[i] = f;
  else if (t == f16) static_cast<uint16_t*>(p)[i] = to_half(f);
  else {
    uint32_t bits = std::bit_cast<uint32_t>(f);
    static_cast<uint16_t*>(p)[i] = static_cast<uint16_t>(
        std::isnan(f) ? (bits >> 16 | 64u) : (bits + 0x7FFFu + (bits >> 16 & 1u)) >> 16);
  }
}
double activate(Activation a, double x) {
  switch (a) {
    case Activation::none: return x;
    case Activation::relu: return x < 0 ? 0 : x;
    case Activation::gelu_erf: return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0)));
    case Activation::gelu_tanh: return 0.5 * x * (1 + std::tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));
    case Activation::silu: return x / (1 + std::exp(-x));
    case Activation::sigmoid: return 1 / (1 + std::exp(-x));
    case Activation::tanh: return std::tanh(x);
  }
  return x;
}

class PlainBatchedPlan : public BatchedGemmPlan {
 public:
  explicit PlainBatchedPlan(const BatchedGemmSpec& spec) : s_(spec) {}
  size_t scratch_bytes() const override { return 0; }
  void run(const BatchedGemmOperands& o, void*, ThreadPool& pool) const noexcept override {
    int64_t batches = 1;
    for (int d = 0; d < s_.batch_rank; ++d) batches *= s_.batch_dims[d];
    pool.parallel_for(s_.threads, batches * s_.m, [&](int64_t part) { row(o, part / s_.m, part % s_.m); });
  }

 private:
  double rounded(double v) const {
    double r = v;
    if (s_.epilogue.round_each_step) {
      uint64_t cell = 0;
      store(&cell, s_.y_dtype, 0, v);
      r = load(&cell, s_.y_dtype, 0);
    }
    return r;
  }
  void row(const BatchedGemmOperands& o, int64_t batch, int64_t i) const {
    const Epilogue& e = s_.epilogue;
    int64_t a = i * s_.lhs_m_stride, b = 0, y = i * s_.y_m_stride;
    for (int d = s_.batch_rank - 1; d >= 0; --d) {
      int64_t index = batch % s_.batch_dims[d];
      batch /= s_.batch_dims[d];
      a += index * s_.lhs_batch_strides[d], b += index * s_.rhs_batch_strides[d], y += index * s_.y_batch_strides[d];
    }
    for (int64_t j = 0; j < s_.n; ++j) {
      double sum = 0;
      for (int64_t k = 0; k < s_.k; ++k)
        sum += load(o.lhs, s_.lhs_dtype, a + k * s_.lhs_k_stride) *
               load(o.rhs, s_.rhs_dtype, b + k * s_.rhs_k_stride + j * s_.rhs_n_stride);
      sum = rounded(sum * e.alpha);
      int64_t at = y + j * s_.y_n_stride;
      if (e.bias) sum = rounded(sum + load(o.bias, e.bias_dtype, j));
      sum = rounded(activate(e.activation, sum));
      if (e.residual != Residual::none)
        sum += load(e.residual == Residual::separate ? o.residual : o.y, s_.y_dtype, at);
      store(o.y, s_.y_dtype, at, sum);
    }
  }
  BatchedGemmSpec s_;
};

class PlainWeights : public PackedWeights {
 public:
  PlainWeights(const WeightsSpec& spec, const void* data) : x_dtype_(spec.x_dtype), values_(spec.k * spec.n) {
    k_ = spec.k, n_ = spec.n, bytes_ = values_.size() * sizeof(double);
    for (int64_t i = 0; i < k_; ++i)
      for (int64_t j = 0; j < n_; ++j)
        values_[i * n_ + j] = load(data, spec.dtype, i * spec.k_stride + j * spec.n_stride);
  }
  PreparedGemm prepare(const GemmSpec& spec) const override;
  DType x_dtype_;
  std::vector<double> values_;
};

class PlainPlan : public GemmPlan {
 public:
  PlainPlan(std::shared_ptr<const PackedWeights> weights, const GemmSpec& spec)
      : weights_(std::static_pointer_cast<const PlainWeights>(weights)), spec_(spec) {}
  size_t scratch_bytes() const override { return 0; }
  void run(const GemmOperands& o, void*, ThreadPool& pool) const noexcept override {
    const PlainWeights& w = *weights_;
    BatchedGemmSpec s;
    s.m = 1, s.n = w.n(), s.k = w.k();
    s.rhs_k_stride = w.n();
    s.lhs_dtype = w.x_dtype_, s.rhs_dtype = f64, s.y_dtype = spec_.y_dtype, s.epilogue = spec_.epilogue;
    PlainBatchedPlan plan(s);
    pool.parallel_for(spec_.threads, spec_.m, [&](int64_t i) {
      auto size = static_cast<int64_t>(byte_size(s.y_dtype));
      BatchedGemmOperands row;
      row.lhs = static_cast<const char*>(o.x) + i * spec_.x_stride * static_cast<int64_t>(byte_size(s.lhs_dtype));
      row.rhs = w.values_.data();
      row.y = static_cast<char*>(o.y) + i * spec_.y_stride * size;
      row.bias = o.bias;
      if (o.residual) row.residual = static_cast<const char*>(o.residual) + i * spec_.residual_stride * size;
      plan.run(row, nullptr, pool);
    });
  }

 private:
  std::shared_ptr<const PlainWeights> weights_;
  GemmSpec spec_;
};

PreparedGemm PlainWeights::prepare(const GemmSpec& spec) const {
  return PreparedGemm(std::make_shared<PlainPlan>(shared_from_this(), spec));
}

}  // namespace

std::shared_ptr<const PackedWeights> pack_highway(const WeightsSpec& spec, const void* data) {
  return std::make_shared<PlainWeights>(spec, data);
}
std::shared_ptr<const BatchedGemmPlan> plan_batched_highway(const BatchedGemmSpec& spec) {
  return std::make_shared<PlainBatchedPlan>(spec);
}

}  // namespace rlx::kernels

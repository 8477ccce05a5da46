// See the header. One f32 implementation for each kernel; rows of f16 and bf16 go through f32 scratch. f64 is scalar.
#include "kernels/norm/rows.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/vector/highway_targets.h"
#include "kernels/vector/narrow_float.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/norm/rows.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "kernels/norm/rows-inl.h"
#include "kernels/vector/elementary-inl.h"
#include "kernels/vector/narrow_float-inl.h"

HWY_BEFORE_NAMESPACE();
namespace rlx::kernels {
namespace HWY_NAMESPACE {
namespace {

// The next row is prefetched while a row is computed, unless rows are longer than this: they would evict each other.
constexpr size_t kMaxPrefetchBytes = 16384;

template <class T>
void softmax_typed(const SoftmaxArgs& a, int64_t row_begin, int64_t row_end, float* scratch) {
  const F32Tag d;
  const auto n = static_cast<size_t>(a.cols);
  for (int64_t row = row_begin; row < row_end; ++row) {
    T* y = row_of<T>(a.y, a.y_stride, row);
    const float* x = as_f32(row_of<T>(a.x, a.x_stride, row), n, scratch);
    const float max = row_max(x, n);
    const F32Vec shift = hn::Set(d, max);
    if (a.log) {
      const float sum = row_sum(x, n, -std::numeric_limits<float>::infinity(),
                                [&](F32Vec v, size_t) HWY_ATTR { return ExpNonpositive(d, hn::Sub(v, shift)); });
      const F32Vec log_sum = hn::Set(d, std::log(sum));
      row_map(x, y, n, [&](F32Vec v, size_t, size_t) HWY_ATTR { return hn::Sub(hn::Sub(v, shift), log_sum); });
      continue;
    }
    float* e = f32_target(y, scratch);
    const bool has_next = row + 1 < row_end && n * sizeof(T) <= kMaxPrefetchBytes;
    const T* next_x = row_of<T>(a.x, a.x_stride, has_next ? row + 1 : row);
    const T* next_y = row_of<T>(a.y, a.y_stride, has_next ? row + 1 : row);
    const float sum = row_sum(x, n, -std::numeric_limits<float>::infinity(), [&](F32Vec v, size_t i) HWY_ATTR {
      __builtin_prefetch(next_x + i), __builtin_prefetch(next_y + i, 1);
      const F32Vec w = ExpNonpositive(d, hn::Sub(v, shift));
      if (i + hn::Lanes(d) <= n) hn::StoreU(w, d, e + i);
      else store_f32_some(w, d, e + i, n - i);
      return w;
    });
    const F32Vec inverse = hn::Set(d, 1.0f / sum);
    row_map(e, y, n, [&](F32Vec v, size_t, size_t) HWY_ATTR { return hn::Mul(v, inverse); });
  }
}

template <class T>
void logsumexp_typed(const LogSumExpArgs& a, int64_t row_begin, int64_t row_end, float* scratch) {
  const F32Tag d;
  const auto n = static_cast<size_t>(a.cols);
  for (int64_t row = row_begin; row < row_end; ++row) {
    const float* x = as_f32(row_of<T>(a.x, a.x_stride, row), n, scratch);
    const float max = row_max(x, n);
    const float shift = std::isinf(max) ? 0.0f : max;
    float sum = 0;
    if (max == std::numeric_limits<float>::infinity()) {
      // The sum would be inf as well, but the vector max may have skipped a NaN.
      sum = std::any_of(x, x + n, [](float v) { return std::isnan(v); }) ? std::nanf("") : max;
    } else {
      const F32Vec minus = hn::Set(d, shift);
      sum = row_sum(x, n, -std::numeric_limits<float>::infinity(),
                    [&](F32Vec v, size_t) HWY_ATTR { return ExpNonpositive(d, hn::Sub(v, minus)); });
    }
    static_cast<T*>(a.y)[row] = from_f32<T>(shift + std::log(sum));
  }
}

template <class T>
HWY_INLINE F32Vec rounded_to(F32Tag d, F32Vec v, const T*) {
  HWY_ALIGN T lanes[hn::MaxLanes(F32Tag())];
  store_f32(v, d, lanes);
  return load_f32(d, lanes);
}
HWY_INLINE F32Vec rounded_to(F32Tag, F32Vec v, const float*) { return v; }

/// The row that is normalized, x + bias + residual, in f32; also stored to `sum` if that is set.
template <class T>
const float* summed_row(const NormArgs& a, int64_t row, float* scratch) {
  const F32Tag d;
  const auto n = static_cast<size_t>(a.cols);
  const T* x = row_of<T>(a.x, a.x_stride, row);
  if (!a.bias && !a.residual && !a.sum) return as_f32(x, n, scratch);
  const T* bias = static_cast<const T*>(a.bias);
  const T* residual = a.residual ? row_of<T>(a.residual, a.residual_stride, row) : nullptr;
  T* sum = a.sum ? row_of<T>(a.sum, a.sum_stride, row) : nullptr;
  const auto at = [&](F32Vec v, auto load) HWY_ATTR {
    if (bias) {
      v = hn::Add(v, load(bias));
      if (a.round_sum) v = rounded_to(d, v, x);
    }
    if (residual) {
      v = hn::Add(v, load(residual));
      if (a.round_sum) v = rounded_to(d, v, x);
    }
    return v;
  };
  const size_t lanes = hn::Lanes(d);
  size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const F32Vec v = at(load_f32(d, x + i), [&](const T* p) HWY_ATTR { return load_f32(d, p + i); });
    hn::StoreU(v, d, scratch + i);
    if (sum) store_f32(v, d, sum + i);
  }
  if (i < n) {
    const F32Vec v =
        at(load_f32_some(d, x + i, n - i), [&](const T* p) HWY_ATTR { return load_f32_some(d, p + i, n - i); });
    hn::StoreU(v, d, scratch + i);
    if (sum) store_f32_some(v, d, sum + i, n - i);
  }
  return scratch;
}

/// y = (s - mean) * inverse * gamma + beta
template <class T>
void scale_row(const NormArgs& a, const float* s, float mean, float inverse, T* y) {
  const F32Tag d;
  const auto n = static_cast<size_t>(a.cols);
  const F32Vec shift = hn::Set(d, mean), scale = hn::Set(d, inverse);
  const T* gamma = static_cast<const T*>(a.gamma);
  const T* beta = static_cast<const T*>(a.beta);
  const auto load = [&](const T* p, size_t i, size_t count) HWY_ATTR {
    return count == hn::Lanes(d) ? load_f32(d, p + i) : load_f32_some(d, p + i, count);
  };
  if (gamma && beta) {
    row_map(s, y, n, [&](F32Vec v, size_t i, size_t count) HWY_ATTR {
      const F32Vec z = hn::Mul(hn::Sub(v, shift), scale);
      return hn::MulAdd(z, load(gamma, i, count), load(beta, i, count));
    });
  } else {
    row_map(s, y, n, [&](F32Vec v, size_t i, size_t count) HWY_ATTR {
      F32Vec z = hn::Mul(hn::Sub(v, shift), scale);
      if (gamma) z = hn::Mul(z, load(gamma, i, count));
      if (beta) z = hn::Add(z, load(beta, i, count));
      return z;
    });
  }
}

template <class T, bool kCentred>
void norm_typed(const NormArgs& a, int64_t row_begin, int64_t row_end, float* scratch) {
  const F32Tag d;
  const auto n = static_cast<size_t>(a.cols);
  for (int64_t row = row_begin; row < row_end; ++row) {
    const float* s = summed_row<T>(a, row, scratch);
    float mean = 0;
    if constexpr (kCentred)
      mean = row_sum(s, n, 0, [](F32Vec v, size_t) HWY_ATTR { return v; }) / static_cast<float>(n);
    const F32Vec shift = hn::Set(d, mean);
    const bool has_next = row + 1 < row_end && n * sizeof(T) <= kMaxPrefetchBytes;
    const T* next_x = row_of<T>(a.x, a.x_stride, has_next ? row + 1 : row);
    const float squares = row_sum(s, n, mean, [&](F32Vec v, size_t i) HWY_ATTR {
      __builtin_prefetch(next_x + i);
      const F32Vec distance = hn::Sub(v, shift);
      return hn::Mul(distance, distance);
    });
    const double variance = static_cast<double>(squares) / static_cast<double>(n);
    const auto inverse = static_cast<float>(1.0 / std::sqrt(variance + a.eps));
    scale_row(a, s, mean, inverse, row_of<T>(a.y, a.y_stride, row));
  }
}

void softmax(const SoftmaxArgs& a, int64_t begin, int64_t end, void* scratch) {
  auto* rows = static_cast<float*>(scratch);
  if (a.dtype == f16) softmax_typed<F16>(a, begin, end, rows);
  else if (a.dtype == bf16) softmax_typed<BF16>(a, begin, end, rows);
  else softmax_typed<float>(a, begin, end, rows);
}
void logsumexp(const LogSumExpArgs& a, int64_t begin, int64_t end, void* scratch) {
  auto* rows = static_cast<float*>(scratch);
  if (a.dtype == f16) logsumexp_typed<F16>(a, begin, end, rows);
  else if (a.dtype == bf16) logsumexp_typed<BF16>(a, begin, end, rows);
  else logsumexp_typed<float>(a, begin, end, rows);
}
void layer_norm(const NormArgs& a, int64_t begin, int64_t end, void* scratch) {
  auto* rows = static_cast<float*>(scratch);
  if (a.dtype == f16) norm_typed<F16, true>(a, begin, end, rows);
  else if (a.dtype == bf16) norm_typed<BF16, true>(a, begin, end, rows);
  else norm_typed<float, true>(a, begin, end, rows);
}
void rms_norm(const NormArgs& a, int64_t begin, int64_t end, void* scratch) {
  auto* rows = static_cast<float*>(scratch);
  if (a.dtype == f16) norm_typed<F16, false>(a, begin, end, rows);
  else if (a.dtype == bf16) norm_typed<BF16, false>(a, begin, end, rows);
  else norm_typed<float, false>(a, begin, end, rows);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace rlx::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rlx::kernels {
namespace {

HWY_EXPORT(softmax);
HWY_EXPORT(logsumexp);
HWY_EXPORT(layer_norm);
HWY_EXPORT(rms_norm);

void softmax_f64(const SoftmaxArgs& a, int64_t row_begin, int64_t row_end) {
  for (int64_t row = row_begin; row < row_end; ++row) {
    const double* x = static_cast<const double*>(a.x) + row * a.x_stride;
    double* y = static_cast<double*>(a.y) + row * a.y_stride;
    const double max = a.cols > 0 ? *std::max_element(x, x + a.cols) : 0;
    double sum = 0;
    for (int64_t i = 0; i < a.cols; ++i) sum += std::exp(x[i] - max);
    const double log_sum = std::log(sum);
    for (int64_t i = 0; i < a.cols; ++i) y[i] = a.log ? x[i] - max - log_sum : std::exp(x[i] - max) / sum;
  }
}

void logsumexp_f64(const LogSumExpArgs& a, int64_t row_begin, int64_t row_end) {
  for (int64_t row = row_begin; row < row_end; ++row) {
    const double* x = static_cast<const double*>(a.x) + row * a.x_stride;
    const double max = a.cols > 0 ? *std::max_element(x, x + a.cols) : 0;
    const double shift = std::isinf(max) ? 0 : max;
    double sum = 0;
    for (int64_t i = 0; i < a.cols; ++i) sum += std::exp(x[i] - shift);
    static_cast<double*>(a.y)[row] = shift + std::log(sum);
  }
}

void norm_f64(const NormArgs& a, bool centred, int64_t row_begin, int64_t row_end, double* s) {
  const auto cols = static_cast<double>(a.cols);
  const auto* bias = static_cast<const double*>(a.bias);
  const auto* gamma = static_cast<const double*>(a.gamma);
  const auto* beta = static_cast<const double*>(a.beta);
  for (int64_t row = row_begin; row < row_end; ++row) {
    const double* x = static_cast<const double*>(a.x) + row * a.x_stride;
    const double* residual = a.residual ? static_cast<const double*>(a.residual) + row * a.residual_stride : nullptr;
    double total = 0, squares = 0;
    for (int64_t i = 0; i < a.cols; ++i) {
      s[i] = x[i] + (bias ? bias[i] : 0);
      if (residual) s[i] += residual[i];
      total += s[i];
    }
    if (a.sum) std::copy(s, s + a.cols, static_cast<double*>(a.sum) + row * a.sum_stride);
    const double mean = centred ? total / cols : 0;
    for (int64_t i = 0; i < a.cols; ++i) squares += (s[i] - mean) * (s[i] - mean);
    const double inverse = 1 / std::sqrt(squares / cols + a.eps);
    double* y = static_cast<double*>(a.y) + row * a.y_stride;
    for (int64_t i = 0; i < a.cols; ++i) y[i] = (s[i] - mean) * inverse * (gamma ? gamma[i] : 1) + (beta ? beta[i] : 0);
  }
}

}  // namespace

// A row of f32 or f64 and some bytes more, because the last vector is stored whole.
size_t rows_scratch_bytes(DType dtype, int64_t cols) {
  return static_cast<size_t>(cols) * (dtype == f64 ? sizeof(double) : sizeof(float)) + 256;
}

void softmax_rows(const SoftmaxArgs& args, int64_t row_begin, int64_t row_end, void* scratch) noexcept {
  if (args.dtype == f64) softmax_f64(args, row_begin, row_end);
  else HWY_DYNAMIC_DISPATCH(softmax)(args, row_begin, row_end, scratch);
}
void logsumexp_rows(const LogSumExpArgs& args, int64_t row_begin, int64_t row_end, void* scratch) noexcept {
  if (args.dtype == f64) logsumexp_f64(args, row_begin, row_end);
  else HWY_DYNAMIC_DISPATCH(logsumexp)(args, row_begin, row_end, scratch);
}
void layer_norm_rows(const NormArgs& args, int64_t row_begin, int64_t row_end, void* scratch) noexcept {
  if (args.dtype == f64) norm_f64(args, true, row_begin, row_end, static_cast<double*>(scratch));
  else HWY_DYNAMIC_DISPATCH(layer_norm)(args, row_begin, row_end, scratch);
}
void rms_norm_rows(const NormArgs& args, int64_t row_begin, int64_t row_end, void* scratch) noexcept {
  if (args.dtype == f64) norm_f64(args, false, row_begin, row_end, static_cast<double*>(scratch));
  else HWY_DYNAMIC_DISPATCH(rms_norm)(args, row_begin, row_end, scratch);
}

}  // namespace rlx::kernels
#endif  // HWY_ONCE

// See the header. One f32 implementation for each kernel; rows of f16 and bf16 go through f32 scratch. f64 is scalar.
#include "kernels/norm/cross_entropy.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/index/index.h"
#include "kernels/vector/highway_targets.h"
#include "kernels/vector/narrow_float.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/norm/cross_entropy.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "kernels/norm/rows-inl.h"
#include "kernels/vector/elementary-inl.h"
#include "kernels/vector/narrow_float-inl.h"

#ifndef RLX_KERNELS_CROSS_ENTROPY_ONCE
#define RLX_KERNELS_CROSS_ENTROPY_ONCE
namespace rlx::kernels {
namespace {

/// The row's label, or -1 if it is no class.
int64_t class_of(const CrossEntropyArgs& a, int64_t row) {
  const int64_t label = read_index(a.labels, a.label_dtype, row);
  return label < a.cols ? std::max<int64_t>(label, -1) : -1;
}

/// logsumexp of a row as shift + log. The two are kept separate, because their sum would lose digits that the
/// difference to the largest logit needs.
template <class T>
struct LogSum {
  T shift, log;
  T minus(T x) const { return (shift - x) + log; }
};

constexpr float kNoFloat = std::numeric_limits<float>::quiet_NaN();
constexpr double kNoDouble = std::numeric_limits<double>::quiet_NaN();

size_t row_floats(int64_t cols) { return static_cast<size_t>(cols) + 64; }  // the last vector is stored whole

}  // namespace
}  // namespace rlx::kernels
#endif  // RLX_KERNELS_CROSS_ENTROPY_ONCE

HWY_BEFORE_NAMESPACE();
namespace rlx::kernels {
namespace HWY_NAMESPACE {
namespace {

LogSum<float> log_sum(const float* x, size_t n) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const F32Tag d;
  const float max = row_max(x, n);
  // The vector max may have skipped a NaN; the sum would not.
  if (max == kInfinity) return {max, std::any_of(x, x + n, [](float v) { return std::isnan(v); }) ? kNoFloat : 0.0f};
  const float shift = max == -kInfinity ? 0.0f : max;
  const F32Vec minus = hn::Set(d, shift);
  const float sum =
      row_sum(x, n, -kInfinity, [&](F32Vec v, size_t) HWY_ATTR { return ExpNonpositive(d, hn::Sub(v, minus)); });
  return {shift, std::log(sum)};
}

template <class T>
void label_loss(const CrossEntropyArgs& a, int64_t begin, int64_t end, float* scratch) {
  for (int64_t row = begin; row < end; ++row) {
    const float* x = as_f32(row_of<T>(a.logits, a.cols, row), static_cast<size_t>(a.cols), scratch);
    const int64_t label = class_of(a, row);
    static_cast<T*>(a.y)[row] =
        from_f32<T>(label < 0 ? kNoFloat : log_sum(x, static_cast<size_t>(a.cols)).minus(x[label]));
  }
}

template <class T>
void target_loss(const CrossEntropyArgs& a, int64_t begin, int64_t end, float* scratch) {
  const F32Tag d;
  const auto n = static_cast<size_t>(a.cols);
  for (int64_t row = begin; row < end; ++row) {
    const float* x = as_f32(row_of<T>(a.logits, a.cols, row), n, scratch);
    const float* targets = as_f32(row_of<T>(a.targets, a.cols, row), n, scratch + row_floats(a.cols));
    const LogSum<float> all = log_sum(x, n);
    const F32Vec shift = hn::Set(d, all.shift), log = hn::Set(d, all.log);
    const float sum = row_sum(targets, n, 0, [&](F32Vec t, size_t i) HWY_ATTR {
      const F32Vec v = i + hn::Lanes(d) <= n ? hn::LoadU(d, x + i) : load_f32_some(d, x + i, n - i);
      const F32Vec term = hn::Mul(t, hn::Add(hn::Sub(shift, v), log));
      return hn::IfThenZeroElse(hn::Eq(t, hn::Zero(d)), term);  // 0 times infinity would be NaN
    });
    static_cast<T*>(a.y)[row] = from_f32<T>(sum);
  }
}

template <class T>
void label_backward(const CrossEntropyArgs& a, int64_t begin, int64_t end, float* scratch) {
  const F32Tag d;
  const auto n = static_cast<size_t>(a.cols);
  for (int64_t row = begin; row < end; ++row) {
    T* y = row_of<T>(a.y, a.cols, row);
    const int64_t label = class_of(a, row);
    if (label < 0) {
      std::fill_n(y, n, from_f32<T>(kNoFloat));
      continue;
    }
    const float* x = as_f32(row_of<T>(a.logits, a.cols, row), n, scratch);
    float* e = f32_target(y, scratch);
    const F32Vec shift = hn::Set(d, row_max(x, n));
    const float sum = row_sum(x, n, -std::numeric_limits<float>::infinity(), [&](F32Vec v, size_t i) HWY_ATTR {
      const F32Vec w = ExpNonpositive(d, hn::Sub(v, shift));
      if (i + hn::Lanes(d) <= n) hn::StoreU(w, d, e + i);
      else store_f32_some(w, d, e + i, n - i);
      return w;
    });
    const float ct = to_f32(static_cast<const T*>(a.ct)[row]), inverse = 1.0f / sum;
    const float at_label = (e[label] * inverse - 1.0f) * ct;
    const F32Vec scale = hn::Set(d, inverse), slope = hn::Set(d, ct);
    row_map(e, y, n, [&](F32Vec v, size_t, size_t) HWY_ATTR { return hn::Mul(hn::Mul(v, scale), slope); });
    y[label] = from_f32<T>(at_label);
  }
}

#define RLX_BY_DTYPE(name)                                                                \
  void name##_f32(const CrossEntropyArgs& a, int64_t begin, int64_t end, void* scratch) { \
    auto* rows = static_cast<float*>(scratch);                                            \
    if (a.dtype == f16) name<F16>(a, begin, end, rows);                                   \
    else if (a.dtype == bf16) name<BF16>(a, begin, end, rows);                            \
    else name<float>(a, begin, end, rows);                                                \
  }
RLX_BY_DTYPE(label_loss)
RLX_BY_DTYPE(target_loss)
RLX_BY_DTYPE(label_backward)
#undef RLX_BY_DTYPE

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace rlx::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rlx::kernels {
namespace {

HWY_EXPORT(label_loss_f32);
HWY_EXPORT(target_loss_f32);
HWY_EXPORT(label_backward_f32);

LogSum<double> log_sum_f64(const double* x, int64_t n) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (std::any_of(x, x + n, [](double v) { return std::isnan(v); })) return {kNoDouble, 0};
  const double max = n > 0 ? *std::max_element(x, x + n) : -kInfinity;
  if (max == kInfinity) return {max, 0};
  const double shift = max == -kInfinity ? 0 : max;
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += std::exp(x[i] - shift);
  return {shift, std::log(sum)};
}

void label_loss_f64(const CrossEntropyArgs& a, int64_t begin, int64_t end) {
  for (int64_t row = begin; row < end; ++row) {
    const double* x = static_cast<const double*>(a.logits) + row * a.cols;
    const int64_t label = class_of(a, row);
    static_cast<double*>(a.y)[row] = label < 0 ? kNoDouble : log_sum_f64(x, a.cols).minus(x[label]);
  }
}
void target_loss_f64(const CrossEntropyArgs& a, int64_t begin, int64_t end) {
  for (int64_t row = begin; row < end; ++row) {
    const double* x = static_cast<const double*>(a.logits) + row * a.cols;
    const double* targets = static_cast<const double*>(a.targets) + row * a.cols;
    const LogSum<double> all = log_sum_f64(x, a.cols);
    double sum = 0;
    for (int64_t i = 0; i < a.cols; ++i)
      if (targets[i] != 0) sum += targets[i] * all.minus(x[i]);
    static_cast<double*>(a.y)[row] = sum;
  }
}
void label_backward_f64(const CrossEntropyArgs& a, int64_t begin, int64_t end) {
  for (int64_t row = begin; row < end; ++row) {
    const double* x = static_cast<const double*>(a.logits) + row * a.cols;
    double* y = static_cast<double*>(a.y) + row * a.cols;
    const int64_t label = class_of(a, row);
    if (label < 0) {
      std::fill_n(y, a.cols, kNoDouble);
      continue;
    }
    LogSum<double> all = log_sum_f64(x, a.cols);
    if (std::isinf(all.shift)) all.log = kNoDouble;  // a softmax of infinity over infinity
    const double ct = static_cast<const double*>(a.ct)[row];
    for (int64_t i = 0; i < a.cols; ++i) y[i] = (std::exp((x[i] - all.shift) - all.log) - (i == label ? 1 : 0)) * ct;
  }
}

}  // namespace

size_t cross_entropy_scratch_bytes(DType dtype, int64_t cols) {
  return is_low_precision(dtype) ? 2 * row_floats(cols) * sizeof(float) : 0;
}

void label_cross_entropy_rows(const CrossEntropyArgs& args, int64_t row_begin, int64_t row_end,
                              void* scratch) noexcept {
  if (args.dtype == f64) label_loss_f64(args, row_begin, row_end);
  else HWY_DYNAMIC_DISPATCH(label_loss_f32)(args, row_begin, row_end, scratch);
}
void target_cross_entropy_rows(const CrossEntropyArgs& args, int64_t row_begin, int64_t row_end,
                               void* scratch) noexcept {
  if (args.dtype == f64) target_loss_f64(args, row_begin, row_end);
  else HWY_DYNAMIC_DISPATCH(target_loss_f32)(args, row_begin, row_end, scratch);
}
void label_cross_entropy_backward_rows(const CrossEntropyArgs& args, int64_t row_begin, int64_t row_end,
                                       void* scratch) noexcept {
  if (args.dtype == f64) label_backward_f64(args, row_begin, row_end);
  else HWY_DYNAMIC_DISPATCH(label_backward_f32)(args, row_begin, row_end, scratch);
}

}  // namespace rlx::kernels
#endif  // HWY_ONCE

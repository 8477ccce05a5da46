// See the header. With h = (x - mean) inverse and g = ct gamma: d_x = (g - mean(g) - h mean(g h)) inverse, where
// inverse = 1 / sqrt(variance + eps).
//
// A group is often larger than the L1 cache. Mean and variance are computed for blocks that fit it, each in two passes,
// and merged (Chan, Golub, LeVeque, The American Statistician 37 (1983), 242-247), so that memory is read once for
// both.
#include "kernels/norm/group_norm.h"

#include <algorithm>
#include <cmath>

#include "kernels/partial_sums.h"
#include "kernels/vector/highway_targets.h"
#include "kernels/vector/narrow_float.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/norm/group_norm.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "kernels/vector/narrow_float-inl.h"

#ifndef RLX_KERNELS_GROUP_NORM_ONCE
#define RLX_KERNELS_GROUP_NORM_ONCE
namespace rlx::kernels {
namespace {

/// Count, mean and sum of squared distances to the mean, of the blocks merged so far.
struct Moments {
  double count = 0, mean = 0, squares = 0;
  void merge(double n, double block_mean, double block_squares) {
    const double all = count + n, distance = block_mean - mean;
    mean += distance * (n / all);
    squares += block_squares + distance * distance * (count * n / all);
    count = all;
  }
  double inverse(double eps) const { return 1 / std::sqrt(squares / count + eps); }
};

constexpr int64_t kBlock = 4096;  // elements of a block: 16 KiB of f32

template <class T>
const T* at(const void* base, int64_t i) {
  return static_cast<const T*>(base) + i;
}
template <class T>
T* at(void* base, int64_t i) {
  return static_cast<T*>(base) + i;
}

}  // namespace
}  // namespace rlx::kernels
#endif  // RLX_KERNELS_GROUP_NORM_ONCE

HWY_BEFORE_NAMESPACE();
namespace rlx::kernels {
namespace HWY_NAMESPACE {
namespace {

template <class T>
HWY_INLINE F32Vec load_up_to(F32Tag d, const T* p, int64_t i, int64_t n) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  return i + lanes <= n ? load_f32(d, p + i) : load_f32_some(d, p + i, static_cast<size_t>(n - i));
}
template <class T>
HWY_INLINE void store_up_to(F32Tag d, F32Vec v, T* p, int64_t i, int64_t n) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  if (i + lanes <= n) store_f32(v, d, p + i);
  else store_f32_some(v, d, p + i, static_cast<size_t>(n - i));
}

/// The sum of f(i) over the vectors that start at i = 0, lanes, ...; `f` gives 0 in lanes beyond n.
template <class F>
HWY_INLINE float sum_of(int64_t n, F f) {
  const F32Tag d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  F32Vec s0 = hn::Zero(d), s1 = s0, s2 = s0, s3 = s0;
  int64_t i = 0;
  for (; i + 4 * lanes <= n; i += 4 * lanes) {
    s0 = hn::Add(s0, f(i)), s1 = hn::Add(s1, f(i + lanes));
    s2 = hn::Add(s2, f(i + 2 * lanes)), s3 = hn::Add(s3, f(i + 3 * lanes));
  }
  for (; i < n; i += lanes) s0 = hn::Add(s0, f(i));
  return hn::GetLane(hn::SumOfLanes(d, hn::Add(hn::Add(s0, s1), hn::Add(s2, s3))));
}

template <class T>
Moments moments_of(const T* x, int64_t n) {
  const F32Tag d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  Moments all;
  for (int64_t first = 0; first < n; first += kBlock) {
    const T* block = x + first;
    const int64_t count = std::min(kBlock, n - first);
    const float mean =
        sum_of(count, [&](int64_t i) HWY_ATTR { return load_up_to(d, block, i, count); }) / static_cast<float>(count);
    const F32Vec shift = hn::Set(d, mean);
    const float squares = sum_of(count, [&](int64_t i) HWY_ATTR {
      F32Vec v = hn::Sub(load_up_to(d, block, i, count), shift);
      if (i + lanes > count) v = hn::IfThenElseZero(hn::FirstN(d, static_cast<size_t>(count - i)), v);
      return hn::Mul(v, v);
    });
    all.merge(static_cast<double>(count), static_cast<double>(mean), static_cast<double>(squares));
  }
  return all;
}

template <class T>
float gamma_of(const GroupNormArgs& a, int64_t channel) {
  return a.gamma ? to_f32(*at<T>(a.gamma, channel)) : 1.0f;
}

template <class T>
void groups_typed(const GroupNormArgs& a, int64_t begin, int64_t end) {
  const F32Tag d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const int64_t in_group = a.channels / a.groups, size = in_group * a.space;
  for (int64_t group = begin; group < end; ++group) {
    const Moments moments = moments_of(at<T>(a.x, group * size), size);
    const F32Vec shift = hn::Set(d, static_cast<float>(moments.mean));
    const auto inverse = static_cast<float>(moments.inverse(a.eps));
    for (int64_t c = 0; c < in_group; ++c) {
      const int64_t channel = group % a.groups * in_group + c;
      const F32Vec scale = hn::Set(d, inverse * gamma_of<T>(a, channel));
      const F32Vec beta = hn::Set(d, a.beta ? to_f32(*at<T>(a.beta, channel)) : 0.0f);
      const T* x = at<T>(a.x, group * size + c * a.space);
      T* y = at<T>(a.y, group * size + c * a.space);
      for (int64_t i = 0; i < a.space; i += lanes)
        store_up_to(d, hn::MulAdd(hn::Sub(load_up_to(d, x, i, a.space), shift), scale, beta), y, i, a.space);
    }
  }
}

/// Normalizes up to four vectors of positions over their channels, which are `space` apart.
template <class T, int kVectors>
void positions_typed(const GroupNormArgs& a, const T* x, T* y, int64_t positions) {
  const F32Tag d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const F32Vec count = hn::Set(d, static_cast<float>(a.channels));
  F32Vec mean[kVectors], scale[kVectors];
  RLX_UNROLL for (int k = 0; k < kVectors; ++k) mean[k] = scale[k] = hn::Zero(d);
  // Sums over the channels are sums of partial sums (see partial_sums.h).
  F32Vec partial[kVectors];
  for (int64_t c = 0; c < a.channels;) {
    const int64_t stop = std::min(a.channels, c + kPartialSumTerms);
    RLX_UNROLL for (int k = 0; k < kVectors; ++k) partial[k] = hn::Zero(d);
    for (; c < stop; ++c)
      RLX_UNROLL for (int k = 0; k < kVectors; ++k) partial[k] =
          hn::Add(partial[k], load_up_to(d, x + c * a.space, k * lanes, positions));
    RLX_UNROLL for (int k = 0; k < kVectors; ++k) mean[k] = hn::Add(mean[k], partial[k]);
  }
  RLX_UNROLL for (int k = 0; k < kVectors; ++k) mean[k] = hn::Div(mean[k], count);
  for (int64_t c = 0; c < a.channels;) {
    const int64_t stop = std::min(a.channels, c + kPartialSumTerms);
    RLX_UNROLL for (int k = 0; k < kVectors; ++k) partial[k] = hn::Zero(d);
    for (; c < stop; ++c) RLX_UNROLL for (int k = 0; k < kVectors; ++k) {
        const F32Vec v = hn::Sub(load_up_to(d, x + c * a.space, k * lanes, positions), mean[k]);
        partial[k] = hn::MulAdd(v, v, partial[k]);
      }
    RLX_UNROLL for (int k = 0; k < kVectors; ++k) scale[k] = hn::Add(scale[k], partial[k]);
  }
  const F32Vec eps = hn::Set(d, static_cast<float>(a.eps));
  RLX_UNROLL for (int k = 0; k < kVectors; ++k) scale[k] =
      hn::Div(hn::Set(d, 1.0f), hn::Sqrt(hn::Add(hn::Div(scale[k], count), eps)));
  for (int64_t c = 0; c < a.channels; ++c) {
    const F32Vec gamma = hn::Set(d, gamma_of<T>(a, c));
    const F32Vec beta = hn::Set(d, a.beta ? to_f32(*at<T>(a.beta, c)) : 0.0f);
    RLX_UNROLL for (int k = 0; k < kVectors; ++k) {
      if (k * lanes >= positions) continue;
      const F32Vec v = hn::Sub(load_up_to(d, x + c * a.space, k * lanes, positions), mean[k]);
      store_up_to(d, hn::MulAdd(hn::Mul(v, scale[k]), gamma, beta), y + c * a.space, k * lanes, positions);
    }
  }
}
template <class T>
void channels_typed(const GroupNormArgs& a, int64_t begin, int64_t end) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(F32Tag()));
  for (int64_t position = begin; position < end;) {
    const int64_t n = position / a.space, first = position % a.space, from = n * a.channels * a.space + first;
    const int64_t positions = std::min({a.space - first, end - position, 4 * lanes});
    if (positions == 4 * lanes) positions_typed<T, 4>(a, at<T>(a.x, from), at<T>(a.y, from), positions);
    else
      for (int64_t k = 0; k < positions; k += lanes)
        positions_typed<T, 1>(a, at<T>(a.x, from + k), at<T>(a.y, from + k), std::min(lanes, positions - k));
    position += positions;
  }
}

void backward_f32(const GroupNormArgs& a, int64_t begin, int64_t end, double* const* sums) {
  const F32Tag d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const int64_t in_group = a.channels / a.groups, size = in_group * a.space;
  for (int64_t group = begin; group < end; ++group) {
    const Moments moments = moments_of(at<float>(a.x, group * size), size);
    const double inverse = size > 0 ? moments.inverse(a.eps) : 0;
    const F32Vec shift = hn::Set(d, static_cast<float>(moments.mean));
    double sum_g = 0, sum_gh = 0;
    for (int64_t c = 0; c < in_group; ++c) {
      const float* x = at<float>(a.x, group * size + c * a.space);
      const float* ct = at<float>(a.ct, group * size + c * a.space);
      double sum_ct = 0, sum_product = 0;
      for (int64_t first = 0; first < a.space; first += kBlock) {
        const int64_t count = std::min(kBlock, a.space - first);
        F32Vec c0 = hn::Zero(d), c1 = c0, p0 = c0, p1 = c0;
        const auto add = [&](F32Vec& s, F32Vec& p, int64_t i) HWY_ATTR {
          const F32Vec v = load_up_to(d, ct + first, i, count);  // 0 beyond the end
          s = hn::Add(s, v);
          p = hn::MulAdd(v, hn::Sub(load_up_to(d, x + first, i, count), shift), p);
        };
        int64_t i = 0;
        for (; i + 2 * lanes <= count; i += 2 * lanes) add(c0, p0, i), add(c1, p1, i + lanes);
        for (; i < count; i += lanes) add(c0, p0, i);
        sum_ct += static_cast<double>(hn::GetLane(hn::SumOfLanes(d, hn::Add(c0, c1))));
        sum_product += static_cast<double>(hn::GetLane(hn::SumOfLanes(d, hn::Add(p0, p1))));
      }
      const int64_t channel = group % a.groups * in_group + c;
      const double gamma = static_cast<double>(gamma_of<float>(a, channel));
      sum_product *= inverse;
      sum_g += gamma * sum_ct, sum_gh += gamma * sum_product;
      sums[0][group * in_group + c] = sum_product, sums[1][group * in_group + c] = sum_ct;
    }
    const double count = static_cast<double>(size);
    const F32Vec offset = hn::Set(d, static_cast<float>(-sum_g / count * inverse));
    const F32Vec slope = hn::Set(d, static_cast<float>(-sum_gh / count * inverse * inverse));
    for (int64_t c = 0; c < in_group; ++c) {
      const int64_t channel = group % a.groups * in_group + c;
      const F32Vec scale = hn::Set(d, static_cast<float>(static_cast<double>(gamma_of<float>(a, channel)) * inverse));
      const float* x = at<float>(a.x, group * size + c * a.space);
      const float* ct = at<float>(a.ct, group * size + c * a.space);
      float* y = at<float>(a.y, group * size + c * a.space);
      for (int64_t i = 0; i < a.space; i += lanes) {
        const F32Vec v = hn::Sub(load_up_to(d, x, i, a.space), shift);
        const F32Vec g = hn::MulAdd(load_up_to(d, ct, i, a.space), scale, offset);
        store_up_to(d, hn::MulAdd(v, slope, g), y, i, a.space);
      }
    }
  }
}

void groups(const GroupNormArgs& a, int64_t begin, int64_t end) {
  if (a.dtype == f16) groups_typed<F16>(a, begin, end);
  else if (a.dtype == bf16) groups_typed<BF16>(a, begin, end);
  else groups_typed<float>(a, begin, end);
}
void channels(const GroupNormArgs& a, int64_t begin, int64_t end) {
  if (a.dtype == f16) channels_typed<F16>(a, begin, end);
  else if (a.dtype == bf16) channels_typed<BF16>(a, begin, end);
  else channels_typed<float>(a, begin, end);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace rlx::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rlx::kernels {
namespace {

HWY_EXPORT(groups);
HWY_EXPORT(channels);
HWY_EXPORT(backward_f32);

/// The moments of `count` elements that are `stride` apart.
Moments moments_f64(const double* x, int64_t count, int64_t stride) {
  const auto n = static_cast<double>(count);
  double sum = 0, squares = 0;
  for (int64_t i = 0; i < count; ++i) sum += x[i * stride];
  for (int64_t i = 0; i < count; ++i) squares += (x[i * stride] - sum / n) * (x[i * stride] - sum / n);
  return {n, sum / n, squares};
}
double gamma_f64(const GroupNormArgs& a, int64_t channel) { return a.gamma ? *at<double>(a.gamma, channel) : 1; }
double beta_f64(const GroupNormArgs& a, int64_t channel) { return a.beta ? *at<double>(a.beta, channel) : 0; }

void groups_f64(const GroupNormArgs& a, int64_t begin, int64_t end) {
  const int64_t in_group = a.channels / a.groups, size = in_group * a.space;
  for (int64_t group = begin; group < end; ++group) {
    const double* x = at<double>(a.x, group * size);
    const Moments moments = moments_f64(x, size, 1);
    const double inverse = moments.inverse(a.eps);
    for (int64_t i = 0; i < size; ++i) {
      const int64_t channel = group % a.groups * in_group + i / a.space;
      at<double>(a.y, group * size)[i] = (x[i] - moments.mean) * inverse * gamma_f64(a, channel) + beta_f64(a, channel);
    }
  }
}
void channels_f64(const GroupNormArgs& a, int64_t begin, int64_t end) {
  for (int64_t position = begin; position < end; ++position) {
    const int64_t from = position / a.space * a.channels * a.space + position % a.space;
    const double* x = at<double>(a.x, from);
    const Moments moments = moments_f64(x, a.channels, a.space);
    const double inverse = moments.inverse(a.eps);
    for (int64_t c = 0; c < a.channels; ++c)
      at<double>(a.y, from)[c * a.space] = (x[c * a.space] - moments.mean) * inverse * gamma_f64(a, c) + beta_f64(a, c);
  }
}

void backward_f64(const GroupNormArgs& a, int64_t begin, int64_t end, double* const* sums) {
  const int64_t in_group = a.channels / a.groups, size = in_group * a.space;
  for (int64_t group = begin; group < end; ++group) {
    const double *x = at<double>(a.x, group * size), *ct = at<double>(a.ct, group * size);
    const Moments moments = moments_f64(x, size, 1);
    const double inverse = moments.inverse(a.eps);
    double sum_g = 0, sum_gh = 0;
    for (int64_t c = 0; c < in_group; ++c) {
      double sum_ct = 0, sum_product = 0;
      for (int64_t i = c * a.space; i < (c + 1) * a.space; ++i)
        sum_ct += ct[i], sum_product += ct[i] * (x[i] - moments.mean) * inverse;
      const double gamma = gamma_f64(a, group % a.groups * in_group + c);
      sum_g += gamma * sum_ct, sum_gh += gamma * sum_product;
      sums[0][group * in_group + c] = sum_product, sums[1][group * in_group + c] = sum_ct;
    }
    const double mean_g = sum_g / moments.count, mean_gh = sum_gh / moments.count;
    for (int64_t i = 0; i < size; ++i) {
      const double g = ct[i] * gamma_f64(a, group % a.groups * in_group + i / a.space);
      at<double>(a.y, group * size)[i] = (g - mean_g - (x[i] - moments.mean) * inverse * mean_gh) * inverse;
    }
  }
}

}  // namespace

void group_norm(const GroupNormArgs& args, int64_t begin, int64_t end) noexcept {
  if (args.dtype == f64) groups_f64(args, begin, end);
  else HWY_DYNAMIC_DISPATCH(groups)(args, begin, end);
}
void channel_norm(const GroupNormArgs& args, int64_t begin, int64_t end) noexcept {
  if (args.dtype == f64) channels_f64(args, begin, end);
  else HWY_DYNAMIC_DISPATCH(channels)(args, begin, end);
}
void group_norm_backward(const GroupNormArgs& args, int64_t begin, int64_t end, double* const sums[2]) noexcept {
  if (args.dtype == f64) backward_f64(args, begin, end, sums);
  else HWY_DYNAMIC_DISPATCH(backward_f32)(args, begin, end, sums);
}
void add_group_sums(DType dtype, const double* sums, int64_t n, int64_t channels, void* result) noexcept {
  for (int64_t c = 0; c < channels; ++c) {
    double sum = 0;
    for (int64_t i = 0; i < n; ++i) sum += sums[i * channels + c];
    if (dtype == f64) *at<double>(result, c) = sum;
    else *at<float>(result, c) = static_cast<float>(sum);
  }
}

}  // namespace rlx::kernels
#endif  // HWY_ONCE

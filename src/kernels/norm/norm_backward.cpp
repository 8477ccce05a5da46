// See the header. With h = (x - mean) / root and g = ct gamma: d_x = (g - mean(g) - h mean(g h)) / root, root being
// sqrt(variance + eps).
//
// The cotangents of gamma and beta are summed over blocks of rows, and the blocks' sums are then added: one long
// running sum in f32 would lose digits with the number of rows.
#include "kernels/norm/norm_backward.h"

#include <algorithm>
#include <cmath>

#include "kernels/partial_sums.h"
#include "kernels/vector/highway_targets.h"
#include "kernels/vector/narrow_float.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/norm/norm_backward.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "kernels/vector/narrow_float-inl.h"

#ifndef RLX_KERNELS_NORM_BACKWARD_ONCE
#define RLX_KERNELS_NORM_BACKWARD_ONCE
namespace rlx::kernels {
namespace {

constexpr int64_t kBlockRows = 64;

/// A thread's scratch: the sums for gamma and beta, of the current block and of all blocks before.
template <class T>
struct Sums {
  T *block_gamma, *block_beta, *gamma, *beta;
  Sums(void* scratch, int64_t cols)
      : block_gamma(static_cast<T*>(scratch)), block_beta(block_gamma + cols), gamma(block_beta + cols),
        beta(gamma + cols) {}
};

}  // namespace
}  // namespace rlx::kernels
#endif  // RLX_KERNELS_NORM_BACKWARD_ONCE

HWY_BEFORE_NAMESPACE();
namespace rlx::kernels {
namespace HWY_NAMESPACE {
namespace {

HWY_INLINE F32Vec load_up_to(F32Tag d, const float* p, size_t i, size_t n) {
  return i + hn::Lanes(d) <= n ? hn::LoadU(d, p + i) : load_f32_some(d, p + i, n - i);
}
HWY_INLINE void store_up_to(F32Tag d, F32Vec v, float* p, size_t i, size_t n) {
  if (i + hn::Lanes(d) <= n) hn::StoreU(v, d, p + i);
  else store_f32_some(v, d, p + i, n - i);
}

/// Calls body(begin, stop) for the blocks of a row of n elements. A block is so long that a sum over it, divided over
/// the lanes of an accumulator, has at most kPartialSumTerms terms in each lane. All blocks but the last are whole
/// vectors.
template <class F>
HWY_INLINE void for_blocks(size_t n, F body) {
  const size_t block = static_cast<size_t>(kPartialSumTerms) * hn::Lanes(F32Tag());
  for (size_t begin = 0; begin < n; begin += block) body(begin, std::min(n, begin + block));
}

/// The row's mean (0 for the RMS norm), and 1 / sqrt(mean squared distance to it + eps).
HWY_INLINE void statistics(F32Tag d, const NormBackwardArgs& a, const float* x, float& mean, float& inverse_root) {
  const auto n = static_cast<size_t>(a.cols);
  const size_t lanes = hn::Lanes(d);
  mean = 0;
  if (a.centred) {
    double total = 0;
    for_blocks(n, [&](size_t i, size_t stop) HWY_ATTR {
      F32Vec s0 = hn::Zero(d), s1 = s0;
      for (; i + 2 * lanes <= stop; i += 2 * lanes) {
        s0 = hn::Add(s0, hn::LoadU(d, x + i));
        s1 = hn::Add(s1, hn::LoadU(d, x + i + lanes));
      }
      for (; i < stop; i += lanes) s0 = hn::Add(s0, load_up_to(d, x, i, n));
      total += static_cast<double>(hn::GetLane(hn::SumOfLanes(d, hn::Add(s0, s1))));
    });
    mean = static_cast<float>(total) / static_cast<float>(n);
  }
  const F32Vec shift = hn::Set(d, mean);
  double squares = 0;
  for_blocks(n, [&](size_t i, size_t stop) HWY_ATTR {
    F32Vec s0 = hn::Zero(d), s1 = s0;
    for (; i + 2 * lanes <= stop; i += 2 * lanes) {
      const F32Vec v0 = hn::Sub(hn::LoadU(d, x + i), shift), v1 = hn::Sub(hn::LoadU(d, x + i + lanes), shift);
      s0 = hn::MulAdd(v0, v0, s0), s1 = hn::MulAdd(v1, v1, s1);
    }
    for (; i + lanes <= stop; i += lanes) {
      const F32Vec v = hn::Sub(hn::LoadU(d, x + i), shift);
      s0 = hn::MulAdd(v, v, s0);
    }
    if (i < stop) {  // lanes beyond the row hold 0, not the mean
      const F32Vec v = hn::IfThenElseZero(hn::FirstN(d, n - i), hn::Sub(load_f32_some(d, x + i, n - i), shift));
      s1 = hn::MulAdd(v, v, s1);
    }
    squares += static_cast<double>(hn::GetLane(hn::SumOfLanes(d, hn::Add(s0, s1))));
  });
  inverse_root = static_cast<float>(1.0 / std::sqrt(squares / static_cast<double>(n) + a.eps));
}

void rows_f32(const NormBackwardArgs& a, int64_t begin, int64_t end, float* scratch) {
  const F32Tag d;
  const auto n = static_cast<size_t>(a.cols);
  const size_t lanes = hn::Lanes(d);
  const Sums<float> sums(scratch, a.cols);
  const auto* gamma = static_cast<const float*>(a.gamma);
  const F32Vec one = hn::Set(d, 1.0f);
  for (int64_t first = begin; first < end; first += kBlockRows) {
    std::fill(sums.block_gamma, sums.block_gamma + 2 * n, 0.0f);
    for (int64_t row = first; row < std::min(end, first + kBlockRows); ++row) {
      const float* x = static_cast<const float*>(a.x) + row * a.cols;
      const float* ct = static_cast<const float*>(a.ct) + row * a.cols;
      float* d_x = static_cast<float*>(a.d_x) + row * a.cols;
      float mean = 0, inverse_root = 0;
      statistics(d, a, x, mean, inverse_root);
      const F32Vec shift = hn::Set(d, mean), scale = hn::Set(d, inverse_root);
      double all_g = 0, all_gh = 0;
      for_blocks(n, [&](size_t i, size_t stop) HWY_ATTR {
        F32Vec sum_g = hn::Zero(d), sum_gh = sum_g;
        for (; i < stop; i += lanes) {
          const F32Vec c = load_up_to(d, ct, i, n), h = hn::Mul(hn::Sub(load_up_to(d, x, i, n), shift), scale);
          const F32Vec g = gamma ? hn::Mul(c, load_up_to(d, gamma, i, n)) : c;  // 0 beyond the row, as c is
          sum_g = hn::Add(sum_g, g), sum_gh = hn::MulAdd(g, h, sum_gh);
          store_up_to(d, hn::MulAdd(c, h, load_up_to(d, sums.block_gamma, i, n)), sums.block_gamma, i, n);
          store_up_to(d, hn::Add(c, load_up_to(d, sums.block_beta, i, n)), sums.block_beta, i, n);
        }
        all_g += static_cast<double>(hn::GetLane(hn::SumOfLanes(d, sum_g)));
        all_gh += static_cast<double>(hn::GetLane(hn::SumOfLanes(d, sum_gh)));
      });
      const float count = static_cast<float>(n);
      const F32Vec mean_g = hn::Set(d, a.centred ? static_cast<float>(all_g) / count : 0.0f);
      const F32Vec mean_gh = hn::Set(d, static_cast<float>(all_gh) / count);
      for (size_t i = 0; i < n; i += lanes) {
        const F32Vec h = hn::Mul(hn::Sub(load_up_to(d, x, i, n), shift), scale);
        const F32Vec g = hn::Mul(load_up_to(d, ct, i, n), gamma ? load_up_to(d, gamma, i, n) : one);
        store_up_to(d, hn::Mul(hn::NegMulAdd(h, mean_gh, hn::Sub(g, mean_g)), scale), d_x, i, n);
      }
    }
    for (size_t i = 0; i < n; i += lanes) {
      store_up_to(d, hn::Add(load_up_to(d, sums.gamma, i, n), load_up_to(d, sums.block_gamma, i, n)), sums.gamma, i, n);
      store_up_to(d, hn::Add(load_up_to(d, sums.beta, i, n), load_up_to(d, sums.block_beta, i, n)), sums.beta, i, n);
    }
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace rlx::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rlx::kernels {
namespace {

HWY_EXPORT(rows_f32);

void rows_f64(const NormBackwardArgs& a, int64_t begin, int64_t end, double* scratch) {
  const Sums<double> sums(scratch, a.cols);
  const auto* gamma = static_cast<const double*>(a.gamma);
  const auto count = static_cast<double>(a.cols);
  for (int64_t row = begin; row < end; ++row) {
    const double* x = static_cast<const double*>(a.x) + row * a.cols;
    const double* ct = static_cast<const double*>(a.ct) + row * a.cols;
    double* d_x = static_cast<double*>(a.d_x) + row * a.cols;
    double mean = 0, squares = 0, sum_g = 0, sum_gh = 0;
    if (a.centred)
      for (int64_t i = 0; i < a.cols; ++i) mean += x[i];
    mean /= count;
    for (int64_t i = 0; i < a.cols; ++i) squares += (x[i] - mean) * (x[i] - mean);
    const double inverse_root = 1 / std::sqrt(squares / count + a.eps);
    for (int64_t i = 0; i < a.cols; ++i) {
      const double h = (x[i] - mean) * inverse_root, g = ct[i] * (gamma ? gamma[i] : 1);
      sum_g += g, sum_gh += g * h;
      sums.gamma[i] += ct[i] * h, sums.beta[i] += ct[i];
    }
    const double mean_g = a.centred ? sum_g / count : 0, mean_gh = sum_gh / count;
    for (int64_t i = 0; i < a.cols; ++i) {
      const double h = (x[i] - mean) * inverse_root, g = ct[i] * (gamma ? gamma[i] : 1);
      d_x[i] = (g - mean_g - h * mean_gh) * inverse_root;
    }
  }
}

template <class T>
void add_sums(int64_t cols, const void* scratch, size_t stride_bytes, int threads, void* d_gamma, void* d_beta) {
  for (int64_t i = 0; i < cols; ++i) {
    T gamma{}, beta{};
    for (int thread = 0; thread < threads; ++thread) {
      const auto* own = static_cast<const std::byte*>(scratch) + stride_bytes * static_cast<size_t>(thread);
      gamma += reinterpret_cast<const T*>(own)[2 * cols + i];
      beta += reinterpret_cast<const T*>(own)[3 * cols + i];
    }
    if (d_gamma) static_cast<T*>(d_gamma)[i] = gamma;
    if (d_beta) static_cast<T*>(d_beta)[i] = beta;
  }
}

}  // namespace

size_t norm_backward_scratch_bytes(const NormBackwardArgs& args) {
  return 4 * static_cast<size_t>(args.cols) * byte_size(args.dtype);
}
void clear_norm_backward_sums(const NormBackwardArgs& args, void* scratch) noexcept {
  const size_t half = norm_backward_scratch_bytes(args) / 2;
  std::fill_n(static_cast<std::byte*>(scratch) + half, half, std::byte{});
}
void norm_backward_rows(const NormBackwardArgs& args, int64_t row_begin, int64_t row_end, void* scratch) noexcept {
  if (args.dtype == f64) rows_f64(args, row_begin, row_end, static_cast<double*>(scratch));
  else HWY_DYNAMIC_DISPATCH(rows_f32)(args, row_begin, row_end, static_cast<float*>(scratch));
}
void add_norm_backward_sums(const NormBackwardArgs& args, const void* scratch, size_t stride_bytes, int threads,
                            void* d_gamma, void* d_beta) noexcept {
  (args.dtype == f64 ? add_sums<double> : add_sums<float>)(args.cols, scratch, stride_bytes, threads, d_gamma, d_beta);
}

}  // namespace rlx::kernels
#endif  // HWY_ONCE

// Fourier transforms: one pass over the vectors along each axis. Plans are made here, when the extents are known.
#include <cmath>

#include "backends/cpu/lowerings.h"
#include "base/rounded_up.h"
#include "kernels/signal/fft.h"
#include "rlx/ops.h"

namespace rlx::cpu {
namespace {

template <class T>
struct Pass {
  std::shared_ptr<const kernels::FftPlan<T>> plan;
  kernels::FftVectors vectors;
};

/// A pass along one axis, over vectors of n elements.
template <class T>
Pass<T> pass_along(const Shape& shape, int64_t axis, int64_t n) {
  Pass<T> pass{std::make_shared<const kernels::FftPlan<T>>(n), {}};
  for (size_t d = 0; d < shape.size(); ++d)
    if (int64_t(d) != axis) (int64_t(d) < axis ? pass.vectors.outer : pass.vectors.inner) *= shape[d];
  return pass;
}

template <class T>
Prepared fft_step(const LoweringContext& c) {
  const auto& a = c.attrs<FftAttrs>();
  const View &in = c.operands[0], &out = c.results[0];
  Axes axes = valid_axes(a.axes, in.shape.size());
  bool inverse = a.kind == FftKind::ifft || a.kind == FftKind::irfft;
  // The pass along the last axis, which is the real one, is the first of rfft and the last of irfft.
  if (a.kind == FftKind::rfft) std::reverse(axes.begin(), axes.end());
  std::vector<Pass<T>> passes;
  size_t scratch = 0;
  for (size_t i = 0; i < axes.size(); ++i) {
    bool is_real_axis = a.kind == FftKind::rfft ? i == 0 : a.kind == FftKind::irfft && i + 1 == axes.size();
    const Shape& shape = a.kind == FftKind::rfft ? out.shape : in.shape;
    int64_t n = (a.kind == FftKind::rfft ? in : out).shape[size_t(axes[i])];
    Pass<T> pass = pass_along<T>(shape, axes[i], n);
    pass.vectors.inverse = inverse;
    auto count = static_cast<double>(n);
    if (a.norm == FftNorm::ortho) pass.vectors.scale = 1 / std::sqrt(count);
    else if (inverse == (a.norm == FftNorm::backward)) pass.vectors.scale = 1 / count;
    if (is_real_axis && !inverse) pass.vectors.in = kernels::FftEnd::real, pass.vectors.out = kernels::FftEnd::half;
    if (is_real_axis && inverse) pass.vectors.in = kernels::FftEnd::half, pass.vectors.out = kernels::FftEnd::real;
    scratch = std::max(scratch, aligned(kernels::fft_scratch_bytes(*pass.plan, pass.vectors)));
    passes.push_back(std::move(pass));
  }
  // The passes of irfft before its last one work in scratch, because the operand must not change.
  size_t copy = a.kind == FftKind::irfft && passes.size() > 1 ? aligned(size_t(in.count()) * in.element_bytes()) : 0;
  bool empty = out.count() == 0;
  return make_step("fft", copy + scratch * size_t(c.threads), [=](const StepArgs& args) {
    if (empty) return;
    const T* from = args.in<T>(0);
    for (size_t i = 0; i < passes.size(); ++i) {
      const Pass<T>& pass = passes[i];
      T* to = copy && i + 1 < passes.size() ? reinterpret_cast<T*>(args.scratch) : args.out<T>();
      auto n = static_cast<double>(pass.plan->length());
      double vectors = static_cast<double>(pass.vectors.outer * pass.vectors.inner);
      for_ranges(args, kernels::fft_tasks(*pass.plan, pass.vectors), 1, vectors * n * std::log2(n + 1) * 0.4,
                 [&](int64_t begin, int64_t end, int64_t task) {
                   kernels::fft(*pass.plan, pass.vectors, from, to, begin, end,
                                reinterpret_cast<T*>(args.scratch + copy + scratch * size_t(task)));
                 });
      from = to;
    }
  });
}

}  // namespace

Prepared lower_fft(const LoweringContext& c) {
  DType t = c.operands[0].dtype;
  return t == f32 || t == c64 ? fft_step<float>(c) : fft_step<double>(c);
}

}  // namespace rlx::cpu

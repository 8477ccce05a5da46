// See the header. Rows of the input are copied once, with their padding, into a ring buffer as high as the kernel, so
// the inner loop need not test for edges.
#include "kernels/conv/few_channels.h"

#include <algorithm>

#include "kernels/partial_sums.h"
#include "kernels/vector/highway_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/conv/few_channels.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "kernels/vector/narrow_float-inl.h"

#ifndef RLX_KERNELS_FEW_CHANNELS_ONCE
#define RLX_KERNELS_FEW_CHANNELS_ONCE
namespace rlx::kernels {
namespace {

/// The layout of a row in the ring buffer: its channels are contiguous if they are in x, else its columns are.
struct RowLayout {
  int64_t cols, rows;                        ///< padded columns; rows of the ring
  int64_t col = 1, channel = 1, floats = 0;  ///< strides; floats of a row

  explicit RowLayout(const ConvolutionArgs& a)
      : cols((a.out_dims[1] - 1) * a.stride[1] + (a.kernel[1] - 1) * a.rhs_dilation[1] + 1),
        rows((a.kernel[0] - 1) * a.rhs_dilation[0] + 1), floats(cols * a.in_channels) {
    if (a.x_channel_stride == 1) col = a.in_channels;
    else channel = cols;
  }
};

/// A ring buffer of the padded input rows that the current row of outputs reads.
class Ring {
 public:
  Ring(const ConvolutionArgs& a, float* memory) : a_(a), layout_(a), memory_(memory) {
    std::fill_n(memory, layout_.rows * layout_.floats, 0.0F);
  }
  const RowLayout& layout() const { return layout_; }
  const float* row(int64_t r) const { return memory_ + r % layout_.rows * layout_.floats; }
  /// Copies those of the rows [begin, end) of an image that are not in the ring yet. `x` is where the image begins. The
  /// rows must exist, and must not be more than the ring holds.
  void read(const float* x, int64_t image, int64_t begin, int64_t end) {
    if (image != image_) image_ = image, end_ = 0;
    for (int64_t r = std::max(begin, end_); r < end; ++r) copy(x + r * a_.x_strides[0], r);
    end_ = std::max(end, end_);
  }

 private:
  /// Leaves the padding alone: the constructor has set it to 0.
  void copy(const float* x, int64_t r) {
    float* const to = memory_ + r % layout_.rows * layout_.floats;
    const int64_t begin = std::min(a_.low[1], layout_.cols), count = std::min(a_.in_dims[1], layout_.cols - begin);
    if (a_.x_channel_stride == 1 && a_.x_strides[1] == a_.in_channels) {
      std::copy_n(x, count * a_.in_channels, to + begin * a_.in_channels);
      return;
    }
    for (int64_t c = 0; c < a_.in_channels; ++c) {
      const float* from = x + c * a_.x_channel_stride;
      float* const channel_row = to + begin * layout_.col + c * layout_.channel;
      if (a_.x_strides[1] == 1 && layout_.col == 1) std::copy_n(from, count, channel_row);
      else
        for (int64_t i = 0; i < count; ++i) channel_row[i * layout_.col] = from[i * a_.x_strides[1]];
    }
  }

  const ConvolutionArgs& a_;
  RowLayout layout_;
  float* memory_;
  int64_t image_ = -1, end_ = 0;
};

}  // namespace
}  // namespace rlx::kernels
#endif  // RLX_KERNELS_FEW_CHANNELS_ONCE

HWY_BEFORE_NAMESPACE();
namespace rlx::kernels {
namespace HWY_NAMESPACE {
namespace {

/// One row of the kernel: the input row that it reads, and its weights.
struct TapRow {
  const float* x;        ///< the inputs that it reads for the first output
  const float* weights;  ///< [cols][in channels][out channels]
};
struct Geometry {
  const int64_t* seen;  ///< offset in the input of each tap and channel of a kernel row; null if they are contiguous
  int64_t seen_count;
  int64_t step;  ///< input elements from one output to the next
  int64_t out_channels, y_step;
  const TapRow* rows;
  int64_t row_count;
};

/// Computes kCount neighbouring outputs, from output `at` on, of kVectors vectors of channels, and applies `epilogue`.
/// With kSome the last vector has only `some` channels. With kDense the inputs that a row of the kernel reads are
/// contiguous. Without kLong a sum has at most kPartialSumTerms terms.
template <int kCount, int kVectors, bool kSome, bool kDense, bool kLong>
HWY_INLINE void sum_outputs(const Geometry& g, const ClampedEpilogue& epilogue, int64_t at, int64_t channel, float* y,
                            size_t some) {
  const F32Tag d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto load = [&](const float* from, int v) HWY_ATTR {
    return kSome && v + 1 == kVectors ? load_f32_some(d, from + v * lanes, some) : hn::LoadU(d, from + v * lanes);
  };
  F32Vec sum[kCount * kVectors];
  RLX_UNROLL for (int i = 0; i < kCount * kVectors; ++i) sum[i] = hn::Zero(d);
  // The sums of the partial sums before the present one.
  [[maybe_unused]] HWY_ALIGN float before[kLong ? kCount * kVectors * hn::MaxLanes(F32Tag()) : 1];
  [[maybe_unused]] bool has_before = false;
  [[maybe_unused]] int64_t terms = 0;  // added to the present partial sum
  for (int64_t r = 0; r < g.row_count; ++r) {
    const float* w = g.rows[r].weights + channel;
    const float* const row = g.rows[r].x + at * g.step;
    for (int64_t s = 0; s < g.seen_count; ++s, w += g.out_channels) {
      if constexpr (kLong) {
        if (terms == kPartialSumTerms) {
          RLX_UNROLL for (int i = 0; i < kCount * kVectors; ++i) {
            hn::Store(has_before ? hn::Add(hn::Load(d, before + i * lanes), sum[i]) : sum[i], d, before + i * lanes);
            sum[i] = hn::Zero(d);
          }
          has_before = true, terms = 0;
        }
        ++terms;
      }
      const float* x = row + (kDense ? s : g.seen[s]);
      F32Vec weight[kVectors];
      RLX_UNROLL for (int v = 0; v < kVectors; ++v) weight[v] = load(w, v);
      RLX_UNROLL for (int i = 0; i < kCount; ++i) {
        const F32Vec seen = hn::Set(d, x[i * g.step]);
        RLX_UNROLL for (int v = 0; v < kVectors; ++v) {
          F32Vec& total = sum[i * kVectors + v];
          total = hn::MulAdd(weight[v], seen, total);
        }
      }
    }
  }
  if constexpr (kLong) {
    if (has_before) {
      RLX_UNROLL for (int i = 0; i < kCount * kVectors; ++i) sum[i] = hn::Add(hn::Load(d, before + i * lanes), sum[i]);
    }
  }
  const auto low = hn::Set(d, epilogue.low), high = hn::Set(d, epilogue.high);
  F32Vec bias[kVectors];
  RLX_UNROLL for (int v = 0; v < kVectors; ++v) bias[v] =
      epilogue.bias ? load(epilogue.bias + channel, v) : hn::Zero(d);
  RLX_UNROLL for (int i = 0; i < kCount; ++i) {
    const int64_t to = (at + i) * g.y_step + channel;
    RLX_UNROLL for (int v = 0; v < kVectors; ++v) {
      F32Vec out = hn::Add(sum[i * kVectors + v], bias[v]);
      if (epilogue.residual) out = hn::Add(out, load(epilogue.residual + to, v));
      out = hn::Min(high, hn::Max(low, out));  // NaN passes
      if (kSome && v + 1 == kVectors) store_f32_some(out, d, y + to + v * lanes, some);
      else hn::StoreU(out, d, y + to + v * lanes);
    }
  }
}

template <int kVectors, bool kSome, bool kDense, bool kLong>
HWY_INLINE void sum_row(const Geometry& g, const ClampedEpilogue& epilogue, int64_t cols, int64_t channel, float* y,
                        size_t some) {
  constexpr int kCount = (kVectorRegisters == 32 ? 24 : 12) / kVectors;
  int64_t at = 0;
  for (; at + kCount <= cols; at += kCount)
    sum_outputs<kCount, kVectors, kSome, kDense, kLong>(g, epilogue, at, channel, y, some);
  for (; at + 4 <= cols; at += 4) sum_outputs<4, kVectors, kSome, kDense, kLong>(g, epilogue, at, channel, y, some);
  for (; at < cols; ++at) sum_outputs<1, kVectors, kSome, kDense, kLong>(g, epilogue, at, channel, y, some);
}
template <bool kDense, bool kLong>
HWY_INLINE void sum_terms(const Geometry& g, const ClampedEpilogue& epilogue, int64_t cols, float* y) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(F32Tag()));
  int64_t c = 0;
  for (; c + 2 * lanes <= g.out_channels; c += 2 * lanes) sum_row<2, false, kDense, kLong>(g, epilogue, cols, c, y, 0);
  const int64_t left = g.out_channels - c;
  if (left > lanes) sum_row<2, true, kDense, kLong>(g, epilogue, cols, c, y, static_cast<size_t>(left - lanes));
  else if (left == lanes) sum_row<1, false, kDense, kLong>(g, epilogue, cols, c, y, 0);
  else if (left > 0) sum_row<1, true, kDense, kLong>(g, epilogue, cols, c, y, static_cast<size_t>(left));
}
template <bool kDense>
HWY_NOINLINE void sum_many_terms(Geometry g, ClampedEpilogue epilogue, int64_t cols, float* y) {
  sum_terms<kDense, true>(g, epilogue, cols, y);
}
/// Computes the outputs [0, cols), all channels.
template <bool kDense>
HWY_INLINE void sum_channels(const Geometry& g, const ClampedEpilogue& epilogue, int64_t cols, float* y) {
  if (HWY_UNLIKELY(g.row_count * g.seen_count > kPartialSumTerms)) sum_many_terms<kDense>(g, epilogue, cols, y);
  else sum_terms<kDense, false>(g, epilogue, cols, y);
}

void skinny(const SkinnyProduct& p) {
  const TapRow row{p.x, p.weights};
  Geometry g{};
  g.seen_count = g.step = p.k, g.out_channels = g.y_step = p.n, g.rows = &row, g.row_count = 1;
  const ClampedEpilogue clamped = clamped_epilogue(p.epilogue);
  sum_channels<true>(g, clamped, p.rows, p.y);
  if (clamped.is_all) return;
  apply_epilogue_rows({p.y, p.epilogue.residual, p.epilogue.bias, false, p.epilogue.activation, p.rows, p.n, p.n, p.n});
}

void rows_of(const ConvolutionArgs& a, const float* packed, const ConvolutionEpilogue& epilogue, int64_t begin,
             int64_t end, void* scratch) {
  auto* const tap_rows = static_cast<TapRow*>(scratch);
  auto* const seen = reinterpret_cast<int64_t*>(tap_rows + a.kernel[0]);
  Ring ring(a, reinterpret_cast<float*>(seen + a.kernel[1] * a.in_channels));
  const RowLayout& layout = ring.layout();
  for (int64_t t = 0; t < a.kernel[1]; ++t)
    for (int64_t c = 0; c < a.in_channels; ++c)
      seen[t * a.in_channels + c] = t * a.rhs_dilation[1] * layout.col + c * layout.channel;
  const ClampedEpilogue clamped = clamped_epilogue(epilogue);
  Geometry g{};
  g.seen = seen, g.seen_count = a.kernel[1] * a.in_channels, g.step = a.stride[1] * layout.col, g.rows = tap_rows;
  g.out_channels = a.out_channels, g.y_step = a.y_strides[1];
  for (int64_t at = begin; at < end; ++at) {
    const int64_t image = at / a.out_dims[0], row = at % a.out_dims[0], first = row * a.stride[0] - a.low[0];
    ring.read(static_cast<const float*>(a.x) + image * a.x_batch_stride, image, std::max<int64_t>(0, first),
              std::min(a.in_dims[0], first + layout.rows));
    g.row_count = 0;
    for (int64_t t = 0; t < a.kernel[0]; ++t)
      if (const int64_t r = first + t * a.rhs_dilation[0]; r >= 0 && r < a.in_dims[0])
        tap_rows[g.row_count++] = {ring.row(r), packed + t * a.kernel[1] * a.in_channels * a.out_channels};
    const int64_t to = image * a.y_batch_stride + row * a.y_strides[0], cols = a.out_dims[1];
    float* const y = static_cast<float*>(a.y) + to;
    ClampedEpilogue own = clamped;
    if (own.residual) own.residual += to;
    sum_channels<false>(g, own, cols, y);
    if (clamped.is_all) continue;
    apply_epilogue_rows({y, epilogue.residual ? epilogue.residual + to : nullptr, epilogue.bias, false,
                         epilogue.activation, cols, a.out_channels, g.y_step, g.y_step});
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace rlx::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rlx::kernels {
namespace {
HWY_EXPORT(rows_of);
HWY_EXPORT(skinny);
}  // namespace

bool has_few_channels(const ConvolutionArgs& a) {
  constexpr int64_t kMax = 4, kMaxRows = 64, kMaxFloats = 1 << 18;
  if (a.dtype != f32 || a.out_dtype != f32 || a.spatial != 2 || a.groups != 1 || a.in_channels < 1 ||
      a.in_channels > kMax || a.out_channels < 8 || a.y_channel_stride != 1)
    return false;
  for (int d = 0; d < 2; ++d)
    if (a.lhs_dilation[d] != 1 || a.stride[d] < 1 || a.stride[d] > kMaxRows || a.kernel[d] < 1 ||
        a.kernel[d] > kMaxRows || a.rhs_dilation[d] > kMaxRows || a.low[d] < 0 ||
        a.low[d] > a.kernel[d] * a.rhs_dilation[d] || a.in_dims[d] < 1 || a.out_dims[d] < 1 ||
        a.out_dims[d] > kMaxFloats)
      return false;
  const RowLayout layout(a);
  return layout.rows <= kMaxRows && layout.rows * layout.floats <= kMaxFloats;
}

int64_t few_channels_weights_count(const ConvolutionArgs& a) {
  return a.kernel[0] * a.kernel[1] * a.in_channels * a.out_channels;
}
void pack_few_channels_weights(const ConvolutionArgs& a, float* packed) noexcept {
  for (int64_t t = 0; t < a.kernel[0]; ++t)
    for (int64_t u = 0; u < a.kernel[1]; ++u)
      for (int64_t c = 0; c < a.in_channels; ++c) {
        const float* w = static_cast<const float*>(a.w) + t * a.w_strides[0] + u * a.w_strides[1] + c * a.w_in_stride;
        for (int64_t o = 0; o < a.out_channels; ++o) *packed++ = w[o * a.w_out_stride];
      }
}

size_t few_channels_scratch_bytes(const ConvolutionArgs& a) {
  const RowLayout layout(a);
  return static_cast<size_t>(a.kernel[0]) * 2 * sizeof(void*) +
         static_cast<size_t>(a.kernel[1] * a.in_channels) * sizeof(int64_t) +
         static_cast<size_t>(layout.rows * layout.floats) * sizeof(float);
}

void few_channels(const ConvolutionArgs& args, const float* packed, const ConvolutionEpilogue& epilogue, int64_t begin,
                  int64_t end, void* scratch) noexcept {
  HWY_DYNAMIC_DISPATCH(rows_of)(args, packed, epilogue, begin, end, scratch);
}

void skinny_product(const SkinnyProduct& product) noexcept { HWY_DYNAMIC_DISPATCH(skinny)(product); }

}  // namespace rlx::kernels
#endif  // HWY_ONCE

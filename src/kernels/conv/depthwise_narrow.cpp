// See the header. A vector of 32-bit lanes holds pairs of channels: shifted left, it is the even ones as f32, and
// without its lower halves the odd ones. So sums, weights and bias are those of even and of odd channels, and results
// are joined when they are rounded.
#include "kernels/conv/depthwise_narrow.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <type_traits>

#include "base/rounded_up.h"
#include "kernels/partial_sums.h"
#include "kernels/vector/highway_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/conv/depthwise_narrow.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "kernels/vector/activation-inl.h"
#include "kernels/vector/bf16_pairs-inl.h"

#ifndef RLX_KERNELS_CONV_DEPTHWISE_NARROW_ONCE
#define RLX_KERNELS_CONV_DEPTHWISE_NARROW_ONCE
namespace rlx::kernels {
namespace {

/// Weights are taps of an even and an odd half, as many floats of each.
constexpr int64_t half_of(int64_t channels) { return rounded_up(divided_up(channels, 2), 16); }

/// A row of outputs, and the rows of the input that its taps read.
struct NarrowRow {
  const uint16_t* x;     ///< the first of these rows
  const float* weights;  ///< of its taps
  int64_t rows, x_row, x_col, half, channels;
  int64_t kernel, stride, dilation, low, in, out;  ///< along the row
  const float* bias;
  float low_bound, high_bound;  ///< results are clamped
  uint16_t* y;
  int64_t y_col;
  bool rounds;  ///< the processor has an instruction that rounds to bf16, of AVX-512
};

}  // namespace
}  // namespace rlx::kernels
#endif

HWY_BEFORE_NAMESPACE();
namespace rlx::kernels {
namespace HWY_NAMESPACE {
namespace {

using DFloat = hn::ScalableTag<float>;
using DPair = hn::ScalableTag<uint32_t>;
using VFloat = hn::Vec<DFloat>;

/// A vector of pairs of channels; with kSome only of the first `some` channels.
template <bool kSome>
HWY_INLINE hn::Vec<DPair> load_pairs(const uint16_t* from, size_t some) {
  if constexpr (!kSome) return hn::LoadU(DPair(), reinterpret_cast<const uint32_t*>(from));
  HWY_ALIGN uint16_t values[2 * hn::MaxLanes(DPair())] = {};
  std::memcpy(values, from, some * 2);
  return hn::Load(DPair(), reinterpret_cast<const uint32_t*>(values));
}
template <bool kSome>
HWY_INLINE void store_pairs(hn::Vec<DPair> v, uint16_t* to, size_t some) {
  if constexpr (!kSome) return hn::StoreU(v, DPair(), reinterpret_cast<uint32_t*>(to));
  HWY_ALIGN uint16_t values[2 * hn::MaxLanes(DPair())];
  hn::Store(v, DPair(), reinterpret_cast<uint32_t*>(values));
  std::memcpy(to, values, some * 2);
}
HWY_INLINE VFloat even_of(hn::Vec<DPair> v) { return hn::BitCast(DFloat(), hn::ShiftLeft<16>(v)); }
HWY_INLINE VFloat odd_of(hn::Vec<DPair> v) { return hn::BitCast(DFloat(), hn::And(v, hn::Set(DPair(), 0xffff0000u))); }
/// The bits of f32, rounded so that their upper halves are the nearest bf16, ties to even.
HWY_INLINE hn::Vec<DPair> rounded_up_halves(VFloat v) {
  const DPair d;
  const auto bits = hn::BitCast(d, v);
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(d, 1u));
  const auto rounded = hn::Add(bits, hn::Add(odd, hn::Set(d, 0x7fffu)));
  return hn::IfThenElse(hn::RebindMask(d, hn::IsNaN(v)), hn::Or(bits, hn::Set(d, 0x400000u)), rounded);
}
/// kRounds: by that instruction, subnormal numbers as 0.
template <bool kRounds>
HWY_INLINE hn::Vec<DPair> joined_pairs(VFloat even, VFloat odd) {
#if HWY_TARGET == HWY_AVX3 && RLX_HAS_TILES
  if constexpr (kRounds) {
    HWY_ALIGN static constexpr uint16_t kAlternating[32] = {0,  16, 1,  17, 2,  18, 3,  19, 4,  20, 5,
                                                            21, 6,  22, 7,  23, 8,  24, 9,  25, 10, 26,
                                                            11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
    const __m512i halves = rounded_to_bf16<true>(even, odd).raw;
    return hn::Vec<DPair>{_mm512_permutexvar_epi16(_mm512_load_si512(kAlternating), halves)};
  }
#endif
  const auto upper = hn::And(rounded_up_halves(odd), hn::Set(DPair(), 0xffff0000u));
  return hn::Or(upper, hn::ShiftRight<16>(rounded_up_halves(even)));
}

/// The sums of kCount neighbouring outputs, for a vector of pairs of channels.
template <int kCount>
struct PairSums {
  VFloat even[kCount], odd[kCount];
};

/// All taps along the row are inside. With kKernel and kStride, these are the row's, there is no dilation, and each
/// pixel is loaded once for all outputs that read it.
template <int kKernel, int kStride, int kCount>
HWY_INLINE void add_row(const NarrowRow& m, const uint16_t* x, const float* w, PairSums<kCount>& s) {
  const DFloat d;
  VFloat even[kKernel], odd[kKernel];
  RLX_UNROLL for (int t = 0; t < kKernel; ++t) {
    even[t] = hn::LoadU(d, w + t * 2 * m.half), odd[t] = hn::LoadU(d, w + (t * 2 + 1) * m.half);
  }
  RLX_UNROLL for (int j = 0; j < (kCount - 1) * kStride + kKernel; ++j) {
    const auto v = load_pairs<false>(x + j * m.x_col, 0);
    const VFloat of_even = even_of(v), of_odd = odd_of(v);
    RLX_UNROLL for (int i = 0; i < kCount; ++i) {
      const int t = j - i * kStride;
      if (t < 0 || t >= kKernel) continue;
      s.even[i] = hn::MulAdd(of_even, even[t], s.even[i]), s.odd[i] = hn::MulAdd(of_odd, odd[t], s.odd[i]);
    }
  }
}
/// Taps [begin, end) of any row; `x` is what the first of them reads.
template <int kCount, bool kSome>
HWY_INLINE void add_taps(const NarrowRow& m, int64_t begin, int64_t end, const uint16_t* x, const float* w,
                         PairSums<kCount>& s, size_t some) {
  const DFloat d;
  for (int64_t t = begin; t < end; ++t) {
    const VFloat even = hn::LoadU(d, w + t * 2 * m.half), odd = hn::LoadU(d, w + (t * 2 + 1) * m.half);
    RLX_UNROLL for (int i = 0; i < kCount; ++i) {
      const auto v = load_pairs<kSome>(x + ((t - begin) * m.dilation + i * m.stride) * m.x_col, some);
      s.even[i] = hn::MulAdd(even_of(v), even, s.even[i]), s.odd[i] = hn::MulAdd(odd_of(v), odd, s.odd[i]);
    }
  }
}

/// Neighbouring outputs, and the taps along the row that are inside: the first of them reads pixel `at`.
struct NarrowOutputs {
  int64_t first, begin, end, at;
};
/// kCount outputs for channels [c, c + 2 lanes), or with kSome for the `some` that are left.
template <int kKernel, int kStride, int kCount, bool kSome, bool kRounds, class Act>
HWY_INLINE void sum_outputs_of(const NarrowRow& m, const NarrowOutputs& of, int64_t c, size_t some, Act act) {
  const DFloat d;
  PairSums<kCount> s;
  VFloat even = hn::Zero(d), odd = hn::Zero(d);
  if (m.bias) even = hn::LoadU(d, m.bias + c / 2), odd = hn::LoadU(d, m.bias + m.half + c / 2);
  RLX_UNROLL for (int i = 0; i < kCount; ++i) s.even[i] = hn::Zero(d), s.odd[i] = hn::Zero(d);
  const uint16_t* x = m.x + of.at * m.x_col + c;
  const float* w = m.weights + c / 2;
  for (int64_t r = 0; r < m.rows; ++r, x += m.x_row, w += m.kernel * 2 * m.half) {
    if constexpr (kKernel > 0) add_row<kKernel, kStride, kCount>(m, x, w, s);
    else add_taps<kCount, kSome>(m, of.begin, of.end, x, w, s, some);
  }
  RLX_UNROLL for (int i = 0; i < kCount; ++i)
      store_pairs<kSome>(joined_pairs<kRounds>(act(d, hn::Add(s.even[i], even)), act(d, hn::Add(s.odd[i], odd))),
                         m.y + (of.first + i) * m.y_col + c, some);
}

HWY_INLINE NarrowOutputs output_at(const NarrowRow& m, int64_t o) {
  const int64_t first = o * m.stride - m.low;
  const int64_t begin = first >= 0 ? 0 : std::min(m.kernel, (-first - 1) / m.dilation + 1);
  const int64_t end = first >= m.in ? begin : std::max(begin, std::min(m.kernel, (m.in - 1 - first) / m.dilation + 1));
  return {o, begin, end, begin < end ? first + begin * m.dilation : 0};
}

template <int kKernel, int kStride, bool kRounds, class Act>
HWY_INLINE void narrow_row_of(const NarrowRow& m, Act act) {
  constexpr int kCount = 4;
  const auto step = static_cast<int64_t>(2 * hn::Lanes(DFloat()));
  // Channels behind the last whole vector are computed with some before them once more, where their number is even.
  const auto all_channels = [&](auto count, auto kernel, const NarrowOutputs& of) HWY_ATTR {
    constexpr int kTogether = decltype(count)::value, kTaps = decltype(kernel)::value;
    int64_t c = 0;
    for (; c + step <= m.channels; c += step)
      sum_outputs_of<kTaps, kStride, kTogether, false, kRounds>(m, of, c, 0, act);
    if (c == m.channels) return;
    if (c > 0 && m.channels % 2 == 0)
      sum_outputs_of<kTaps, kStride, kTogether, false, kRounds>(m, of, m.channels - step, 0, act);
    else sum_outputs_of<0, 1, kTogether, true, kRounds>(m, of, c, static_cast<size_t>(m.channels - c), act);
  };
  constexpr std::integral_constant<int, 0> kAny;
  constexpr std::integral_constant<int, 1> kOne;
  constexpr std::integral_constant<int, kCount> kSeveral;
  constexpr std::integral_constant<int, kKernel> kRow;
  const int64_t reach = (m.kernel - 1) * m.dilation;
  const int64_t inner_begin = m.low <= 0 ? 0 : std::min((m.low - 1) / m.stride + 1, m.out);
  const int64_t last = m.in - 1 + m.low - reach;
  const int64_t inner_end = last < 0 ? inner_begin : std::clamp<int64_t>(last / m.stride + 1, inner_begin, m.out);
  int64_t o = 0;
  for (; o < inner_begin; ++o) all_channels(kOne, kAny, output_at(m, o));
  for (; o + kCount <= inner_end; o += kCount) all_channels(kSeveral, kRow, output_at(m, o));
  for (; o < inner_end; ++o) all_channels(kOne, kRow, output_at(m, o));
  for (; o < m.out; ++o) all_channels(kOne, kAny, output_at(m, o));
}

}  // namespace

void narrow_depthwise_row(const NarrowRow& m, Activation activation) {
  const auto clamp = [&](auto d, auto v)
                         HWY_ATTR { return hn::Min(hn::Set(d, m.high_bound), hn::Max(hn::Set(d, m.low_bound), v)); };
  const bool is_clamp =
      activation == Activation::none || activation == Activation::relu || activation == Activation::relu6;
  if (!is_clamp) return with_activation(activation, [&](auto act) HWY_ATTR { narrow_row_of<0, 1, false>(m, act); });
  const auto compute = [&](auto kernel, auto stride) HWY_ATTR {
    constexpr int kKernel = decltype(kernel)::value, kStride = decltype(stride)::value;
#if HWY_TARGET == HWY_AVX3 && RLX_HAS_TILES
    if (m.rounds) return narrow_row_of<kKernel, kStride, true>(m, clamp);
#endif
    narrow_row_of<kKernel, kStride, false>(m, clamp);
  };
  constexpr std::integral_constant<int, 0> kAny;
  constexpr std::integral_constant<int, 1> kOne;
  constexpr std::integral_constant<int, 2> kTwo;
  constexpr std::integral_constant<int, 3> kThree;
  constexpr std::integral_constant<int, 5> kFive;
  const bool is_dense = m.dilation == 1;
  if (is_dense && m.kernel == 3 && m.stride == 1) compute(kThree, kOne);
  else if (is_dense && m.kernel == 3 && m.stride == 2) compute(kThree, kTwo);
  else if (is_dense && m.kernel == 5 && m.stride == 1) compute(kFive, kOne);
  else compute(kAny, kOne);
}

}  // namespace HWY_NAMESPACE
}  // namespace rlx::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rlx::kernels {

HWY_EXPORT(narrow_depthwise_row);

bool is_narrow_depthwise(const ConvolutionArgs& a) {
  constexpr int64_t kMaxExtent = int64_t{1} << 40;  // paddings, strides and dilations beyond would overflow
  if (a.dtype != bf16 || a.out_dtype != bf16 || a.spatial < 1 || a.spatial > 2) return false;
  if (a.groups < 1 || a.in_channels != a.groups || a.out_channels != a.groups) return false;
  int64_t taps = 1;
  for (int d = 0; d < a.spatial; ++d) {
    if (a.lhs_dilation[d] != 1 || a.w_strides[d] < 0) return false;
    if (a.kernel[d] > kPartialSumTerms || std::max(a.low[d], -a.low[d]) > kMaxExtent) return false;
    if (a.stride[d] > kMaxExtent / std::max<int64_t>(1, a.out_dims[d]) || a.rhs_dilation[d] > kMaxExtent) return false;
    taps *= a.kernel[d];
  }
  return taps <= kPartialSumTerms && a.x_channel_stride == 1 && a.y_channel_stride == 1;
}

size_t narrow_bias_bytes(const ConvolutionArgs& a) { return static_cast<size_t>(2 * half_of(a.out_channels)) * 4; }
size_t narrow_depthwise_weights_bytes(const ConvolutionArgs& a) {
  int64_t count = 2 * half_of(a.out_channels);
  for (int d = 0; d < a.spatial; ++d) count *= a.kernel[d];
  return static_cast<size_t>(count) * sizeof(float);
}

void pack_narrow_depthwise(const ConvolutionArgs& a, const void* w, float* packed) noexcept {
  const int last = a.spatial - 1;
  const int64_t rows = last > 0 ? a.kernel[0] : 1, half = half_of(a.out_channels);
  std::fill_n(packed, narrow_depthwise_weights_bytes(a) / sizeof(float), 0.0f);
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < a.kernel[last]; ++c, packed += 2 * half)
      for (int64_t o = 0; o < a.out_channels; ++o)
        packed[o % 2 * half + o / 2] = to_f32(static_cast<const BF16*>(
            w)[(last > 0 ? r * a.w_strides[0] : 0) + c * a.w_strides[last] + o * a.w_out_stride]);
}

void split_narrow_bias(const ConvolutionArgs& a, const BF16* bias, float* split) noexcept {
  const int64_t half = half_of(a.out_channels);
  std::fill_n(split, 2 * half, 0.0f);
  for (int64_t o = 0; o < a.out_channels; ++o) split[o % 2 * half + o / 2] = to_f32(bias[o]);
}

void narrow_depthwise(const ConvolutionArgs& a, const NarrowDepthwiseCall& call, int64_t begin, int64_t end) noexcept {
  const int last = a.spatial - 1;
  NarrowRow m{};
  m.half = half_of(a.out_channels), m.channels = a.out_channels;
  m.kernel = a.kernel[last], m.stride = a.stride[last], m.dilation = a.rhs_dilation[last], m.low = a.low[last];
  m.in = a.in_dims[last], m.out = a.out_dims[last], m.x_col = a.x_strides[last], m.y_col = a.y_strides[last];
  m.bias = call.bias, m.rounds = tiles_round_to_bf16();
  const bool is_clamped = call.activation == Activation::relu || call.activation == Activation::relu6;
  m.low_bound = is_clamped ? 0 : -std::numeric_limits<float>::infinity();
  m.high_bound = call.activation == Activation::relu6 ? 6 : std::numeric_limits<float>::infinity();
  const int64_t rows = last > 0 ? a.out_dims[0] : 1, kernel_rows = last > 0 ? a.kernel[0] : 1;
  const int64_t in_rows = last > 0 ? a.in_dims[0] : 1, gap = last > 0 ? a.rhs_dilation[0] : 1;
  m.x_row = last > 0 ? gap * a.x_strides[0] : 0;
  for (int64_t at = begin; at < end; ++at) {
    const int64_t image = at / rows, row = at % rows;
    const int64_t first = last > 0 ? row * a.stride[0] - a.low[0] : 0;
    const int64_t from = first >= 0 ? 0 : std::min(kernel_rows, (-first - 1) / gap + 1);
    const int64_t to = first >= in_rows ? from : std::max(from, std::min(kernel_rows, (in_rows - 1 - first) / gap + 1));
    m.rows = to - from;
    m.x = reinterpret_cast<const uint16_t*>(call.x) + image * a.x_batch_stride +
          (m.rows > 0 && last > 0 ? (first + from * gap) * a.x_strides[0] : 0);
    m.weights = call.weights + from * m.kernel * 2 * m.half;
    m.y = reinterpret_cast<uint16_t*>(call.y) + image * a.y_batch_stride + (last > 0 ? row * a.y_strides[0] : 0);
    HWY_DYNAMIC_DISPATCH(narrow_depthwise_row)(m, call.activation);
  }
}

}  // namespace rlx::kernels
#endif

// reduce_window by rows: a segment of neighbouring outputs is accumulated tap by tap, so that the inner loop runs along
// memory and has no check for padding. select_and_scatter likewise.
#include "kernels/reduce/window.h"

#include <algorithm>
#include <array>
#include <limits>
#include <type_traits>

#include "kernels/integer_type.h"
#include "kernels/partial_sums.h"
#include "kernels/reduce/pool_2x2.h"
#include "kernels/reduce/window_dim.h"
#include "kernels/reduce/window_rows.h"
#include "kernels/vector/narrow_float.h"
#include "rlx/element.h"

namespace rlx::kernels {
namespace {

constexpr int64_t kSegment = 256;  // outputs accumulated together
// Rows of 16-bit floats of which every so many-th element is read are widened whole, by vectors.
constexpr int64_t kMaxWidenedStep = 4;

/// Loads and stores elements of type T that are accumulated as A.
template <class T, class A>
struct Access {
  using Element = T;
  using Accumulator = A;
  static A load(const ReduceWindowArgs& a, int64_t i) { return convert_in(static_cast<const T*>(a.x)[i]); }
  static void store(const ReduceWindowArgs& a, int64_t i, A v) { static_cast<T*>(a.y)[i] = convert_out(v); }

 private:
  static A convert_in(T v) {
    if constexpr (std::is_same_v<A, float>) return to_f32(v);
    else return static_cast<A>(v);
  }
  static T convert_out(A v) {
    if constexpr (std::is_same_v<A, float>) return from_f32<T>(v);
    else return static_cast<T>(v);
  }
};
struct AccessF8 {
  using Accumulator = float;
  static float load(const ReduceWindowArgs& a, int64_t i) {
    return static_cast<float>(decode_float(a.dtype, static_cast<const uint8_t*>(a.x)[i]));
  }
  static void store(const ReduceWindowArgs& a, int64_t i, float v) {
    static_cast<uint8_t*>(a.y)[i] = static_cast<uint8_t>(encode_float(a.dtype, static_cast<double>(v)));
  }
};

/// Computes results [begin, end) of a window reduction. With kPartialSums, sums over large windows consist of partial
/// sums (see partial_sums.h).
template <class Access, bool kPartialSums = false, class F>
void slide(const ReduceWindowArgs& a, int64_t begin, int64_t end, typename Access::Accumulator neutral, F combine) {
  using A = typename Access::Accumulator;
  const int last = a.rank - 1;
  std::array<WindowDim, kMaxWindowRank> dims;
  int64_t taps = 1;
  for (int d = 0; d < a.rank; ++d) {
    dims[static_cast<size_t>(d)] = {a.x_dims[d], a.stride[d], a.window_dilation[d], a.low[d], a.base_dilation[d]};
    taps *= a.window[d];
  }
  const WindowDim& along = dims[static_cast<size_t>(last)];
  std::array<A, kSegment> totals;
  [[maybe_unused]] std::array<A, kPartialSums ? kSegment : 1> before;  // the sum of the partial sums so far
  for (int64_t at = begin; at < end;) {
    int64_t index[kMaxWindowRank]{};
    int64_t rest = at;
    for (int d = last; d >= 0; --d) {
      index[d] = rest % a.out_dims[d];
      rest /= a.out_dims[d];
    }
    const int64_t first = index[last];
    const int64_t stop = std::min({a.out_dims[last], first + kSegment, first + (end - at)});
    std::fill_n(totals.begin(), stop - first, neutral);
    if constexpr (kPartialSums) std::fill_n(before.begin(), stop - first, neutral);
    int64_t tap[kMaxWindowRank]{};
    for (int64_t t = 0; t < taps; ++t) {
      if constexpr (kPartialSums)
        if (t > 0 && t % kPartialSumTerms == 0)
          for (int64_t o = first; o < stop; ++o) {
            const auto i = static_cast<size_t>(o - first);
            before[i] = static_cast<A>(combine(before[i], totals[i])), totals[i] = neutral;
          }
      int64_t base = 0;
      bool is_padding = false;
      for (int d = 0; d < last && !is_padding; ++d) {
        const int64_t i = dims[static_cast<size_t>(d)].index_of(index[d], tap[d]);
        is_padding = i < 0;
        base += i * a.x_strides[d];
      }
      if (!is_padding) {
        if (along.base_dilation == 1) {
          int64_t from = 0, to = 0;
          along.inside(tap[last], first, stop, from, to);
          // A stride may be any size: the product, which might overflow, is computed only if there are two outputs or
          // more.
          const int64_t step = to - from > 1 ? along.stride * a.x_strides[last] : 0;
          int64_t i = base;
          if (from < to) i += (from * along.stride + tap[last] * along.dilation - along.low) * a.x_strides[last];
          if constexpr (requires { typename Access::Element; } && std::is_same_v<A, float>)
            if (step == 1) {
              combine_rows(a.op, a.dtype, &totals[static_cast<size_t>(from - first)],
                           static_cast<const typename Access::Element*>(a.x) + i, to - from);
              from = to;
            }
          if constexpr (requires { typename Access::Element; } && std::is_same_v<A, float>)
            if (sizeof(typename Access::Element) == 2 && step > 1 && step <= kMaxWidenedStep && from < to) {
              std::array<float, (kSegment - 1) * kMaxWidenedStep + 1> wide;
              widen_row(a.dtype, static_cast<const typename Access::Element*>(a.x) + i, (to - from - 1) * step + 1,
                        wide.data());
              for (int64_t o = from; o < to; ++o) {
                float& total = totals[static_cast<size_t>(o - first)];
                total = combine(total, wide[static_cast<size_t>((o - from) * step)]);
              }
              from = to;
            }
          for (int64_t o = from; o < to; ++o, i += step) {
            A& total = totals[static_cast<size_t>(o - first)];
            total = static_cast<A>(combine(total, Access::load(a, i)));
          }
        } else {
          const auto seen = along.outputs_inside(tap[last], first, stop);
          const int64_t step = seen.step * a.x_strides[last];
          int64_t o = seen.begin - first, i = base + seen.index * a.x_strides[last];
          for (int64_t n = 0; n < seen.count; ++n, o += seen.period, i += step) {
            A& total = totals[static_cast<size_t>(o)];
            total = static_cast<A>(combine(total, Access::load(a, i)));
          }
        }
      }
      for (int d = last; d >= 0; --d) {
        if (++tap[d] < a.window[d]) break;
        tap[d] = 0;
      }
    }
    for (int64_t o = first; o < stop; ++o) {
      A v = totals[static_cast<size_t>(o - first)];
      if constexpr (kPartialSums) v = static_cast<A>(combine(before[static_cast<size_t>(o - first)], v));
      if constexpr (std::is_floating_point_v<A>)
        if (a.op == ReduceOp::sum) v *= static_cast<A>(a.scale);
      Access::store(a, at + o - first, v);
    }
    at += stop - first;
  }
}

template <class Access>
void slide_ordered(const ReduceWindowArgs& a, int64_t begin, int64_t end) {
  using A = typename Access::Accumulator;
  using Limits = std::numeric_limits<A>;
  if (a.op == ReduceOp::max) {
    slide<Access>(a, begin, end, Limits::has_infinity ? -Limits::infinity() : Limits::lowest(),
                  [](A x, A y) { return x != x || x > y ? x : y; });
  } else {
    slide<Access>(a, begin, end, Limits::has_infinity ? Limits::infinity() : Limits::max(),
                  [](A x, A y) { return x != x || x < y ? x : y; });
  }
}
template <class Access>
void slide_float(const ReduceWindowArgs& a, int64_t begin, int64_t end) {
  using A = typename Access::Accumulator;
  const auto add = [](A x, A y) { return x + y; };
  int64_t taps = 1;
  for (int d = 0; d < a.rank; ++d) taps *= a.window[d];
  if (a.op == ReduceOp::sum && taps > kPartialSumTerms) slide<Access, true>(a, begin, end, A(0), add);
  else if (a.op == ReduceOp::sum) slide<Access>(a, begin, end, A(0), add);
  else if (a.op == ReduceOp::prod) slide<Access>(a, begin, end, A(1), [](A x, A y) { return x * y; });
  else slide_ordered<Access>(a, begin, end);
}
template <class T>
void slide_integer(const ReduceWindowArgs& a, int64_t begin, int64_t end) {
  using U = std::make_unsigned_t<T>;
  using Wrapping = Access<U, U>;
  switch (a.op) {
    case ReduceOp::sum: return slide<Wrapping>(a, begin, end, 0, [](U x, U y) { return uint64_t{x} + uint64_t{y}; });
    case ReduceOp::prod: return slide<Wrapping>(a, begin, end, 1, [](U x, U y) { return uint64_t{x} * uint64_t{y}; });
    case ReduceOp::all: return slide<Wrapping>(a, begin, end, U(-1), [](U x, U y) { return x & y; });
    case ReduceOp::any: return slide<Wrapping>(a, begin, end, 0, [](U x, U y) { return x | y; });
    case ReduceOp::max:
    case ReduceOp::min: return slide_ordered<Access<T, T>>(a, begin, end);
  }
}
void slide_boolean(const ReduceWindowArgs& a, int64_t begin, int64_t end) {
  using B = Access<uint8_t, uint8_t>;
  if (a.op == ReduceOp::prod || a.op == ReduceOp::min || a.op == ReduceOp::all)
    slide<B>(a, begin, end, 1, [](uint8_t x, uint8_t y) { return x & y; });
  else slide<B>(a, begin, end, 0, [](uint8_t x, uint8_t y) { return x | y; });
}

constexpr int64_t kMaxPixelTaps = 64;

/// Whether it is a max or min pool of pixels with contiguous channels: nothing slides along the last dim.
bool is_pool_of_channels(const ReduceWindowArgs& a) {
  if ((a.op != ReduceOp::max && a.op != ReduceOp::min) || a.rank < 2) return false;
  if (a.dtype != f32 && a.dtype != bf16 && a.dtype != f16) return false;
  const int last = a.rank - 1;
  int64_t taps = 1;
  for (int d = 0; d < a.rank; ++d) {
    if (a.base_dilation[d] != 1 || a.window[d] < 1 || a.window[d] > kMaxPixelTaps) return false;
    taps *= a.window[d];
    if (taps > kMaxPixelTaps) return false;
  }
  return a.window[last] == 1 && a.stride[last] == 1 && a.low[last] == 0 && a.x_strides[last] == 1 &&
         a.x_dims[last] == a.out_dims[last];
}
/// The element of dim d that an output reads through a tap, or -1 in padding. (A stride may be any size.)
int64_t position_of(const ReduceWindowArgs& a, int d, int64_t output, int64_t tap) {
  int64_t at = 0;
  const bool is_inside = !__builtin_mul_overflow(output, a.stride[d], &at) &&
                         !__builtin_add_overflow(at, tap * a.window_dilation[d] - a.low[d], &at) && at >= 0 &&
                         at < a.x_dims[d];
  return is_inside ? at : -1;
}
/// The offsets of what an output reads along the first `dims` dims, in the order of the taps. Returns how many there
/// are.
int64_t tap_offsets(const ReduceWindowArgs& a, const int64_t* output, int dims, int64_t* offsets) {
  int64_t count = 0, tap[kMaxWindowRank]{};
  for (bool is_more = true; is_more;) {
    int64_t offset = 0;
    bool is_inside = true;
    for (int d = 0; d < dims && is_inside; ++d) {
      const int64_t at = position_of(a, d, output[d], tap[d]);
      is_inside = at >= 0, offset += at * a.x_strides[d];
    }
    if (is_inside) offsets[count++] = offset;
    is_more = false;
    for (int d = dims - 1; d >= 0 && !is_more; --d) {
      is_more = ++tap[d] < a.window[d];
      if (!is_more) tap[d] = 0;
    }
  }
  return count;
}
void pool_of_channels(const ReduceWindowArgs& a, int64_t begin, int64_t end) {
  const int last = a.rank - 1, along = last - 1;
  const auto size = static_cast<int64_t>(byte_size(a.dtype));
  const int64_t channels = a.out_dims[last];
  const bool is_max = a.op == ReduceOp::max;
  const float neutral = is_max ? -std::numeric_limits<float>::infinity() : std::numeric_limits<float>::infinity();
  int64_t outer[kMaxPixelTaps], outer_count = 0;  // of the dims but the last two, for a row of outputs
  for (int64_t at = begin; at < end;) {
    const int64_t channel = at % channels, n = std::min(channels - channel, end - at);
    int64_t index[kMaxWindowRank]{}, rest = at / channels;
    for (int d = along; d >= 0; --d) index[d] = rest % a.out_dims[d], rest /= a.out_dims[d];
    if (at == begin || index[along] == 0) outer_count = tap_offsets(a, index, along, outer);
    const void* rows[kMaxPixelTaps];
    int64_t count = 0;
    for (int64_t o = 0; o < outer_count; ++o)
      for (int64_t tap = 0; tap < a.window[along]; ++tap)
        if (const int64_t p = position_of(a, along, index[along], tap); p >= 0)
          rows[count++] = static_cast<const char*>(a.x) + (outer[o] + p * a.x_strides[along] + channel) * size;
    char* const y = static_cast<char*>(a.y) + at * size;
    if (count > 0) extreme_of_rows(is_max, a.dtype, rows, count, n, y);
    else if (a.dtype == f32) std::fill_n(reinterpret_cast<float*>(y), n, neutral);
    else if (a.dtype == bf16) std::fill_n(reinterpret_cast<BF16*>(y), n, from_f32<BF16>(neutral));
    else std::fill_n(reinterpret_cast<F16*>(y), n, from_f32<F16>(neutral));
    at += n;
  }
}

}  // namespace

void reduce_window(const ReduceWindowArgs& args, int64_t begin, int64_t end) noexcept {
  if (args.rank == 0) {  // one element, one window of it
    ReduceWindowArgs one = args;
    one.rank = 1;
    one.x_dims[0] = one.out_dims[0] = one.window[0] = one.stride[0] = 1;
    one.low[0] = 0, one.base_dilation[0] = one.window_dilation[0] = 1;
    return reduce_window(one, begin, end);
  }
  if (is_pool_2x2(args)) return reduce_pool_2x2(args, begin, end);
  if (is_pool_of_channels(args)) return pool_of_channels(args, begin, end);
  if (is_integer(args.dtype))
    return with_integer_type(args.dtype, [&]<class T>() { slide_integer<T>(args, begin, end); });
  switch (args.dtype) {
    case DType::f32: return slide_float<Access<float, float>>(args, begin, end);
    case DType::f16: return slide_float<Access<F16, float>>(args, begin, end);
    case DType::bf16: return slide_float<Access<BF16, float>>(args, begin, end);
    case DType::f64: return slide_float<Access<double, double>>(args, begin, end);
    case DType::boolean: return slide_boolean(args, begin, end);
    default: return slide_float<AccessF8>(args, begin, end);
  }
}

// ---- select_and_scatter ----
namespace {

/// x + y in the type of an element; integers wrap.
template <class T>
T sum_of(T x, T y) {
  if constexpr (std::is_integral_v<T>) return static_cast<T>(static_cast<uint64_t>(x) + static_cast<uint64_t>(y));
  else return from_f32<T>(to_f32(x) + to_f32(y));
}
template <>
double sum_of(double x, double y) {
  return x + y;
}
/// What elements of type T are compared as.
template <class T>
T comparable(T x) {
  return x;
}
float comparable(F16 x) { return to_f32(x); }
float comparable(BF16 x) { return to_f32(x); }

/// Computes the images [begin, end). `taps` is scratch for the offsets of the taps of all dims but the last. stays(x,
/// y) says whether x stays selected when the window comes to y.
template <class T, class Stays>
void select_images(const SelectAndScatterArgs& a, int64_t begin, int64_t end, int64_t* taps, Stays stays) {
  const int last = a.rank - 1;
  int64_t in_count = 1, out_rows = 1, outer_taps = 1;
  int64_t steps[kMaxWindowRank];
  for (int d = last; d >= 0; --d) {
    steps[d] = in_count;
    in_count *= a.x_dims[d];
    if (d < last) out_rows *= a.out_dims[d], outer_taps *= a.window[d];
  }
  const int64_t row = a.out_dims[last];
  const WindowDim along{a.x_dims[last], a.stride[last], a.dilation[last], a.low[last]};
  std::array<decltype(comparable(T{})), kSegment> best{};
  std::array<int64_t, kSegment> kept;
  for (int64_t image = begin; image < end; ++image) {
    const T* x = static_cast<const T*>(a.x) + image * in_count;
    const T* source = static_cast<const T*>(a.source) + image * out_rows * row;
    T* y = static_cast<T*>(a.y) + image * in_count;
    std::fill(y, y + in_count, T{});
    for (int64_t r = 0; r < out_rows; ++r, source += row) {
      int64_t inside = 0;
      for (int64_t tap = 0; tap < outer_taps; ++tap) {
        int64_t rest_row = r, rest = tap, offset = 0;
        bool is_padding = false;
        for (int d = last - 1; d >= 0; --d) {
          const int64_t at = rest_row % a.out_dims[d] * a.stride[d] + rest % a.window[d] * a.dilation[d] - a.low[d];
          rest_row /= a.out_dims[d], rest /= a.window[d];
          is_padding = is_padding || at < 0 || at >= a.x_dims[d];
          offset += at * steps[d];
        }
        if (!is_padding) taps[inside++] = offset;
      }
      // Segments of neighbouring outputs are computed tap by tap, and without branches, because a processor cannot
      // predict which element is selected.
      for (int64_t first = 0; inside > 0 && first < row; first += kSegment) {
        const int64_t stop = std::min(row, first + kSegment);
        std::fill_n(kept.begin(), stop - first, -1);
        for (int64_t t = 0; t < inside; ++t) {
          for (int64_t k = 0; k < a.window[last]; ++k) {
            int64_t from = 0, to = 0;
            along.inside(k, first, stop, from, to);
            int64_t at = taps[t] + from * along.stride + k * along.dilation - along.low;
            for (int64_t o = from - first; o < to - first; ++o, at += along.stride) {
              const auto i = static_cast<size_t>(o);
              const auto next = comparable(x[at]);
              const bool replaces = (int{kept[i] < 0} | int{!stays(best[i], next)}) != 0;  // without a branch
              best[i] = replaces ? next : best[i];
              kept[i] = replaces ? at : kept[i];
            }
          }
        }
        for (int64_t o = first; o < stop; ++o)
          if (const int64_t at = kept[static_cast<size_t>(o - first)]; at >= 0) y[at] = sum_of(y[at], source[o]);
      }
    }
  }
}
template <class T>
void select_by(const SelectAndScatterArgs& a, int64_t begin, int64_t end, int64_t* taps) {
  switch (a.kept) {
    case Kept::first_max: return select_images<T>(a, begin, end, taps, [](auto x, auto y) { return x >= y; });
    case Kept::last_max: return select_images<T>(a, begin, end, taps, [](auto x, auto y) { return x > y; });
    case Kept::first_min: return select_images<T>(a, begin, end, taps, [](auto x, auto y) { return x <= y; });
    case Kept::last_min: return select_images<T>(a, begin, end, taps, [](auto x, auto y) { return x < y; });
  }
}

}  // namespace

size_t select_and_scatter_scratch_bytes(const SelectAndScatterArgs& args) {
  int64_t taps = 1;
  for (int d = 0; d + 1 < args.rank; ++d) taps *= args.window[d];
  return static_cast<size_t>(taps) * sizeof(int64_t);
}
void select_and_scatter(const SelectAndScatterArgs& args, int64_t begin, int64_t end, void* scratch) noexcept {
  auto* taps = static_cast<int64_t*>(scratch);
  if (is_pool_2x2(args)) return select_pool_2x2(args, begin, end);
  switch (args.dtype) {
    case DType::f32: return select_by<float>(args, begin, end, taps);
    case DType::f64: return select_by<double>(args, begin, end, taps);
    case DType::f16: return select_by<F16>(args, begin, end, taps);
    case DType::bf16: return select_by<BF16>(args, begin, end, taps);
    default: return with_integer_type(args.dtype, [&]<class T>() { select_by<T>(args, begin, end, taps); });
  }
}

}  // namespace rlx::kernels

// select_and_scatter, and convolutions that the fast kernels do not support (batch groups, complex numbers, no spatial
// dims): scalar loops over windows.
#include <complex>

#include "backends/cpu/lowerings.h"
#include "backends/cpu/scalar_combine.h"
#include "rlx/element.h"
#include "rlx/ops/window.h"

namespace rlx::cpu {
namespace {

Axes given(const Axes& list, size_t rank, int64_t otherwise) { return list.empty() ? Axes(rank, otherwise) : list; }

/// Whether `a relation b` holds.
template <class T>
bool compare(Comparison relation, T a, T b) {
  switch (relation) {
    case Comparison::eq: return a == b;
    case Comparison::ne: return a != b;
    case Comparison::lt: return a < b;
    case Comparison::le: return a <= b;
    case Comparison::gt: return a > b;
    case Comparison::ge: return a >= b;
  }
  return false;
}
using Relation = bool (*)(Comparison, const std::byte*, const std::byte*);

template <class T>
bool scalar_relation(Comparison relation, const std::byte* a, const std::byte* b) {
  T x, y;
  std::memcpy(&x, a, sizeof x), std::memcpy(&y, b, sizeof y);
  return compare(relation, x, y);
}
template <DType kDType>
bool narrow_relation(Comparison relation, const std::byte* a, const std::byte* b) {
  uint16_t x, y;
  std::memcpy(&x, a, sizeof x), std::memcpy(&y, b, sizeof y);
  return compare(relation, decode_float(kDType, x), decode_float(kDType, y));
}
Relation relation_of(DType t) {
  switch (t) {
    case DType::boolean:
    case DType::u8: return scalar_relation<uint8_t>;
    case DType::i8: return scalar_relation<int8_t>;
    case DType::i16: return scalar_relation<int16_t>;
    case DType::i32: return scalar_relation<int32_t>;
    case DType::i64: return scalar_relation<int64_t>;
    case DType::u16: return scalar_relation<uint16_t>;
    case DType::u32: return scalar_relation<uint32_t>;
    case DType::u64: return scalar_relation<uint64_t>;
    case DType::f16: return narrow_relation<f16>;
    case DType::bf16: return narrow_relation<bf16>;
    case DType::f32: return scalar_relation<float>;
    case DType::f64: return scalar_relation<double>;
    default: return nullptr;
  }
}

}  // namespace

std::string when_select_and_scatter(const Question& q) {
  return relation_of(q.operands[0].dtype) ? "" : text_of(q.operands[0].dtype, " has no order");
}

Prepared lower_select_and_scatter(const LoweringContext& c) {
  const auto& a = c.attrs<SelectAndScatterAttrs>();
  const View &x = c.operands[0], &source = c.operands[1];
  size_t rank = x.shape.size(), size = x.element_bytes();
  Shape in = x.shape, out = source.shape, window = shape_of(a.window_dims);
  Axes strides = given(a.strides, rank, 1), dilation = given(a.window_dilation, rank, 1),
       low = given(shape_of(a.padding_low), rank, 0);
  auto steps = dense_strides(in);
  Relation relation = relation_of(x.dtype);
  ScalarCombine add = scalar_combine(ScatterKind::add, x.dtype);
  int64_t windows = source.count(), taps = 1;
  for (int64_t w : window) taps *= w;
  size_t bytes = static_cast<size_t>(x.count()) * size;
  Comparison select = a.select;
  return make_step("select_and_scatter", 0, [=](const StepArgs& args) {
    const auto *from = args.in<std::byte>(0), *values = args.in<std::byte>(1);
    auto* to = args.out<std::byte>();
    if (bytes) std::memset(to, 0, bytes);
    for (int64_t window_index = 0; window_index < windows; ++window_index) {
      int64_t best = -1;
      for (int64_t tap = 0; tap < taps; ++tap) {
        int64_t at = 0, rest_window = window_index, rest_tap = tap;
        bool inside = true;
        for (size_t d = rank; d-- > 0;) {
          int64_t position = rest_window % out[d] * strides[d] + rest_tap % window[d] * dilation[d] - low[d];
          rest_window /= out[d], rest_tap /= window[d];
          if (position < 0 || position >= in[d]) inside = false;
          else at += position * steps[d];
        }
        if (inside && (best < 0 || !relation(select, from + size_t(best) * size, from + size_t(at) * size))) best = at;
      }
      if (best >= 0) add(to + size_t(best) * size, values + size_t(window_index) * size);
    }
  });
}

namespace {

/// Extents and strides (in elements) of a direct convolution.
struct DirectConvolution {
  int64_t batch, out_features, in_features, feature_groups, batch_groups;
  Shape in, kernel, out;
  Axes stride, low, lhs_dilation, rhs_dilation;
  std::vector<int64_t> x, w, y;  // strides: batch (output feature), feature, spatial...
};

/// How elements are stored, and what they are computed in.
template <class T>
struct Stored {
  using Value = T;
  static T read(const T* data, int64_t i) { return data[i]; }
  static void write(T* data, int64_t i, T v) { data[i] = v; }
  using Element = T;
};
template <DType kDType>
struct StoredNarrow {
  using Value = float;
  using Element = uint16_t;
  static float read(const uint16_t* data, int64_t i) { return static_cast<float>(decode_float(kDType, data[i])); }
  static void write(uint16_t* data, int64_t i, float v) {
    data[i] = static_cast<uint16_t>(encode_float(kDType, static_cast<double>(v)));
  }
};

/// c64 is summed in c128: in f32, cancellation would leave few correct digits of a real or imaginary component.
struct StoredC64 {
  using Value = std::complex<double>;
  using Element = std::complex<float>;
  static Value read(const Element* data, int64_t i) { return data[i]; }
  static void write(Element* data, int64_t i, Value v) { data[i] = static_cast<Element>(v); }
};

template <class In, class Out>
void direct_convolution(const DirectConvolution& p, const void* x_data, const void* w_data, void* y_data, int64_t begin,
                        int64_t end) {
  using Sum = typename Out::Value;
  const auto *x = static_cast<const typename In::Element*>(x_data),
             *w = static_cast<const typename In::Element*>(w_data);
  auto* y = static_cast<typename Out::Element*>(y_data);
  size_t spatial = p.in.size();
  int64_t pixels = 1, taps = 1, per_group = p.out_features / p.feature_groups,
          per_batch_group = p.out_features / p.batch_groups;
  for (size_t d = 0; d < spatial; ++d) pixels *= p.out[d], taps *= p.kernel[d];
  for (int64_t result = begin; result < end; ++result) {
    int64_t pixel = result % pixels, o = result / pixels % p.out_features, b = result / pixels / p.out_features;
    int64_t first = p.batch_groups > 1 ? 0 : o / per_group * p.in_features;      // feature of x
    int64_t image = p.batch_groups > 1 ? o / per_batch_group * p.batch + b : b;  // batch of x
    Sum sum{};
    int64_t y_at = b * p.y[0] + o * p.y[1];
    for (int64_t tap = 0; tap < taps; ++tap) {
      int64_t x_at = image * p.x[0] + first * p.x[1], w_at = o * p.w[0], rest = pixel, rest_tap = tap;
      bool inside = true;
      for (size_t d = spatial; d-- > 0;) {
        int64_t t = rest_tap % p.kernel[d], at = rest % p.out[d] * p.stride[d] + t * p.rhs_dilation[d] - p.low[d];
        rest /= p.out[d], rest_tap /= p.kernel[d];
        if (at < 0 || at % p.lhs_dilation[d] != 0 || at / p.lhs_dilation[d] >= p.in[d]) inside = false;
        else x_at += at / p.lhs_dilation[d] * p.x[2 + d];
        w_at += t * p.w[2 + d];
      }
      if (!inside) continue;
      for (int64_t i = 0; i < p.in_features; ++i) {
        Sum a = static_cast<Sum>(In::read(x, x_at + i * p.x[1])), v = static_cast<Sum>(In::read(w, w_at + i * p.w[1]));
        if constexpr (std::is_integral_v<Sum>)
          sum = static_cast<Sum>(static_cast<uint64_t>(sum) + static_cast<uint64_t>(a) * static_cast<uint64_t>(v));
        else sum += a * v;
      }
    }
    for (size_t d = spatial, rest = size_t(pixel); d-- > 0; rest /= size_t(p.out[d]))
      y_at += int64_t(rest % size_t(p.out[d])) * p.y[2 + d];
    Out::write(y, y_at, sum);
  }
}
using ConvolutionLoop = void (*)(const DirectConvolution&, const void*, const void*, void*, int64_t, int64_t);

template <class T>
ConvolutionLoop scalar_into(DType sum) {
  if (sum == dtype_of<T>()) return direct_convolution<Stored<T>, Stored<T>>;
  if constexpr (std::is_integral_v<T>)
    return sum == i64   ? direct_convolution<Stored<T>, Stored<int64_t>>
           : sum == i32 ? direct_convolution<Stored<T>, Stored<int32_t>>
                        : nullptr;
  else return nullptr;
}
template <DType kDType>
ConvolutionLoop narrow_into(DType sum) {
  if (sum == kDType) return direct_convolution<StoredNarrow<kDType>, StoredNarrow<kDType>>;
  return sum == f32 ? direct_convolution<StoredNarrow<kDType>, Stored<float>> : nullptr;
}
ConvolutionLoop convolution_loop_for(DType t, DType sum) {
  switch (t) {
    case DType::i8: return scalar_into<int8_t>(sum);
    case DType::i16: return scalar_into<int16_t>(sum);
    case DType::i32: return scalar_into<int32_t>(sum);
    case DType::i64: return scalar_into<int64_t>(sum);
    case DType::u8: return scalar_into<uint8_t>(sum);
    case DType::u16: return scalar_into<uint16_t>(sum);
    case DType::u32: return scalar_into<uint32_t>(sum);
    case DType::u64: return scalar_into<uint64_t>(sum);
    case DType::f16: return narrow_into<f16>(sum);
    case DType::bf16: return narrow_into<bf16>(sum);
    case DType::f32: return scalar_into<float>(sum);
    case DType::f64: return scalar_into<double>(sum);
    case DType::c64: return sum == c64 ? direct_convolution<StoredC64, StoredC64> : nullptr;
    case DType::c128: return scalar_into<std::complex<double>>(sum);
    default: return nullptr;
  }
}

}  // namespace

std::string when_direct_convolution(const Question& q) {
  DType t = q.operands[0].dtype, out = q.node.types[0].dtype;
  return convolution_loop_for(t, out) ? "" : text_of("no kernel convolves ", t, " into ", out);
}

Prepared lower_direct_convolution(const LoweringContext& c) {
  const auto& a = c.attrs<ConvAttrs>();
  const View &x = c.operands[0], &w = c.operands[1], &y = c.results[0];
  size_t rank = x.shape.size(), spatial = rank - 2;
  auto layout = [&](const Axes& l) { return l.empty() ? axes_from(0, rank) : l; };
  Axes in = layout(a.lhs_layout), kernel = layout(a.rhs_layout), out = layout(a.out_layout);
  DirectConvolution p;
  p.batch = y.shape[size_t(out[0])], p.out_features = y.shape[size_t(out[1])],
  p.in_features = w.shape[size_t(kernel[1])];
  p.feature_groups = a.feature_group_count, p.batch_groups = a.batch_group_count;
  for (size_t d = 0; d < rank; ++d) {
    p.x.push_back(x.strides[size_t(in[d])]), p.w.push_back(w.strides[size_t(kernel[d])]),
        p.y.push_back(y.strides[size_t(out[d])]);
    if (d < 2) continue;
    p.in.push_back(x.shape[size_t(in[d])]), p.kernel.push_back(w.shape[size_t(kernel[d])]),
        p.out.push_back(y.shape[size_t(out[d])]);
  }
  p.stride = given(a.strides, spatial, 1), p.low = given(shape_of(a.padding_low), spatial, 0);
  p.lhs_dilation = given(a.lhs_dilation, spatial, 1), p.rhs_dilation = given(a.rhs_dilation, spatial, 1);
  ConvolutionLoop convolve = convolution_loop_for(x.dtype, y.dtype);
  int64_t count = y.count();
  double work = static_cast<double>(count) * static_cast<double>(w.count() / std::max<int64_t>(p.out_features, 1));
  return make_step("scalar convolution", 0, [=](const StepArgs& args) {
    for_ranges(args, count, 1, work, [&](int64_t begin, int64_t end, int64_t) {
      convolve(p, args.in(0), args.in(1), args.out(), begin, end);
    });
  });
}

}  // namespace rlx::cpu

// The epilogue of a tile of sums: alpha, bias, activation, residual, rounding, and the store to y. Compiled per target.
#if defined(RLX_KERNELS_GEMM_FMA_EPILOGUE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef RLX_KERNELS_GEMM_FMA_EPILOGUE_INL_H_
#undef RLX_KERNELS_GEMM_FMA_EPILOGUE_INL_H_
#else
#define RLX_KERNELS_GEMM_FMA_EPILOGUE_INL_H_
#endif

#include <limits>

#include "hwy/highway.h"
#include "kernels/gemm/fma/micro_kernels.h"
#include "kernels/vector/activation-inl.h"
#include "kernels/vector/narrow_float-inl.h"

HWY_BEFORE_NAMESPACE();
namespace rlx::kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// load_f32() and store_f32() of narrow_float-inl.h, under names that f64 has too.
using F64Tag = hn::ScalableTag<double>;
HWY_INLINE hn::Vec<F64Tag> load_value(F64Tag d, const double* from) { return hn::LoadU(d, from); }
HWY_INLINE void store_value(hn::Vec<F64Tag> v, F64Tag d, double* to) { hn::StoreU(v, d, to); }
template <class T>
HWY_INLINE F32Vec load_value(F32Tag d, const T* from) {
  return load_f32(d, from);
}
template <class T>
HWY_INLINE void store_value(F32Vec v, F32Tag d, T* to) {
  store_f32(v, d, to);
}
inline double element(double v) { return v; }
template <class T>
float element(T v) {
  return to_f32(v);
}
template <class To>
To rounded(double v) {
  if constexpr (std::is_same_v<To, double>) return v;
  else return from_f32<To>(static_cast<float>(v));
}

// A tile of sums: `rows` x `cols`, with `stride` elements from row to row. Columns up to the next whole vector may be
// read and written too.
template <class T>
struct Sums {
  T* data;
  int64_t rows, stride, cols;
};

// Where a tile's first element is stored in y, and its residual, whose columns are y_col apart too.
template <class Y>
struct Destination {
  Y* y;
  int64_t y_row, y_col;
  const Y* residual;  // null: none
  int64_t residual_row;
};

template <class T, class F>
HWY_INLINE void transform(const Sums<T>& sums, F f) {
  const hn::ScalableTag<T> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t i = 0; i < sums.rows; ++i)
    for (int64_t j = 0; j < sums.cols; j += lanes) {
      T* at = sums.data + i * sums.stride + j;
      hn::StoreU(f(d, hn::LoadU(d, at), j), d, at);
    }
}

// sums = act(alpha sums + bias); the bias is padded to whole vectors.
template <class T, class Act>
HWY_NOINLINE void scale_and_activate(const Sums<T>& sums, T alpha, const T* bias, Act act) {
  transform(sums, [&](auto d, auto v, int64_t j)
                      HWY_ATTR { return act(d, hn::MulAdd(v, hn::Set(d, alpha), hn::LoadU(d, bias + j))); });
}

// The same with the activation named. It is a function of its own since its variants are the same for every y.
template <class T>
HWY_NOINLINE void scale_and_activate(const Sums<T>& sums, T alpha, const T* bias, Activation activation) {
  with_activation(activation, [&](auto act) { scale_and_activate(sums, alpha, bias, act); });
}

// y = round(act(alpha sums + bias) + residual), or with `adds_first` round(act(alpha sums + bias + residual)). Columns
// after the last whole vector, and all columns of a y whose columns are not adjacent, are computed one by one, without
// `act`: if there are any, `act` must be the identity, and the sums activated already.
template <class T, class Y, class Act>
HWY_NOINLINE void store_tile(const Sums<T>& sums, T alpha, const T* bias, Act act, const Destination<Y>& to,
                             bool adds_first = false) {
  const hn::ScalableTag<T> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto scale = hn::Set(d, alpha);
  for (int64_t i = 0; i < sums.rows; ++i) {
    const T* from = sums.data + i * sums.stride;
    Y* y = to.y + i * to.y_row;
    const Y* residual = to.residual ? to.residual + i * to.residual_row : nullptr;
    int64_t j = 0;
    if (to.y_col == 1)
      for (; j + lanes <= sums.cols; j += lanes) {
        auto v = hn::MulAdd(hn::LoadU(d, from + j), scale, hn::LoadU(d, bias + j));
        if (adds_first && residual) v = hn::Add(v, load_value(d, residual + j));
        v = act(d, v);
        if (!adds_first && residual) v = hn::Add(v, load_value(d, residual + j));
        store_value(v, d, y + j);
      }
    for (; j < sums.cols; ++j) {
      T v = from[j] * alpha + bias[j];
      if (residual) v += element(residual[j * to.y_col]);
      y[j * to.y_col] = rounded<Y>(v);
    }
  }
}

template <class T, class Y>
HWY_NOINLINE void add_residual(const Sums<T>& sums, const Destination<Y>& to) {
  const hn::ScalableTag<T> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t i = 0; i < sums.rows; ++i) {
    T* at = sums.data + i * sums.stride;
    const Y* residual = to.residual + i * to.residual_row;
    int64_t j = 0;
    if (to.y_col == 1)
      for (; j + lanes <= sums.cols; j += lanes)
        hn::StoreU(hn::Add(hn::LoadU(d, at + j), load_value(d, residual + j)), d, at + j);
    for (; j < sums.cols; ++j) at[j] += element(residual[j * to.y_col]);
  }
}

/// Applies the epilogue to a tile and stores it; the sums are overwritten. `bias` is padded to whole vectors, and all
/// zeros if there is none.
template <class T, class Y>
void apply_tile_epilogue(const Sums<T>& sums, const Epilogue& epilogue, const T* bias, const Destination<Y>& to) {
  HWY_ALIGN static constexpr T kZeros[8 * PanelLayout::kVectors * HWY_MAX_BYTES / sizeof(T)] = {};  // the widest tile
  const T alpha = static_cast<T>(epilogue.alpha);
  const auto identity = [](auto, auto v) HWY_ATTR { return v; };
  // The residual is added when the sums are stored, unless it comes before the activation.
  Destination<Y> rest = to;
  const bool adds_first = epilogue.residual_first && to.residual;
  if (adds_first) rest.residual = nullptr;
  if constexpr (!std::is_same_v<T, Y>) {
    // The activations that clamp, which convolutions use, take one pass; for all there would be too many variants.
    const bool is_clamp = epilogue.activation == Activation::none || epilogue.activation == Activation::relu ||
                          epilogue.activation == Activation::relu6;
    if (is_clamp && to.y_col == 1 && sums.cols % static_cast<int64_t>(hn::Lanes(hn::ScalableTag<T>())) == 0) {
      const T low = epilogue.activation == Activation::none ? hwy::LowestValue<T>() : T(0);
      const T high = epilogue.activation == Activation::relu6 ? T(6) : std::numeric_limits<T>::infinity();
      const bool clamps = epilogue.activation != Activation::none;
      const auto clamp = [=](auto d, auto v) HWY_ATTR {
        return clamps ? hn::Min(hn::Set(d, high), hn::Max(hn::Set(d, low), v)) : v;  // NaN from the second operand
      };
      return store_tile(sums, alpha, bias, clamp, to, epilogue.residual_first);
    }
  }
  if (adds_first && epilogue.activation != Activation::none) {
    scale_and_activate(sums, alpha, bias, identity);
    add_residual(sums, to);
    scale_and_activate(sums, T(1), kZeros, epilogue.activation);
    return store_tile(sums, T(1), kZeros, identity, rest);
  }
  if (epilogue.activation == Activation::none) return store_tile(sums, alpha, bias, identity, to);
  // In one pass if y has the sums' dtype; for other dtypes that would instantiate too many variants.
  if constexpr (std::is_same_v<T, Y>)
    if (to.y_col == 1 && sums.cols == sums.stride)
      return with_activation(epilogue.activation, [&](auto act) { store_tile(sums, alpha, bias, act, to); });
  scale_and_activate(sums, alpha, bias, epilogue.activation);
  store_tile(sums, T(1), kZeros, identity, to);
}

}  // namespace HWY_NAMESPACE
}  // namespace rlx::kernels
HWY_AFTER_NAMESPACE();

#endif  // RLX_KERNELS_GEMM_FMA_EPILOGUE_INL_H_

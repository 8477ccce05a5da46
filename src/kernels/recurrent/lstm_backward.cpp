// See the header. A step computes, in one pass, the cotangents of the four gates' inputs from the cotangents of h and
// c, the gates and the cells; then their product with w_hh is the cotangent of h one step earlier. Rows whose extent is
// no multiple of 16 are copied into scratch and padded with zeros, whose contribution is zero.
#include "kernels/recurrent/lstm_backward.h"

#include <algorithm>
#include <cstring>

#include "base/rounded_up.h"
#include "kernels/vector/highway_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/recurrent/lstm_backward.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "kernels/recurrent/step_product-inl.h"
#include "kernels/vector/vector_math-inl.h"

// The packed layout, which is the same for every target.
#ifndef RLX_KERNELS_LSTM_BACKWARD_LAYOUT
#define RLX_KERNELS_LSTM_BACKWARD_LAYOUT
namespace rlx::kernels {
namespace {
/// Padded columns of a state in scratch, and of the product that results in one.
int64_t state_columns(int64_t hidden) { return rounded_up(hidden, 16); }
int64_t state_panels(int64_t hidden) { return rounded_up(hidden, 64); }
}  // namespace
}  // namespace rlx::kernels
#endif

HWY_BEFORE_NAMESPACE();
namespace rlx::kernels {
namespace HWY_NAMESPACE {
namespace {

template <class T>
void pack_transposed(int64_t hidden, const T* w, T* packed) {
  const int64_t width = panel_width<T>(), state = state_columns(hidden);
  for (int64_t panel = 0; panel < state_panels(hidden); panel += width) {
    const int64_t count = std::clamp<int64_t>(hidden - panel, 0, width);
    for (int64_t gate = 0; gate < 4; ++gate)
      for (int64_t neuron = 0; neuron < state; ++neuron, packed += width) {
        const int64_t count_here = neuron < hidden ? count : 0;
        std::copy_n(w + (gate * hidden + neuron) * hidden + panel * (count_here != 0), count_here, packed);
        std::fill(packed + count_here, packed + width, T(0));
      }
  }
}

/// One step of one sequence. Reads the cotangents of h (from y and from the next step) and of c. Writes the cotangents
/// of the gates' inputs to both products_ct and `copy`, and to c_ct the cotangent of c one step earlier.
template <class T>
void gate_cotangents(const T* gates, const T* cell, const T* before, const T* y_ct, const T* next_ct, T* c_ct,
                     T* products_ct, T* copy, int64_t state) {
  const StepTag<T> d;
  const auto one = hn::Set(d, T(1));
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t j = 0; j < state; j += lanes) {
    const auto in = hn::LoadU(d, gates + j), forget = hn::LoadU(d, gates + state + j),
               candidate = hn::LoadU(d, gates + 2 * state + j), out = hn::LoadU(d, gates + 3 * state + j);
    const auto squashed = Tanh(d, hn::LoadU(d, cell + j));
    const auto h = hn::Add(hn::LoadU(d, y_ct + j), hn::LoadU(d, next_ct + j));
    const auto c = hn::MulAdd(hn::Mul(h, out), hn::NegMulAdd(squashed, squashed, one), hn::LoadU(d, c_ct + j));
    auto logistic_slope = [&](auto y) HWY_ATTR { return hn::NegMulAdd(y, y, y); };
    auto store = [&](int64_t gate, auto ct) HWY_ATTR {
      hn::StoreU(ct, d, products_ct + gate * state + j);
      hn::StoreU(ct, d, copy + gate * state + j);
    };
    store(0, hn::Mul(c, hn::Mul(candidate, logistic_slope(in))));
    store(1, hn::Mul(c, hn::Mul(hn::LoadU(d, before + j), logistic_slope(forget))));
    store(2, hn::Mul(c, hn::Mul(in, hn::NegMulAdd(candidate, candidate, one))));
    store(3, hn::Mul(h, hn::Mul(squashed, logistic_slope(out))));
    hn::StoreU(hn::Mul(c, forget), d, c_ct + j);
  }
}

template <class T>
void run_steps(const LstmBackwardArgs& a, int64_t begin, int64_t end, T* scratch) {
  const int64_t rows = end - begin, hidden = a.hidden, state = state_columns(hidden), panels = state_panels(hidden);
  const bool padded = state != hidden;
  T *h_ct = scratch, *c_ct = h_ct + rows * panels, *products_ct = c_ct + rows * state;
  // Padded copies for one sequence: gates, cell, the cell before, y_ct, products_ct.
  T* staged = products_ct + rows * 4 * state;
  std::memset(scratch, 0, lstm_backward_scratch_bytes(a, rows));
  auto row_of = [&](const void* all, int64_t row, int64_t width) {
    return static_cast<const T*>(all) + row * width * hidden;
  };
  // Copies `count` vectors of `hidden` elements at `row` to padded slots; returns `row` itself if there is no padding.
  auto stage = [&](const T* row, int64_t count, int64_t at) {
    if (!padded) return row;
    for (int64_t i = 0; i < count; ++i)
      std::memcpy(staged + (at + i) * state, row + i * hidden, size_t(hidden) * sizeof(T));
    return static_cast<const T*>(staged + at * state);
  };
  for (int64_t r = 0; r < rows; ++r) {
    std::copy_n(row_of(a.h_ct, begin + r, 1), hidden, h_ct + r * panels);
    std::copy_n(row_of(a.c_ct, begin + r, 1), hidden, c_ct + r * state);
  }
  for (int64_t step = a.steps; step-- > 0;) {
    const int64_t t = a.reverse ? a.steps - 1 - step : step, previous = a.reverse ? t + 1 : t - 1;
    for (int64_t r = 0; r < rows; ++r) {
      const int64_t first = (begin + r) * a.steps, at = first + t;
      const T* before = step == 0 ? row_of(a.c0, begin + r, 1) : row_of(a.cells, first + previous, 1);
      T* ct = static_cast<T*>(a.products_ct) + at * 4 * hidden;
      T* copy = padded ? staged + 7 * state : ct;
      gate_cotangents(stage(row_of(a.gates, at, 4), 4, 0), stage(row_of(a.cells, at, 1), 1, 4), stage(before, 1, 5),
                      stage(row_of(a.y_ct, at, 1), 1, 6), h_ct + r * panels, c_ct + r * state,
                      products_ct + r * 4 * state, copy, state);
      for (int64_t g = 0; g < 4 && padded; ++g)
        std::memcpy(ct + g * hidden, copy + g * state, size_t(hidden) * sizeof(T));
    }
    multiply_step<T>(static_cast<const T*>(a.w_hh), 4 * state, panels, products_ct, 4 * state, nullptr, 0, h_ct, panels,
                     rows);
    // An infinite cotangent times the zero weights of the padding is NaN, which is cleared.
    for (int64_t r = 0; r < rows && padded; ++r) std::fill_n(h_ct + r * panels + hidden, state - hidden, T(0));
  }
  for (int64_t r = 0; r < rows; ++r) {
    std::copy_n(h_ct + r * panels, hidden, static_cast<T*>(a.h0_ct) + (begin + r) * hidden);
    std::copy_n(c_ct + r * state, hidden, static_cast<T*>(a.c0_ct) + (begin + r) * hidden);
  }
}

void pack_any(DType dtype, int64_t hidden, const void* w, void* packed) {
  if (dtype == f64) pack_transposed(hidden, static_cast<const double*>(w), static_cast<double*>(packed));
  else pack_transposed(hidden, static_cast<const float*>(w), static_cast<float*>(packed));
}
void run_steps_any(const LstmBackwardArgs& a, int64_t begin, int64_t end, void* scratch) {
  if (a.dtype == f64) run_steps(a, begin, end, static_cast<double*>(scratch));
  else run_steps(a, begin, end, static_cast<float*>(scratch));
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace rlx::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rlx::kernels {
namespace {
HWY_EXPORT(pack_any);
HWY_EXPORT(run_steps_any);
size_t bytes_of(DType dtype, int64_t elements) {
  return static_cast<size_t>(elements) * (dtype == f64 ? sizeof(double) : sizeof(float));
}
}  // namespace

size_t lstm_backward_weight_bytes(DType dtype, int64_t hidden) {
  return bytes_of(dtype, 4 * state_columns(hidden) * state_panels(hidden));
}
size_t lstm_backward_scratch_bytes(const LstmBackwardArgs& a, int64_t sequences) {
  const int64_t state = state_columns(a.hidden);
  return bytes_of(a.dtype, sequences * (state_panels(a.hidden) + 5 * state) + 11 * state);
}
void pack_lstm_backward(DType dtype, int64_t hidden, const void* w_hh, void* packed) noexcept {
  HWY_DYNAMIC_DISPATCH(pack_any)(dtype, hidden, w_hh, packed);
}
void lstm_backward(const LstmBackwardArgs& args, int64_t begin, int64_t end, void* scratch) noexcept {
  if (begin < end) HWY_DYNAMIC_DISPATCH(run_steps_any)(args, begin, end, scratch);
}

}  // namespace rlx::kernels
#endif  // HWY_ONCE

// See the header. w_hh is transposed into the panels of step_product-inl.h: its rows become columns. Gates are padded
// to whole vectors. f16 and bf16 are computed as f32, but for bf16 where there are matrix tiles or
// dot products of bf16: tiled_steps-inl.h.
#include "kernels/recurrent/recurrent.h"

#include <algorithm>
#include <cstring>

#include "base/rounded_up.h"
#include "kernels/gemm/amx/tiles.h"
#include "kernels/vector/highway_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/recurrent/recurrent.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "kernels/recurrent/step_product-inl.h"
#include "kernels/recurrent/tiled_steps-inl.h"
#include "kernels/vector/narrow_float-inl.h"
#include "kernels/vector/vector_math-inl.h"

// The packed layout, which is the same for every target. Vectors have at most 16 lanes here and panels 4 vectors.
#ifndef RLX_KERNELS_RECURRENT_LAYOUT
#define RLX_KERNELS_RECURRENT_LAYOUT
namespace rlx::kernels {
namespace {
/// Columns of one gate, and of all gates, padded.
int64_t gate_stride(int64_t hidden) { return rounded_up(hidden, 16); }
int64_t row_stride(RecurrentCell cell, int64_t hidden) {
  return rounded_up(recurrent_gates(cell) * gate_stride(hidden), 64);
}
}  // namespace
}  // namespace rlx::kernels
#endif

HWY_BEFORE_NAMESPACE();
namespace rlx::kernels {
namespace HWY_NAMESPACE {
namespace {

template <class T>
using Tag = StepTag<T>;

inline double widened(double v) { return v; }
template <class N>
float widened(N v) {
  return to_f32(v);
}
/// to[i] = from[i] as the other type, of which one may be f16 or bf16.
template <class T>
void copy_numbers(const T* from, int64_t count, T* to) {
  std::memcpy(to, from, static_cast<size_t>(count) * sizeof(T));
}
template <class From, class To>
void copy_numbers(const From* from, int64_t count, To* to) {
  const F32Tag d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) store_f32(load_f32(d, from + i), d, to + i);
  const auto rest = static_cast<size_t>(count - i);
  if (rest > 0) store_f32_some(load_f32_some(d, from + i, rest), d, to + i, rest);
}

/// Packs w[gates * hidden, hidden], transposed, for multiply_step. A vector of columns never spans two gates.
template <class T, class N>
void pack(RecurrentCell cell, int64_t hidden, const N* w, T* packed) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(Tag<T>())), width = panel_width<T>(), gate = gate_stride(hidden),
                columns = row_stride(cell, hidden), gates = recurrent_gates(cell);
  constexpr int64_t kBlock = 16;  // columns of w at a time: what a block reads and writes stays in the L1 cache
  for (int64_t column = 0; column < columns; column += lanes) {
    const int64_t g = column / gate, neuron = column % gate;
    const int64_t count = g < gates ? std::clamp<int64_t>(hidden - neuron, 0, lanes) : 0;
    const N* from = w + (g * hidden + neuron) * hidden;
    T* to = packed + column / width * width * hidden + column % width;
    for (int64_t first = 0; first < hidden; first += kBlock) {
      const int64_t last = std::min(hidden, first + kBlock);
      for (int64_t l = 0; l < count; ++l)
        for (int64_t k = first; k < last; ++k) to[k * width + l] = widened(from[l * hidden + k]);
      for (int64_t l = count; l < lanes; ++l)
        for (int64_t k = first; k < last; ++k) to[k * width + l] = 0;
    }
  }
}

template <class T, class F>
HWY_INLINE void for_vectors(int64_t count, F f) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(Tag<T>()));
  for (int64_t j = 0; j < count; j += lanes) f(j);
}

/// Updates h and c from the sums of a step. If `kKeep`, the gates are also written to `saved_gates`, which may be the
/// sums.
template <bool kKeep, class T>
void lstm_gates(const T* sums, int64_t gate, T* h, T* c, T* saved_gates) {
  const Tag<T> d;
  for_vectors<T>(gate, [&](int64_t j) HWY_ATTR {
    auto at = [&](int64_t g) HWY_ATTR { return hn::LoadU(d, sums + g * gate + j); };
    const auto in = Sigmoid(d, at(0)), forget = Sigmoid(d, at(1)), candidate = Tanh(d, at(2)), out = Sigmoid(d, at(3));
    const auto cell = hn::MulAdd(in, candidate, hn::Mul(forget, hn::LoadU(d, c + j)));
    hn::StoreU(cell, d, c + j);
    hn::StoreU(hn::Mul(out, Tanh(d, cell)), d, h + j);
    if constexpr (kKeep) {
      hn::StoreU(in, d, saved_gates + j), hn::StoreU(forget, d, saved_gates + gate + j);
      hn::StoreU(candidate, d, saved_gates + 2 * gate + j), hn::StoreU(out, d, saved_gates + 3 * gate + j);
    }
  });
}
/// Updates h. `x` is the contribution of the input to gate n, unpadded; the sum's gate n has only the contribution of
/// h.
template <class T>
void gru_gates(const T* sums, const T* x, int64_t gate, T* h) {
  const Tag<T> d;
  for_vectors<T>(gate, [&](int64_t j) HWY_ATTR {
    auto at = [&](int64_t g) HWY_ATTR { return hn::LoadU(d, sums + g * gate + j); };
    const auto z = Sigmoid(d, at(1));
    const auto n = Tanh(d, hn::MulAdd(Sigmoid(d, at(0)), at(2), hn::LoadU(d, x + j)));
    hn::StoreU(hn::MulAdd(z, hn::Sub(hn::LoadU(d, h + j), n), n), d, h + j);
  });
}
template <class T>
void rnn_gates(const T* sums, bool relu, int64_t gate, T* h) {
  const Tag<T> d;
  for_vectors<T>(gate, [&](int64_t j) HWY_ATTR {
    const auto x = hn::LoadU(d, sums + j);
    // The constant is the first operand: x86's max then returns a NaN of x.
    hn::StoreU(relu ? hn::Max(hn::Zero(d), x) : Tanh(d, x), d, h + j);
  });
}

/// T: what is computed in; N: what is in memory.
template <class T, class N>
void run_steps(const RecurrentArgs& a, int64_t begin, int64_t end, T* scratch) {
  const int64_t rows = end - begin, hidden = a.hidden, gate = gate_stride(hidden), columns = row_stride(a.cell, hidden),
                gates = recurrent_gates(a.cell), products = gates * hidden;
  const bool lstm = a.cell == RecurrentCell::lstm, gru = a.cell == RecurrentCell::gru;
  T *h = scratch, *c = h + rows * gate, *sums = c + (lstm ? rows * gate : 0), *bias = sums + rows * columns;
  std::memset(scratch, 0, recurrent_scratch_bytes(a, rows));
  auto fetch = [&](const void* from, T* to) {
    if (!from) return;
    for (int64_t r = 0; r < rows; ++r)
      copy_numbers(static_cast<const N*>(from) + (begin + r) * hidden, hidden, to + r * gate);
  };
  fetch(a.h0, h);
  if (lstm) fetch(a.c0, c);
  if (gru)
    for (int64_t g = 0; g < gates; ++g)
      copy_numbers(static_cast<const N*>(a.b_hh) + g * hidden, hidden, bias + g * gate);

  // Without padding, multiply_step adds to the products directly.
  const bool in_place = !gru && columns == products;
  const Tag<T> d;
  for (int64_t step = 0; step < a.steps; ++step) {
    const int64_t t = a.reverse ? a.steps - 1 - step : step;
    auto product_of = [&](int64_t r) {
      return static_cast<const T*>(a.products) + ((begin + r) * a.steps + t) * products;
    };
    for (int64_t r = 0; r < rows && !in_place; ++r) {
      const T* x = product_of(r);
      T* sum = sums + r * columns;
      if (!gru) {
        for (int64_t g = 0; g < gates; ++g) std::memcpy(sum + g * gate, x + g * hidden, size_t(hidden) * sizeof(T));
        continue;
      }
      for (int64_t g = 0; g < 2; ++g)
        for_vectors<T>(gate, [&](int64_t j) HWY_ATTR {
          hn::StoreU(hn::Add(hn::LoadU(d, x + g * hidden + j), hn::LoadU(d, bias + g * gate + j)), d,
                     sum + g * gate + j);
        });
      std::memcpy(sum + 2 * gate, bias + 2 * gate, size_t(gate) * sizeof(T));
    }
    multiply_step(static_cast<const T*>(a.w_hh), hidden, columns, h, gate, in_place ? product_of(0) : sums,
                  in_place ? a.steps * products : columns, sums, columns, rows);
    for (int64_t r = 0; r < rows; ++r) {
      T *sum = sums + r * columns, *state = h + r * gate;
      if (std::is_same_v<T, N> && lstm && a.gates) {
        const int64_t at = (begin + r) * a.steps + t;
        T* saved_gates = static_cast<T*>(a.gates) + at * products;
        const bool padded = gate != hidden;
        lstm_gates<true>(sum, gate, state, c + r * gate, padded ? sum : saved_gates);
        for (int64_t g = 0; g < gates && padded; ++g)
          std::memcpy(saved_gates + g * hidden, sum + g * gate, size_t(hidden) * sizeof(T));
        std::memcpy(static_cast<T*>(a.cells) + at * hidden, c + r * gate, size_t(hidden) * sizeof(T));
      } else if (lstm) lstm_gates<false>(sum, gate, state, c + r * gate, sum);
      else if (gru) gru_gates(sum, product_of(r) + 2 * hidden, gate, state);
      else rnn_gates(sum, a.cell == RecurrentCell::rnn_relu, gate, state);
      copy_numbers(state, hidden, static_cast<N*>(a.y) + (begin + r) * a.y_batch_stride + t * a.y_step_stride);
    }
  }
  auto deliver = [&](const T* from, void* to) {
    for (int64_t r = 0; r < rows; ++r)
      copy_numbers(from + r * gate, hidden, static_cast<N*>(to) + (begin + r) * hidden);
  };
  deliver(h, a.h_n);
  if (lstm) deliver(c, a.c_n);
}

void pack_any(RecurrentCell cell, DType dtype, int64_t hidden, const void* w, void* packed) {
  const auto as = [&](auto number, auto* to) { pack(cell, hidden, static_cast<const decltype(number)*>(w), to); };
  if (dtype == f64) as(double{}, static_cast<double*>(packed));
  else if (dtype == bf16) as(BF16{}, static_cast<float*>(packed));
  else if (dtype == f16) as(F16{}, static_cast<float*>(packed));
  else as(float{}, static_cast<float*>(packed));
}
void run_steps_any(const RecurrentArgs& a, int64_t begin, int64_t end, void* scratch) {
#if HWY_TARGET == HWY_AVX3 && RLX_HAS_TILES
  if (steps_by_tiles(a.cell, a.dtype)) return run_tiled_steps(a, begin, end, static_cast<char*>(scratch));
#endif
  if (a.dtype == f64) run_steps<double, double>(a, begin, end, static_cast<double*>(scratch));
  else if (a.dtype == bf16) run_steps<float, BF16>(a, begin, end, static_cast<float*>(scratch));
  else if (a.dtype == f16) run_steps<float, F16>(a, begin, end, static_cast<float*>(scratch));
  else run_steps<float, float>(a, begin, end, static_cast<float*>(scratch));
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
/// Of what is computed in.
size_t element_bytes(DType dtype) { return dtype == f64 ? sizeof(double) : sizeof(float); }
}  // namespace

int64_t recurrent_gates(RecurrentCell cell) {
  return cell == RecurrentCell::lstm ? 4 : cell == RecurrentCell::gru ? 3 : 1;
}
size_t recurrent_weight_bytes(RecurrentCell cell, DType dtype, int64_t hidden) {
  if (steps_by_tiles(cell, dtype)) return tiled_step_weight_bytes(recurrent_gates(cell), hidden);
  return static_cast<size_t>(row_stride(cell, hidden) * hidden) * element_bytes(dtype);
}
size_t recurrent_scratch_bytes(const RecurrentArgs& a, int64_t sequences) {
  if (steps_by_tiles(a.cell, a.dtype)) return TiledStepLayout(recurrent_gates(a.cell), a.hidden).total;
  int64_t states = a.cell == RecurrentCell::lstm ? 2 : 1, columns = row_stride(a.cell, a.hidden);
  int64_t bias = a.cell == RecurrentCell::gru ? columns : 0;
  return static_cast<size_t>(sequences * (states * gate_stride(a.hidden) + columns) + bias) * element_bytes(a.dtype);
}
void pack_recurrent(RecurrentCell cell, DType dtype, int64_t hidden, const void* w_hh, void* packed) noexcept {
  if (steps_by_tiles(cell, dtype))
    pack_tiled_step(recurrent_gates(cell), hidden, static_cast<const uint16_t*>(w_hh), static_cast<uint16_t*>(packed));
  else HWY_DYNAMIC_DISPATCH(pack_any)(cell, dtype, hidden, w_hh, packed);
}
void recurrent(const RecurrentArgs& args, int64_t begin, int64_t end, void* scratch) noexcept {
  if (begin < end) HWY_DYNAMIC_DISPATCH(run_steps_any)(args, begin, end, scratch);
}

}  // namespace rlx::kernels
#endif  // HWY_ONCE

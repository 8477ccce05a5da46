// w_hh is transposed into panels of a few vectors of its rows, which are columns then: a step reads the panels one
// after the other, and all sequences at hand use one while it is in L1. Gates are padded to whole vectors.
#include "kernels/recurrent.h"

#include <algorithm>
#include <cstring>

#include "base/rounded_up.h"
#include "kernels/highway_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/recurrent.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "kernels/vector_math-inl.h"

// What every target agrees on. Vectors have at most 16 lanes here, panels 4 of them.
#ifndef RLX_KERNELS_RECURRENT_LAYOUT
#define RLX_KERNELS_RECURRENT_LAYOUT
namespace rlx::kernels {
namespace {
/// A gate's columns, and all gates' columns.
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
using Tag = hn::CappedTag<T, 16>;
constexpr size_t kPanelVectors = 4;
// Rows of h that share a load of the weights: as many as leave registers for them.
constexpr int kTileRows = HWY_MAX_BYTES >= 64 ? 6 : 3;

template <class T>
void pack(RecurrentCell cell, int64_t hidden, const T* w, T* packed) {
  const int64_t width = static_cast<int64_t>(kPanelVectors * hn::Lanes(Tag<T>())), gate = gate_stride(hidden),
                columns = row_stride(cell, hidden), gates = recurrent_gates(cell);
  for (int64_t panel = 0; panel < columns; panel += width)
    for (int64_t k = 0; k < hidden; ++k)
      for (int64_t j = panel; j < panel + width; ++j) {
        const int64_t g = j / gate, unit = j % gate;
        *packed++ = g < gates && unit < hidden ? w[(g * hidden + unit) * hidden + k] : T(0);
      }
}

/// sums[row, panel] += h[row, :] * panel for `Rows` rows.
template <int Rows, class T>
HWY_INLINE void multiply_tile(const T* panel, int64_t hidden, const T* h, int64_t h_stride, T* sums, int64_t stride) {
  const Tag<T> d;
  const size_t lanes = hn::Lanes(d);
  using V = hn::Vec<Tag<T>>;
  // One row has too few sums to hide an addition's latency: it takes two steps of k at a time.
  constexpr int kChains = Rows == 1 ? 2 : 1;
  V sum[Rows * kChains][kPanelVectors];
  RLX_UNROLL
  for (int r = 0; r < Rows; ++r) RLX_UNROLL
  for (size_t v = 0; v < kPanelVectors; ++v) {
    sum[r][v] = hn::LoadU(d, sums + r * stride + v * lanes);
    if (kChains == 2) sum[kChains - 1][v] = hn::Zero(d);
  }
  int64_t k = 0;
  if constexpr (kChains == 2) {
    for (; k + 2 <= hidden; k += 2) {
      const V first = hn::Set(d, h[k]), second = hn::Set(d, h[k + 1]);
      RLX_UNROLL
      for (size_t v = 0; v < kPanelVectors; ++v) {
        sum[0][v] = hn::MulAdd(first, hn::Load(d, panel + v * lanes), sum[0][v]);
        sum[1][v] = hn::MulAdd(second, hn::Load(d, panel + (kPanelVectors + v) * lanes), sum[1][v]);
      }
      panel += 2 * kPanelVectors * lanes;
    }
  }
  for (; k < hidden; ++k) {
    V w[kPanelVectors];
    RLX_UNROLL
    for (size_t v = 0; v < kPanelVectors; ++v) w[v] = hn::Load(d, panel + v * lanes);
    RLX_UNROLL
    for (int r = 0; r < Rows; ++r) {
      const V x = hn::Set(d, h[r * h_stride + k]);
      RLX_UNROLL
      for (size_t v = 0; v < kPanelVectors; ++v) sum[r][v] = hn::MulAdd(x, w[v], sum[r][v]);
    }
    panel += kPanelVectors * lanes;
  }
  RLX_UNROLL
  for (int r = 0; r < Rows; ++r) RLX_UNROLL
  for (size_t v = 0; v < kPanelVectors; ++v) {
    V total = sum[r][v];
    if (kChains == 2) total = hn::Add(total, sum[kChains - 1][v]);
    hn::StoreU(total, d, sums + r * stride + v * lanes);
  }
}

/// sums[rows, columns] += h[rows, hidden] * the packed weights.
template <class T>
void multiply(const T* packed, int64_t hidden, int64_t columns, const T* h, int64_t h_stride, T* sums, int64_t rows) {
  const int64_t width = static_cast<int64_t>(kPanelVectors * hn::Lanes(Tag<T>()));
  for (int64_t panel = 0; panel < columns; panel += width, packed += hidden * width) {
    int64_t r = 0;
    auto tile = [&]<int kRows>() {
      multiply_tile<kRows>(packed, hidden, h + r * h_stride, h_stride, sums + r * columns + panel, columns);
      r += kRows;
    };
    while (r + kTileRows <= rows) tile.template operator()<kTileRows>();
    if (kTileRows > 3 && r + 3 <= rows) tile.template operator()<3>();
    if (r + 2 <= rows) tile.template operator()<2>();
    if (r < rows) tile.template operator()<1>();
  }
}

template <class T, class F>
HWY_INLINE void for_vectors(int64_t count, F f) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(Tag<T>()));
  for (int64_t j = 0; j < count; j += lanes) f(j);
}

template <class T>
void lstm_gates(const T* sums, int64_t gate, T* h, T* c) {
  const Tag<T> d;
  for_vectors<T>(gate, [&](int64_t j) HWY_ATTR {
    auto at = [&](int64_t g) HWY_ATTR { return hn::LoadU(d, sums + g * gate + j); };
    const auto kept = hn::Mul(Sigmoid(d, at(1)), hn::LoadU(d, c + j));
    const auto cell = hn::MulAdd(Sigmoid(d, at(0)), Tanh(d, at(2)), kept);
    hn::StoreU(cell, d, c + j);
    hn::StoreU(hn::Mul(Sigmoid(d, at(3)), Tanh(d, cell)), d, h + j);
  });
}
/// `x` is the products' n, not padded; the sums' n is that of h.
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
    // The constant first: x86 then passes on a NaN.
    hn::StoreU(relu ? hn::Max(hn::Zero(d), x) : Tanh(d, x), d, h + j);
  });
}

template <class T>
void run(const RecurrentArgs& a, int64_t begin, int64_t end, T* scratch) {
  const int64_t rows = end - begin, hidden = a.hidden, gate = gate_stride(hidden), columns = row_stride(a.cell, hidden),
                gates = recurrent_gates(a.cell), products = gates * hidden;
  const bool lstm = a.cell == RecurrentCell::lstm, gru = a.cell == RecurrentCell::gru;
  T *h = scratch, *c = h + rows * gate, *sums = c + (lstm ? rows * gate : 0), *bias = sums + rows * columns;
  std::memset(scratch, 0, recurrent_scratch_bytes(a, rows));
  auto fetch = [&](const void* from, T* to) {
    if (!from) return;
    for (int64_t r = 0; r < rows; ++r)
      std::copy_n(static_cast<const T*>(from) + (begin + r) * hidden, hidden, to + r * gate);
  };
  fetch(a.h0, h);
  if (lstm) fetch(a.c0, c);
  if (gru)
    for (int64_t g = 0; g < gates; ++g)
      std::copy_n(static_cast<const T*>(a.b_hh) + g * hidden, hidden, bias + g * gate);

  const Tag<T> d;
  for (int64_t step = 0; step < a.steps; ++step) {
    const int64_t t = a.reverse ? a.steps - 1 - step : step;
    auto product_of = [&](int64_t r) {
      return static_cast<const T*>(a.products) + ((begin + r) * a.steps + t) * products;
    };
    for (int64_t r = 0; r < rows; ++r) {
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
    multiply(static_cast<const T*>(a.w_hh), hidden, columns, h, gate, sums, rows);
    for (int64_t r = 0; r < rows; ++r) {
      T *sum = sums + r * columns, *state = h + r * gate;
      if (lstm) lstm_gates(sum, gate, state, c + r * gate);
      else if (gru) gru_gates(sum, product_of(r) + 2 * hidden, gate, state);
      else rnn_gates(sum, a.cell == RecurrentCell::rnn_relu, gate, state);
      std::memcpy(static_cast<T*>(a.y) + (begin + r) * a.y_batch_stride + t * a.y_step_stride, state,
                  size_t(hidden) * sizeof(T));
    }
  }
  auto deliver = [&](const T* from, void* to) {
    for (int64_t r = 0; r < rows; ++r) std::copy_n(from + r * gate, hidden, static_cast<T*>(to) + (begin + r) * hidden);
  };
  deliver(h, a.h_n);
  if (lstm) deliver(c, a.c_n);
}

void pack_any(RecurrentCell cell, DType dtype, int64_t hidden, const void* w, void* packed) {
  if (dtype == f64) pack(cell, hidden, static_cast<const double*>(w), static_cast<double*>(packed));
  else pack(cell, hidden, static_cast<const float*>(w), static_cast<float*>(packed));
}
void run_any(const RecurrentArgs& a, int64_t begin, int64_t end, void* scratch) {
  if (a.dtype == f64) run(a, begin, end, static_cast<double*>(scratch));
  else run(a, begin, end, static_cast<float*>(scratch));
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace rlx::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rlx::kernels {
namespace {
HWY_EXPORT(pack_any);
HWY_EXPORT(run_any);
size_t element_bytes(DType dtype) { return dtype == f64 ? sizeof(double) : sizeof(float); }
}  // namespace

int64_t recurrent_gates(RecurrentCell cell) {
  return cell == RecurrentCell::lstm ? 4 : cell == RecurrentCell::gru ? 3 : 1;
}
size_t recurrent_weight_bytes(RecurrentCell cell, DType dtype, int64_t hidden) {
  return static_cast<size_t>(row_stride(cell, hidden) * hidden) * element_bytes(dtype);
}
size_t recurrent_scratch_bytes(const RecurrentArgs& a, int64_t sequences) {
  int64_t states = a.cell == RecurrentCell::lstm ? 2 : 1, columns = row_stride(a.cell, a.hidden);
  int64_t bias = a.cell == RecurrentCell::gru ? columns : 0;
  return static_cast<size_t>(sequences * (states * gate_stride(a.hidden) + columns) + bias) * element_bytes(a.dtype);
}
void pack_recurrent(RecurrentCell cell, DType dtype, int64_t hidden, const void* w_hh, void* packed) noexcept {
  HWY_DYNAMIC_DISPATCH(pack_any)(cell, dtype, hidden, w_hh, packed);
}
void recurrent(const RecurrentArgs& args, int64_t begin, int64_t end, void* scratch) noexcept {
  if (begin < end) HWY_DYNAMIC_DISPATCH(run_any)(args, begin, end, scratch);
}

}  // namespace rlx::kernels
#endif  // HWY_ONCE

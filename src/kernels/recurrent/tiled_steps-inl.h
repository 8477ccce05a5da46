// The steps of an lstm or a gru whose weights and states are bf16, by matrix tiles (gemm/amx/tiles.h), or by dot
// products of bf16 in their place (gemm/fma/dot_tiles.h). A group is 16 hidden units, the columns of a tile, with all
// of their gates. The rows of a tile are up to 16 sequences. While tiles multiply h with the weights of a group,
// vectors compute the gates of the group before it, a gate after each tile product. The weights are packed in the order
// in which they are read, once for all steps. Included once per target by recurrent.cpp; the steps are compiled for
// AVX-512 alone.
#if defined(RLX_KERNELS_RECURRENT_TILED_STEPS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef RLX_KERNELS_RECURRENT_TILED_STEPS_INL_H_
#undef RLX_KERNELS_RECURRENT_TILED_STEPS_INL_H_
#else
#define RLX_KERNELS_RECURRENT_TILED_STEPS_INL_H_
#endif

#include <algorithm>
#include <cstring>
#include <optional>

#include "base/rounded_up.h"
#include "hwy/highway.h"
#include "kernels/gemm/amx/interleaved-inl.h"
#include "kernels/gemm/amx/tiles.h"
#include "kernels/gemm/fma/dot_tiles.h"
#include "kernels/recurrent/recurrent.h"
#include "kernels/vector/elementary-inl.h"
#include "kernels/vector/narrow_float-inl.h"

#ifndef RLX_KERNELS_RECURRENT_TILED_STEPS_ONCE
#define RLX_KERNELS_RECURRENT_TILED_STEPS_ONCE
namespace rlx::kernels {

/// Whether the steps of such a cell are computed here. Those of an rnn are not, as it has only one gate.
inline bool steps_by_tiles(RecurrentCell cell, DType dtype) {
  return dtype == bf16 && (cell == RecurrentCell::lstm || cell == RecurrentCell::gru) &&
         (has_matrix_tiles() || has_bf16_tile_dots());
}

/// The layout of scratch: `state`, `sums` and `bias` are offsets in bytes, multiples of 64. It begins with two copies
/// of h, of h_bytes each: a step reads one and writes the other.
struct TiledStepLayout {
  int64_t groups, steps;               ///< of 16 units; of tiles along k
  int64_t row_bytes, units;            ///< of a row of h; units padded to whole groups
  int64_t state, sums, bias, h_bytes;  ///< state: of an lstm c, of a gru h in f32
  size_t total;

  TiledStepLayout(int64_t gates, int64_t hidden)
      : groups(divided_up(hidden, kTileRows)), steps(tile_steps(hidden)), row_bytes(steps * kTileFloats * 2),
        units(groups * kTileRows) {
    h_bytes = kTileRows * row_bytes;
    state = 2 * h_bytes;
    sums = state + kTileRows * units * 4;
    bias = sums + 2 * gates * kTileBytes;
    total = static_cast<size_t>(bias + gates * units * 4);
  }
};

inline size_t tiled_step_weight_bytes(int64_t gates, int64_t hidden) {
  const TiledStepLayout at(gates, hidden);
  return static_cast<size_t>(at.groups * at.steps * gates * kTileBytes);
}
/// Of each group, step by step along k, a tile of each gate: pairs of elements along k of 16 columns.
inline void pack_tiled_step(int64_t gates, int64_t hidden, const uint16_t* w, uint16_t* packed) {
  const TiledStepLayout at(gates, hidden);
  for (int64_t unit = 0; unit < hidden; unit += kTileRows)
    for (int64_t k = 0; k < hidden; k += kTileFloats)
      for (int64_t gate = 0; gate < gates; ++gate, packed += kTileBytes / 2) {
        std::memset(packed, 0, kTileBytes);
        for (int64_t column = 0; column < std::min(kTileRows, hidden - unit); ++column) {
          const uint16_t* const from = w + (gate * hidden + unit + column) * hidden + k;
          for (int64_t p = 0; p < std::min(kTileFloats, hidden - k); ++p)
            packed[(p / 2 * kTileRows + column) * 2 + p % 2] = from[p];
        }
      }
}

}  // namespace rlx::kernels
#endif  // RLX_KERNELS_RECURRENT_TILED_STEPS_ONCE

#if HWY_TARGET == HWY_AVX3 && RLX_HAS_TILES
HWY_BEFORE_NAMESPACE();
namespace rlx::kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// 1 / (1 + e^-x) with an error of at most 2^-21, relative and absolute, but for results below 2^-125.
HWY_INLINE F32Vec quick_sigmoid(F32Vec x) {
  const F32Tag d;
  // Constants are first operands, as x86 propagates only a second operand's NaN.
  const F32Vec y = hn::Min(hn::Set(d, 126.0f), hn::Max(hn::Set(d, -126.0f), hn::Mul(x, hn::Set(d, -0x1.715476p+0f))));
  const F32Vec magic = hn::Set(d, 12582912.0f), n = hn::Sub(hn::Add(y, magic), magic), r = hn::Sub(y, n);
  // The polynomial of Exp2Nonpositive().
  const F32Vec p =
      horner(d, r, 1.0f, 0.693146977738f, 0.240222422176f, 0.0555073348446f, 0.00967150644708f, 0.00132648171459f);
  return quick_reciprocal(d, hn::Add(hn::Set(d, 1.0f), ScaleByPowerOfTwo(d, p, n)));
}
/// tanh x with a relative error of at most 2^-18: 2 sigmoid(2 x) - 1, which cancels near 0, where a series is.
HWY_INLINE F32Vec quick_tanh(F32Vec x) {
  const F32Tag d;
  const F32Vec z = hn::Mul(x, x);
  const F32Vec p = horner(d, z, -0x1.555556p-2f, 0x1.111112p-3f, -0x1.ba1ba2p-5f);
  const F32Vec series = hn::MulAdd(hn::Mul(x, z), p, x);
  const F32Vec beyond = hn::MulSub(hn::Set(d, 2.0f), quick_sigmoid(hn::Add(x, x)), hn::Set(d, 1.0f));
  return hn::IfThenElse(hn::Lt(hn::Abs(x), hn::Set(d, 0.125f)), series, beyond);
}

/// The gates of a group of units, sequence by sequence. Each gate is computed in a call of its own.
template <bool kIsLstm>
struct TiledGates {
  static constexpr int64_t kGates = kIsLstm ? 4 : 3;
  // Of the group's first unit and the block's first sequence.
  const float *sums, *x, *next_x, *bias;  ///< next_x: of the next step, to prefetch
  int64_t x_stride, gate_stride;          ///< of x: between sequences, between gates
  int64_t bias_stride, state_stride, h_stride;
  float* state;
  BF16* h;
  int64_t units;  ///< up to 16
  F32Vec first, second;

  template <int64_t kGate>
  HWY_INLINE F32Vec sum_of(int64_t row) const {
    const F32Tag d;
    return hn::Load(d, sums + (kGate * kTileRows + row) * kTileRows);
  }
  template <int64_t kGate>
  HWY_INLINE F32Vec x_of(int64_t row) const {
    const F32Tag d;
    const int64_t at = row * x_stride + kGate * gate_stride;
    __builtin_prefetch(next_x + at);
    return hn::LoadU(d, x + at);
  }
  HWY_INLINE void store(int64_t row, F32Vec v) const {
    const F32Tag d;
    BF16* const to = h + row * h_stride;
    if (units == kTileRows) store_f32(v, d, to);
    else store_f32_some(v, d, to, static_cast<size_t>(units));
  }

  template <int64_t kGate>
  HWY_INLINE void advance(int64_t row) {
    const F32Tag d;
    float* const at = state + row * state_stride;
    if constexpr (kIsLstm) {
      const F32Vec sum = hn::Add(sum_of<kGate>(row), x_of<kGate>(row));
      if constexpr (kGate == 0) first = quick_sigmoid(sum);
      else if constexpr (kGate == 1) second = hn::Mul(quick_sigmoid(sum), hn::Load(d, at));
      else if constexpr (kGate == 2) {
        first = hn::MulAdd(first, quick_tanh(sum), second);
        hn::Store(first, d, at);
      } else {
        store(row, hn::Mul(quick_sigmoid(sum), quick_tanh(first)));
      }
    } else {
      const F32Vec of_h = hn::Add(sum_of<kGate>(row), hn::Load(d, bias + kGate * bias_stride)), of_x = x_of<kGate>(row);
      if constexpr (kGate == 0) first = quick_sigmoid(hn::Add(of_h, of_x));
      else if constexpr (kGate == 1) second = quick_sigmoid(hn::Add(of_h, of_x));
      else {
        const F32Vec candidate = quick_tanh(hn::MulAdd(first, of_h, of_x));
        const F32Vec next = hn::MulAdd(second, hn::Sub(hn::Load(d, at), candidate), candidate);
        hn::Store(next, d, at);
        store(row, next);
      }
    }
  }
  HWY_INLINE void complete(int64_t row) {
    advance<0>(row), advance<1>(row), advance<2>(row);
    if constexpr (kIsLstm) advance<3>(row);
  }
};

/// What multiply_row_block() computes, by dot products, for `rows` rows.
inline void multiply_row_block_by_dots(int64_t tiles, int64_t steps, int64_t rows, const char* data, int64_t stride,
                                       const char* right, float* sums) {
  DotTiles dots;
  dots.steps = steps, dots.right = right, dots.sums = sums, dots.tile_stride = kTileRows * kTileRows;
  for (int64_t r = 0; r < rows; ++r) dots.add_row(data + r * stride, r * kTileRows);
  multiply_dot_tiles(dots, tiles);
}

/// All steps of up to 16 sequences from `begin` on.
template <bool kIsLstm>
void run_tiled_block(const RecurrentArgs& a, int64_t begin, int64_t rows, char* scratch) {
  constexpr int64_t kGates = TiledGates<kIsLstm>::kGates;
  const TiledStepLayout at(kGates, a.hidden);
  const F32Tag d;
  std::memset(scratch, 0, at.total);
  auto* const state = reinterpret_cast<float*>(scratch + at.state);
  auto* const bias = reinterpret_cast<float*>(scratch + at.bias);
  const auto h_of = [&](int64_t half, int64_t row) {
    return reinterpret_cast<BF16*>(scratch + half * at.h_bytes + row * at.row_bytes);
  };
  const auto bf16_row = [&](const void* of, int64_t row) {
    return static_cast<const BF16*>(of) + (begin + row) * a.hidden;
  };
  const auto hidden_bytes = static_cast<size_t>(a.hidden) * sizeof(BF16);
  const auto widen = [&](const BF16* from, float* to) HWY_ATTR {
    for (int64_t j = 0; j < a.hidden; ++j) to[j] = to_f32(from[j]);
  };
  for (int64_t r = 0; r < rows && a.h0; ++r) std::memcpy(h_of(0, r), bf16_row(a.h0, r), hidden_bytes);
  const void* const first_state = kIsLstm ? a.c0 : a.h0;
  for (int64_t r = 0; r < rows && first_state; ++r) widen(bf16_row(first_state, r), state + r * at.units);
  if constexpr (!kIsLstm)
    for (int64_t g = 0; g < kGates; ++g) widen(static_cast<const BF16*>(a.b_hh) + g * a.hidden, bias + g * at.units);

  const int64_t group_bytes = at.steps * kGates * kTileBytes, width = kGates * a.hidden;
  TiledGates<kIsLstm> gates{};
  gates.x_stride = a.steps * width, gates.gate_stride = a.hidden, gates.bias_stride = gates.state_stride = at.units;
  gates.h_stride = at.row_bytes / 2;
  const bool by_tiles = has_matrix_tiles();
  std::optional<TileScope> scope;
  if (by_tiles) scope.emplace();
  for (int64_t step = 0; step < a.steps; ++step) {
    const auto time_of = [&](int64_t s) { return a.reverse ? a.steps - 1 - s : s; };
    const int64_t t = time_of(step), next_t = time_of(std::min(step + 1, a.steps - 1)), now = step % 2;
    const float* const x = static_cast<const float*>(a.products) + begin * a.steps * width;
    const auto set_group = [&](int64_t group) {
      const int64_t unit = group * kTileRows;
      gates.sums = reinterpret_cast<const float*>(scratch + at.sums) + group % 2 * kGates * kTileRows * kTileRows;
      gates.x = x + t * width + unit, gates.next_x = x + next_t * width + unit;
      gates.bias = bias + unit, gates.state = state + unit, gates.h = h_of(1 - now, 0) + unit;
      gates.units = std::min(kTileRows, a.hidden - unit);
    };
    for (int64_t group = 0; group < at.groups; ++group) {
      const int64_t waiting = group > 0 ? rows : 0;  // rows whose gates of the group before are to be computed
      auto* const sums = reinterpret_cast<float*>(scratch + at.sums) + group % 2 * kGates * kTileRows * kTileRows;
      const char* const weights = static_cast<const char*>(a.w_hh) + group * group_bytes;
      if (!by_tiles) {
        multiply_row_block_by_dots(kGates, at.steps, rows, scratch + now * at.h_bytes, at.row_bytes, weights, sums);
        for (int64_t r = 0; r < waiting; ++r) gates.complete(r);
        set_group(group);
        continue;
      }
      multiply_row_block<kGates>(
          at.steps, scratch + now * at.h_bytes, at.row_bytes, weights,
          sums, [&](int64_t k, auto gate) HWY_ATTR __attribute__((always_inline)) {
            if (k < waiting) gates.template advance<decltype(gate)::value>(k);
          });
      for (int64_t r = at.steps; r < waiting; ++r) gates.complete(r);
      set_group(group);
    }
    for (int64_t r = 0; r < rows; ++r) gates.complete(r);
    for (int64_t r = 0; r < rows; ++r)
      std::memcpy(static_cast<BF16*>(a.y) + (begin + r) * a.y_batch_stride + t * a.y_step_stride, h_of(1 - now, r),
                  hidden_bytes);
  }
  for (int64_t r = 0; r < rows; ++r) {
    std::memcpy(static_cast<BF16*>(a.h_n) + (begin + r) * a.hidden, h_of(a.steps % 2, r), hidden_bytes);
    if (!kIsLstm) continue;
    BF16* const c_n = static_cast<BF16*>(a.c_n) + (begin + r) * a.hidden;
    for (int64_t j = 0; j < a.hidden; ++j) c_n[j] = to_bf16(state[r * at.units + j]);
  }
}

inline void run_tiled_steps(const RecurrentArgs& a, int64_t begin, int64_t end, char* scratch) {
  for (; begin < end; begin += kTileRows) {
    const int64_t rows = std::min(kTileRows, end - begin);
    if (a.cell == RecurrentCell::lstm) run_tiled_block<true>(a, begin, rows, scratch);
    else run_tiled_block<false>(a, begin, rows, scratch);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace rlx::kernels
HWY_AFTER_NAMESPACE();
#endif

#endif  // RLX_KERNELS_RECURRENT_TILED_STEPS_INL_H_

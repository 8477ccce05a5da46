// See the header. States are in scratch as [rows, kStateColumns]; columns beyond the block are zero, so every loop runs
// over whole vectors, whatever the extents, and a sum over rows needs no shuffles.
#include "kernels/recurrent/linear_recurrence.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/vector/highway_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/recurrent/linear_recurrence.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "kernels/vector/vector_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace rlx::kernels {
namespace HWY_NAMESPACE {
namespace {

template <class T>
using Tag = hn::CappedTag<T, 16>;

template <class T, class F>
HWY_INLINE void for_vectors(int64_t count, F f) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(Tag<T>()));
  for (int64_t j = 0; j < count; j += lanes) f(j);
}

template <class T>
T* offset(void* p, int64_t elements) {
  return static_cast<T*>(p) + elements;
}
template <class T>
const T* offset(const void* p, int64_t elements) {
  return static_cast<const T*>(p) + elements;
}

/// The columns of a task: the first, how many, and how many with padding to whole vectors.
struct Block {
  int64_t first, count, padded;
  Block(int64_t task, int64_t blocks, int64_t all)
      : first(task % blocks * kStateColumns), count(std::min(kStateColumns, all - first)),
        padded((count + 15) / 16 * 16) {}
};

/// A thread's scratch: the state, as many further rows (for `a` or the decays), and four rows for copies.
template <class T>
struct Scratch {
  T *state, *more, *rows[4];
  Scratch(void* at, int64_t n) : state(static_cast<T*>(at)), more(state + n * kStateColumns) {
    for (int i = 0; i < 4; ++i) rows[i] = more + (n + i) * kStateColumns;
    std::memset(at, 0, static_cast<size_t>(2 * n + 4) * kStateColumns * sizeof(T));
  }
};

/// Converts a state from the caller's layout, in which the n numbers of a column are contiguous, to one in which the
/// columns of a row are. The function below converts back.
template <class T>
void columns_to_rows(const T* from, const Block& block, int64_t n, T* to) {
  for (int64_t c = 0; c < block.count; ++c)
    for (int64_t i = 0; i < n; ++i) to[i * kStateColumns + c] = from[c * n + i];
}
template <class T>
void rows_to_columns(const T* from, const Block& block, int64_t n, T* to) {
  for (int64_t c = 0; c < block.count; ++c)
    for (int64_t i = 0; i < n; ++i) to[c * n + i] = from[i * kStateColumns + c];
}

// A row of one step, copied if it does not end at a whole vector.
template <class T>
const T* padded_row(const T* from, const Block& block, T* copy) {
  if (block.count == block.padded) return from;
  std::memcpy(copy, from, static_cast<size_t>(block.count) * sizeof(T));
  return copy;
}

template <class T>
void selective(const SelectiveScanArgs& a, int64_t begin, int64_t end, void* scratch) {
  const Tag<T> d;
  for (int64_t task = begin; task < end; ++task) {
    const int64_t batch = task / a.blocks(), n = a.n;
    const Block block(task, a.blocks(), a.channels);
    Scratch<T> s(scratch, n);
    columns_to_rows(offset<T>(a.a, block.first * n), block, n, s.more);
    const int64_t state_at = (batch * a.channels + block.first) * n;
    if (a.state) columns_to_rows(offset<T>(a.state, state_at), block, n, s.state);
    for (int64_t t = 0; t < a.steps; ++t) {
      const int64_t token = batch * a.steps + t, at = token * a.channels + block.first;
      const T* x = padded_row(offset<T>(a.x, at), block, s.rows[0]);
      const T* delta = padded_row(offset<T>(a.delta, at), block, s.rows[1]);
      const T *b = offset<T>(a.b, token * n), *c = offset<T>(a.c, token * n);
      T* y = s.rows[2];
      for_vectors<T>(block.padded, [&](int64_t j) HWY_ATTR {
        const auto step = hn::LoadU(d, delta + j);
        const auto input = hn::Mul(step, hn::LoadU(d, x + j));
        auto sum = hn::Zero(d);
        for (int64_t i = 0; i < n; ++i) {
          T* state = s.state + i * kStateColumns + j;
          const auto decay = Exp(d, hn::Mul(step, hn::Load(d, s.more + i * kStateColumns + j)));
          const auto next = hn::MulAdd(decay, hn::Load(d, state), hn::Mul(input, hn::Set(d, b[i])));
          hn::Store(next, d, state);
          sum = hn::MulAdd(next, hn::Set(d, c[i]), sum);
        }
        hn::Store(sum, d, y + j);
      });
      std::memcpy(offset<T>(a.y, at), y, static_cast<size_t>(block.count) * sizeof(T));
    }
    rows_to_columns(s.state, block, n, offset<T>(a.last_state, state_at));
  }
}

template <class T>
void mamba(const Mamba2Args& a, int64_t begin, int64_t end, void* scratch) {
  const Tag<T> d;
  for (int64_t task = begin; task < end; ++task) {
    const int64_t batch = task / a.blocks() / a.heads, head = task / a.blocks() % a.heads, n = a.n;
    const Block block(task, a.blocks(), a.width);
    Scratch<T> s(scratch, n);
    const int64_t state_at = ((batch * a.heads + head) * a.width + block.first) * n;
    if (a.state) columns_to_rows(offset<T>(a.state, state_at), block, n, s.state);
    const T rate = *offset<T>(a.a, head);
    for (int64_t t = 0; t < a.steps; ++t) {
      const int64_t token = (batch * a.steps + t) * a.heads + head, at = token * a.width + block.first;
      const T step = *offset<T>(a.dt, token);
      const auto decay = hn::Set(d, std::exp(step * rate)), scale = hn::Set(d, step);
      const T* x = padded_row(offset<T>(a.x, at), block, s.rows[0]);
      const T *b = offset<T>(a.b, token * n), *c = offset<T>(a.c, token * n);
      T* y = s.rows[1];
      for_vectors<T>(block.padded, [&](int64_t j) HWY_ATTR {
        const auto input = hn::Mul(scale, hn::LoadU(d, x + j));
        auto even = hn::Zero(d), odd = hn::Zero(d);
        auto row = [&](int64_t i) HWY_ATTR {
          T* state = s.state + i * kStateColumns + j;
          const auto next = hn::MulAdd(decay, hn::Load(d, state), hn::Mul(input, hn::Set(d, b[i])));
          hn::Store(next, d, state);
          return hn::Mul(next, hn::Set(d, c[i]));
        };
        int64_t i = 0;
        for (; i + 2 <= n; i += 2) even = hn::Add(even, row(i)), odd = hn::Add(odd, row(i + 1));
        if (i < n) even = hn::Add(even, row(i));
        hn::Store(hn::Add(even, odd), d, y + j);
      });
      std::memcpy(offset<T>(a.y, at), y, static_cast<size_t>(block.count) * sizeof(T));
    }
    rows_to_columns(s.state, block, n, offset<T>(a.last_state, state_at));
  }
}

template <class T>
void delta_rule(const GatedDeltaNetArgs& a, int64_t begin, int64_t end, void* scratch) {
  const Tag<T> d;
  for (int64_t task = begin; task < end; ++task) {
    const int64_t batch = task / a.blocks() / a.heads, head = task / a.blocks() % a.heads, n = a.n;
    const Block block(task, a.blocks(), a.m);
    Scratch<T> s(scratch, n);
    const int64_t state_at = (batch * a.heads + head) * n * a.m + block.first;
    const auto row_bytes = static_cast<size_t>(block.count) * sizeof(T);
    if (a.state)
      for (int64_t i = 0; i < n; ++i)
        std::memcpy(s.state + i * kStateColumns, offset<T>(a.state, state_at + i * a.m), row_bytes);
    const auto scale = hn::Set(d, static_cast<T>(1 / std::sqrt(static_cast<double>(n))));
    T* decays = s.more;  // exp(g) of each row
    for (int64_t t = 0; t < a.steps; ++t) {
      const int64_t token = (batch * a.steps + t) * a.heads + head, at = token * a.m + block.first;
      const T *q = offset<T>(a.q, token * n), *k = offset<T>(a.k, token * n);
      const T* v = padded_row(offset<T>(a.v, at), block, s.rows[0]);
      const T beta = *offset<T>(a.beta, token);
      if (a.gate_per_channel)
        for (int64_t i = 0; i < n; ++i) decays[i] = std::exp(offset<T>(a.g, token * n)[i]);
      else std::fill_n(decays, n, std::exp(*offset<T>(a.g, token)));
      T* y = s.rows[1];
      for_vectors<T>(block.padded, [&](int64_t j) HWY_ATTR {
        auto recalled = hn::Zero(d), out = hn::Zero(d);
        for (int64_t i = 0; i < n; ++i) {
          T* state = s.state + i * kStateColumns + j;
          const auto decayed = hn::Mul(hn::Load(d, state), hn::Set(d, decays[i]));
          hn::Store(decayed, d, state);
          recalled = hn::MulAdd(decayed, hn::Set(d, k[i]), recalled);
        }
        const auto correction = hn::Mul(hn::Sub(hn::LoadU(d, v + j), recalled), hn::Set(d, beta));
        for (int64_t i = 0; i < n; ++i) {
          T* state = s.state + i * kStateColumns + j;
          const auto next = hn::MulAdd(correction, hn::Set(d, k[i]), hn::Load(d, state));
          hn::Store(next, d, state);
          out = hn::MulAdd(next, hn::Set(d, q[i]), out);
        }
        hn::Store(n > 0 ? hn::Mul(out, scale) : out, d, y + j);
      });
      std::memcpy(offset<T>(a.y, at), y, row_bytes);
    }
    for (int64_t i = 0; i < n; ++i)
      std::memcpy(offset<T>(a.last_state, state_at + i * a.m), s.state + i * kStateColumns, row_bytes);
  }
}

void selective_any(const SelectiveScanArgs& a, int64_t begin, int64_t end, void* scratch) {
  if (a.dtype == f64) selective<double>(a, begin, end, scratch);
  else selective<float>(a, begin, end, scratch);
}
void mamba_any(const Mamba2Args& a, int64_t begin, int64_t end, void* scratch) {
  if (a.dtype == f64) mamba<double>(a, begin, end, scratch);
  else mamba<float>(a, begin, end, scratch);
}
void delta_any(const GatedDeltaNetArgs& a, int64_t begin, int64_t end, void* scratch) {
  if (a.dtype == f64) delta_rule<double>(a, begin, end, scratch);
  else delta_rule<float>(a, begin, end, scratch);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace rlx::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rlx::kernels {
namespace {
HWY_EXPORT(selective_any);
HWY_EXPORT(mamba_any);
HWY_EXPORT(delta_any);
}  // namespace

size_t linear_recurrence_scratch_bytes(DType dtype, int64_t rows) {
  return static_cast<size_t>((2 * rows + 4) * kStateColumns) * (dtype == f64 ? sizeof(double) : sizeof(float));
}
void selective_scan(const SelectiveScanArgs& args, int64_t begin, int64_t end, void* scratch) noexcept {
  HWY_DYNAMIC_DISPATCH(selective_any)(args, begin, end, scratch);
}
void mamba2(const Mamba2Args& args, int64_t begin, int64_t end, void* scratch) noexcept {
  HWY_DYNAMIC_DISPATCH(mamba_any)(args, begin, end, scratch);
}
void gated_delta_net(const GatedDeltaNetArgs& args, int64_t begin, int64_t end, void* scratch) noexcept {
  HWY_DYNAMIC_DISPATCH(delta_any)(args, begin, end, scratch);
}

}  // namespace rlx::kernels
#endif  // HWY_ONCE

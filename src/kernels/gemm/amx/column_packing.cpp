// See the header. f32 = high + middle + low by truncation: each term is the upper 16 bits of the remainder, which is 0
// after three. The rows' terms are rounded, so that the products that are left out have either sign. The first block of
// rows multiplies each step along k while the next step is split. If there is one block of rows, only two steps are
// stored, which stay in the first-level cache; else all steps of a block and the first of the next.
#include "kernels/gemm/amx/column_packing.h"

#include <algorithm>

#include "base/rounded_up.h"
#include "kernels/vector/highway_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/gemm/amx/column_packing.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "kernels/gemm/amx/interleaved-inl.h"

#ifndef RLX_KERNELS_TILED_COLUMNS_ONCE
#define RLX_KERNELS_TILED_COLUMNS_ONCE
namespace rlx::kernels {
namespace {

constexpr int64_t kProducts = 6;  // products of bf16 terms in a step along k
constexpr int64_t kStepBytes = 6 * kTileBytes;
/// Columns of a stream are prefetched this many bytes before they are split.
constexpr int64_t kPrefetchBytes = 96 << 10;
constexpr int64_t kStepCacheLines = kTileFloats * kTiledColumns * 4 / 64;  // of a step's columns

/// The rows of a product, 16 or with `lower` 32, and where its sums go.
struct TiledRows {
  const char *upper, *lower;
  int64_t steps;
  float* sums;
  int64_t stride;
};
/// A ring of packed steps; `at` is where the current block begins.
struct Slots {
  char *begin, *end, *at;
  char* behind(char* slot) const { return slot + kStepBytes == end ? begin : slot + kStepBytes; }
};

}  // namespace
}  // namespace rlx::kernels
#endif

// What the vectors do between products must stay in registers.
#undef RLX_INLINE_LAMBDA
#define RLX_INLINE_LAMBDA HWY_ATTR __attribute__((always_inline))

HWY_BEFORE_NAMESPACE();
namespace rlx::kernels {
namespace HWY_NAMESPACE {
namespace {

#if HWY_TARGET == HWY_AVX3 && RLX_HAS_TILES

constexpr int64_t kPairs = kTileFloats / 2;  // of rows, in a step
/// Without a stream, rows are prefetched this many rows before they are split.
constexpr int64_t kPrefetchRows = 96;

/// TiledColumns::SplitState, register-resident: it has no arrays, which the compiler would keep in memory.
class Splitter {
 public:
  HWY_INLINE void load(const TiledColumns::SplitState& state) {
    rows_left_ = state.rows_left;
    left_.load(state, 0), right_.load(state, 1);
  }
  HWY_INLINE void store(TiledColumns::SplitState& state) const {
    state.rows_left = rows_left_;
    left_.store(state, 0), right_.store(state, 1);
  }
  /// Splits two rows of all columns.
  HWY_INLINE void pair(char* out) {
    left_.pair(rows_left_, out), right_.pair(rows_left_, out + kTileBytes);
    rows_left_ -= 2;
  }
  /// For columns that are no stream.
  HWY_INLINE void prefetch_rows() const { left_.prefetch_rows(), right_.prefetch_rows(); }

 private:
  struct Half {
    // Addresses as integers: they run on behind the last row, and there may be no columns.
    uintptr_t row, stride;
    __mmask16 columns;
    __m512i max_bits, min_bits;

    HWY_INLINE void load(const TiledColumns::SplitState& state, int h) {
      const ColumnBlock::Half& half = state.rest.half[h];
      row = reinterpret_cast<uintptr_t>(half.data), stride = static_cast<uintptr_t>(half.k_stride) * sizeof(float);
      columns = static_cast<__mmask16>((1u << half.columns) - 1);
      max_bits = _mm512_load_si512(state.max_bits[h]), min_bits = _mm512_load_si512(state.min_bits[h]);
    }
    HWY_INLINE void store(TiledColumns::SplitState& state, int h) const {
      state.rest.half[h].data = reinterpret_cast<const float*>(row);
      _mm512_store_si512(state.max_bits[h], max_bits), _mm512_store_si512(state.min_bits[h], min_bits);
    }
    HWY_INLINE void prefetch_rows() const {
      const uintptr_t later = row + kPrefetchRows * stride;
      _mm_prefetch(reinterpret_cast<const char*>(later), _MM_HINT_T1);
      _mm_prefetch(reinterpret_cast<const char*>(later + stride), _MM_HINT_T1);
    }
    HWY_INLINE void pair(int64_t rows_left, char* out) {
      const uintptr_t below = row + stride;
      __m512 first = _mm512_setzero_ps(), second = first;
      if (HWY_LIKELY(rows_left > 1)) first = load_row(row), second = load_row(below);
      else if (rows_left == 1) first = load_row(row);
      row = below + stride;
      min_bits = _mm512_min_epu32(min_bits, _mm512_min_epu32(twice_less_one(first), twice_less_one(second)));
      const __m512i high = write_term(first, second, out);
      max_bits = _mm512_max_epu16(max_bits, _mm512_and_si512(high, _mm512_set1_epi32(0x7fff7fff)));
      write_term(first, second, out + 2 * kTileBytes);
      write_term(first, second, out + 4 * kTileBytes);
    }
    HWY_INLINE __m512 load_row(uintptr_t at) const {
      return _mm512_maskz_loadu_ps(columns, reinterpret_cast<const float*>(at));
    }
    /// Twice the bits, without the sign, less one: 0 becomes the largest of all.
    HWY_INLINE static __m512i twice_less_one(__m512 v) {
      return _mm512_sub_epi32(_mm512_slli_epi32(_mm512_castps_si512(v), 1), _mm512_set1_epi32(1));
    }
    /// Stores the upper words of both, side by side, as one term, and subtracts it from both. Returns the term.
    HWY_INLINE static __m512i write_term(__m512& first, __m512& second, char* out) {
      const __m512i high = _mm512_set1_epi32(static_cast<int>(0xffff0000u));
      const __m512i a = _mm512_castps_si512(first), b = _mm512_castps_si512(second);
      // (a >> 16) | (b & high)
      const __m512i both = _mm512_ternarylogic_epi32(_mm512_srli_epi32(a, 16), b, high, 0xf8);
      _mm512_store_si512(out, both);
      first = _mm512_sub_ps(first, _mm512_castsi512_ps(_mm512_and_si512(a, high)));
      second = _mm512_sub_ps(second, _mm512_castsi512_ps(_mm512_and_si512(b, high)));
      return both;
    }
  };

  int64_t rows_left_;
  Half left_, right_;
};

void split_step(TiledColumns::SplitState& state, char* out) {
  Splitter s;
  s.load(state);
  for (int64_t n = 0; n < kPairs; ++n) s.pair(out + n * 64);
  s.store(state);
}

/// TiledColumns::Stream, register-resident.
class Prefetcher {
 public:
  HWY_INLINE explicit Prefetcher(TiledColumns::Stream& stream)
      : stream_(stream), at_(stream.at), end_(stream.end), cache_lines_(stream.cache_lines) {}
  HWY_INLINE ~Prefetcher() { stream_.at = at_, stream_.end = end_; }
  HWY_INLINE void operator()() {
    if (at_ >= end_) at_ = stream_.next, end_ = stream_.next_end;
    for (int64_t n = 0; n < cache_lines_; ++n, at_ += 64) _mm_prefetch(at_, _MM_HINT_T1);
  }

 private:
  TiledColumns::Stream& stream_;
  const char *at_, *end_;
  int64_t cache_lines_;
};

/// Multiplies the steps of a block one by one, and splits the next step meanwhile: during the last step, the first step
/// of the next block.
template <bool kBoth>
void multiply_splitting(const TiledRows& rows, const Slots& slots, TiledColumns::SplitState& current,
                        TiledColumns::SplitState& next, TiledColumns::Stream& stream) {
  Splitter s;
  s.load(current);
  Prefetcher prefetch(stream);
  const char* right = slots.at;
  char* out = slots.at;
  multiply_terms<TileForm::three, TileForm::three, kBoth>(
      rows.steps, rows.upper, rows.lower,
      [&](int64_t i) RLX_INLINE_LAMBDA {
        if (i == rows.steps - 1) s.store(current), s.load(next);
        right = out, out = slots.behind(out);
        return right;
      },
      rows.sums, rows.stride, false,
      [&](int64_t product) RLX_INLINE_LAMBDA {
        prefetch();
        const int64_t end = kPairs * (product + 1) / kProducts;
        RLX_UNROLL for (int64_t n = kPairs * product / kProducts; n < end; ++n) {
          if (stream.cache_lines == 0) s.prefetch_rows();
          s.pair(out + n * 64);
        }
      });
  s.store(next);
}
template <bool kBoth>
void multiply_split(const TiledRows& rows, const Slots& slots, TiledColumns::Stream& stream) {
  Prefetcher prefetch(stream);
  char* next = slots.at;
  multiply_terms<TileForm::three, TileForm::three, kBoth>(
      rows.steps, rows.upper, rows.lower,
      [&](int64_t) RLX_INLINE_LAMBDA {
        const char* const right = next;
        next = slots.behind(next);
        return right;
      },
      rows.sums, rows.stride, false, [&](int64_t) RLX_INLINE_LAMBDA { prefetch(); });
}

/// `current` is null if all of the current block is split already.
void multiply_columns(const TiledRows& rows, const Slots& slots, TiledColumns::SplitState* current,
                      TiledColumns::SplitState& next, TiledColumns::Stream& stream) {
  if (!current) rows.lower ? multiply_split<true>(rows, slots, stream) : multiply_split<false>(rows, slots, stream);
  else if (rows.lower) multiply_splitting<true>(rows, slots, *current, next, stream);
  else multiply_splitting<false>(rows, slots, *current, next, stream);
}

/// TiledColumns::min_magnitude(), of a block that is split.
float min_magnitude_of(const TiledColumns::SplitState& state) {
  const __m512i max_bits = _mm512_max_epu16(_mm512_load_si512(state.max_bits[0]), _mm512_load_si512(state.max_bits[1]));
  const __m512i min_bits = _mm512_min_epu32(_mm512_load_si512(state.min_bits[0]), _mm512_load_si512(state.min_bits[1]));
  const uint32_t upper = _mm512_reduce_max_epu32(
      _mm512_max_epu32(_mm512_srli_epi32(max_bits, 16), _mm512_and_si512(max_bits, _mm512_set1_epi32(0xffff))));
  const uint32_t twice = _mm512_reduce_min_epu32(min_bits);
  return min_of_three_terms(upper << 16, twice == ~0u ? twice : (twice + 1) / 2 - 1);
}

#else  // never called: there are no tiles

float min_magnitude_of(const TiledColumns::SplitState&) { return 0; }
void split_step(TiledColumns::SplitState&, char*) {}
void multiply_columns(const TiledRows&, const Slots&, TiledColumns::SplitState*, TiledColumns::SplitState&,
                      TiledColumns::Stream&) {}

#endif

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace rlx::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rlx::kernels {
namespace {
HWY_EXPORT(min_magnitude_of);
HWY_EXPORT(split_step);
HWY_EXPORT(multiply_columns);

void begin_split(TiledColumns::SplitState& state, const ColumnBlock& block, int64_t rows) {
  state = TiledColumns::SplitState{};
  state.rest = block, state.rows_left = rows;
  for (auto& half : state.min_bits) std::fill(std::begin(half), std::end(half), ~0u);
}

}  // namespace

int64_t TiledColumns::bytes(int64_t k, int64_t row_blocks) {
  return ((row_blocks == 1 ? 1 : tile_steps(k)) + 1) * kStepBytes;
}

TiledColumns::TiledColumns(int64_t k, int64_t row_blocks, char* memory) noexcept
    : k_(k), row_blocks_(row_blocks), memory_(memory), memory_bytes_(bytes(k, row_blocks)) {}

void TiledColumns::stream(std::span<const char> columns, std::span<const char> next) noexcept {
  const char* const begin = columns.data() + std::min<size_t>(columns.size(), kPrefetchBytes);
  const char* const end = columns.data() + columns.size();
  if (next.empty())
    next = columns.last(
        std::min<size_t>(columns.size(), 64));  // nothing follows: its last bytes are prefetched again and again
  stream_ = {begin, end, next.data(), next.data() + next.size(), divided_up(kStepCacheLines, kProducts * row_blocks_)};
}

void TiledColumns::begin(const ColumnBlock& first) noexcept {
  current_ = 0, step_ = 0, is_split_ = false;
  begin_split(states_[0], first, k_);
  HWY_DYNAMIC_DISPATCH(split_step)(states_[0], memory_);
}
void TiledColumns::set_next(const ColumnBlock& next) noexcept { begin_split(states_[1 - current_], next, k_); }
// There is no next block: a block of no rows is split instead, whose steps are zeros.
void TiledColumns::set_no_next() noexcept { begin_split(states_[1 - current_], states_[current_].rest, 0); }

void TiledColumns::multiply(const char* upper, const char* lower, float* sums, int64_t stride) noexcept {
  const Slots slots{memory_, memory_ + memory_bytes_, memory_ + step_ * kStepBytes};
  HWY_DYNAMIC_DISPATCH(multiply_columns)
  ({upper, lower, tile_steps(k_), sums, stride}, slots, is_split_ ? nullptr : &states_[current_], states_[1 - current_],
   stream_);
  is_split_ = true;
}

float TiledColumns::min_magnitude() const noexcept { return HWY_DYNAMIC_DISPATCH(min_magnitude_of)(states_[current_]); }

void TiledColumns::advance() noexcept {
  current_ = 1 - current_, is_split_ = false;
  step_ = (step_ + tile_steps(k_)) % (memory_bytes_ / kStepBytes);
}

}  // namespace rlx::kernels
#endif  // HWY_ONCE

// See the header. f32 = high + middle + low by cutting: each part takes the upper 16 bits of what is left, which leaves
// nothing after three. The rows' parts are rounded, so that what a product leaves out has either sign. The first
// block of rows multiplies each step along k while the next one is split; where there are no more rows, two steps are
// all that is kept, in the first-level cache, else all steps of a block and the first of the next.
#include "kernels/tiled_columns.h"

#include <algorithm>

#include "base/rounded_up.h"
#include "kernels/highway_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/tiled_columns.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "kernels/tiles_between-inl.h"

#ifndef RLX_KERNELS_TILED_COLUMNS_ONCE
#define RLX_KERNELS_TILED_COLUMNS_ONCE
namespace rlx::kernels {
namespace {

constexpr int64_t kProducts = 6;  // of parts, in a step
constexpr int64_t kStepBytes = 6 * kTileBytes;
/// Columns that lie one after the other are asked for so long before they are split.
constexpr int64_t kBytesAhead = 96 << 10;
constexpr int64_t kStepLines = kTileFloats * kTiledColumns * 4 / 64;  // of a step's columns

/// Of a product: 16 rows, or 32 with `lower`.
struct TiledRows {
  const char *upper, *lower;
  int64_t steps;
  float* sums;
  int64_t stride;
};
/// A ring of steps of split columns.
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
/// Rows that lie apart are asked for so long before they are split.
constexpr int64_t kRowsAhead = 96;

/// TiledColumns::Head in registers: no arrays, which would stay in memory.
class Splitter {
 public:
  HWY_INLINE void load(const TiledColumns::Head& head) {
    rows_left_ = head.rows_left;
    left_.load(head, 0), right_.load(head, 1);
  }
  HWY_INLINE void store(TiledColumns::Head& head) const {
    head.rows_left = rows_left_;
    left_.store(head, 0), right_.store(head, 1);
  }
  /// Two rows of all columns.
  HWY_INLINE void pair(char* out) {
    left_.pair(rows_left_, out), right_.pair(rows_left_, out + kTileBytes);
    rows_left_ -= 2;
  }
  /// Where rows lie apart.
  HWY_INLINE void ask_for_rows() const { left_.ask_for_rows(), right_.ask_for_rows(); }

 private:
  struct Half {
    // Numbers, as they run on behind the last row, and there may be no columns.
    uintptr_t row, stride;
    __mmask16 lines;
    __m512i most, bits;

    HWY_INLINE void load(const TiledColumns::Head& head, int h) {
      const ColumnBlock::Half& half = head.rest.half[h];
      row = reinterpret_cast<uintptr_t>(half.data), stride = static_cast<uintptr_t>(half.k_stride) * sizeof(float);
      lines = static_cast<__mmask16>((1u << half.lines) - 1);
      most = _mm512_load_si512(head.most[h]), bits = _mm512_load_si512(head.bits[h]);
    }
    HWY_INLINE void store(TiledColumns::Head& head, int h) const {
      head.rest.half[h].data = reinterpret_cast<const float*>(row);
      _mm512_store_si512(head.most[h], most), _mm512_store_si512(head.bits[h], bits);
    }
    HWY_INLINE void ask_for_rows() const {
      const uintptr_t ahead = row + kRowsAhead * stride;
      _mm_prefetch(reinterpret_cast<const char*>(ahead), _MM_HINT_T1);
      _mm_prefetch(reinterpret_cast<const char*>(ahead + stride), _MM_HINT_T1);
    }
    HWY_INLINE void pair(int64_t rows_left, char* out) {
      const uintptr_t below = row + stride;
      __m512 first = _mm512_setzero_ps(), second = first;
      if (HWY_LIKELY(rows_left > 1)) first = load_row(row), second = load_row(below);
      else if (rows_left == 1) first = load_row(row);
      row = below + stride;
      bits = _mm512_ternarylogic_epi32(bits, _mm512_castps_si512(first), _mm512_castps_si512(second), 0xfe);
      const __m512i high = write_part(first, second, out);
      most = _mm512_max_epu16(most, _mm512_and_si512(high, _mm512_set1_epi32(0x7fff7fff)));
      write_part(first, second, out + 2 * kTileBytes);
      write_part(first, second, out + 4 * kTileBytes);
    }
    HWY_INLINE __m512 load_row(uintptr_t at) const {
      return _mm512_maskz_loadu_ps(lines, reinterpret_cast<const float*>(at));
    }
    /// The upper words of both, side by side, which are taken from them.
    HWY_INLINE static __m512i write_part(__m512& first, __m512& second, char* out) {
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

void split_step(TiledColumns::Head& head, char* out) {
  Splitter s;
  s.load(head);
  for (int64_t n = 0; n < kPairs; ++n) s.pair(out + n * 64);
  s.store(head);
}

/// TiledColumns::Stream in registers.
class Asker {
 public:
  HWY_INLINE explicit Asker(TiledColumns::Stream& stream)
      : stream_(stream), at_(stream.at), end_(stream.end), lines_(stream.lines) {}
  HWY_INLINE ~Asker() { stream_.at = at_, stream_.end = end_; }
  HWY_INLINE void operator()() {
    if (at_ >= end_) at_ = stream_.then, end_ = stream_.then_end;
    for (int64_t n = 0; n < lines_; ++n, at_ += 64) _mm_prefetch(at_, _MM_HINT_T1);
  }

 private:
  TiledColumns::Stream& stream_;
  const char *at_, *end_;
  int64_t lines_;
};

/// Each step is multiplied while the one behind it is split, the first of what follows after the last.
template <bool kBoth>
void multiply_splitting(const TiledRows& rows, const Slots& slots, TiledColumns::Head& at_hand,
                        TiledColumns::Head& following, TiledColumns::Stream& stream) {
  Splitter s;
  s.load(at_hand);
  Asker ask(stream);
  const char* right = slots.at;
  char* out = slots.at;
  multiply_by_three<TileForm::three, kBoth>(
      rows.steps, rows.upper, rows.lower,
      [&](int64_t i) RLX_INLINE_LAMBDA {
        if (i == rows.steps - 1) s.store(at_hand), s.load(following);
        right = out, out = slots.behind(out);
        return right;
      },
      rows.sums, rows.stride, false,
      [&](int64_t product) RLX_INLINE_LAMBDA {
        ask();
        const int64_t end = kPairs * (product + 1) / kProducts;
        RLX_UNROLL for (int64_t n = kPairs * product / kProducts; n < end; ++n) {
          if (stream.lines == 0) s.ask_for_rows();
          s.pair(out + n * 64);
        }
      });
  s.store(following);
}
template <bool kBoth>
void multiply_split(const TiledRows& rows, const Slots& slots, TiledColumns::Stream& stream) {
  Asker ask(stream);
  char* next = slots.at;
  multiply_by_three<TileForm::three, kBoth>(
      rows.steps, rows.upper, rows.lower,
      [&](int64_t) RLX_INLINE_LAMBDA {
        const char* const right = next;
        next = slots.behind(next);
        return right;
      },
      rows.sums, rows.stride, false, [&](int64_t) RLX_INLINE_LAMBDA { ask(); });
}

/// `at_hand` is null if all of it is split already.
void multiply_columns(const TiledRows& rows, const Slots& slots, TiledColumns::Head* at_hand,
                      TiledColumns::Head& following, TiledColumns::Stream& stream) {
  if (!at_hand) rows.lower ? multiply_split<true>(rows, slots, stream) : multiply_split<false>(rows, slots, stream);
  else if (rows.lower) multiply_splitting<true>(rows, slots, *at_hand, following, stream);
  else multiply_splitting<false>(rows, slots, *at_hand, following, stream);
}

/// Whether parts stand for the columns of a head that is split.
bool is_split_fit(const TiledColumns::Head& head) {
  alignas(64) uint32_t magnitudes[kTileLines];
  for (int h = 0; h < 2; ++h) {
    const __m512i most = _mm512_load_si512(head.most[h]);
    const __m512i largest = _mm512_max_epu32(_mm512_and_si512(most, _mm512_set1_epi32(static_cast<int>(0xffff0000u))),
                                             _mm512_slli_epi32(most, 16));
    // Numbers that have no upper half.
    const __m512i rest = _mm512_and_si512(_mm512_load_si512(head.bits[h]), _mm512_set1_epi32(0x7fffffff));
    _mm512_store_si512(magnitudes, _mm512_mask_mov_epi32(largest, _mm512_testn_epi32_mask(largest, largest), rest));
    if (!parts_stand_for(magnitudes)) return false;
  }
  return true;
}

#else  // never called: there are no tiles

bool is_split_fit(const TiledColumns::Head&) { return false; }
void split_step(TiledColumns::Head&, char*) {}
void multiply_columns(const TiledRows&, const Slots&, TiledColumns::Head*, TiledColumns::Head&, TiledColumns::Stream&) {
}

#endif

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace rlx::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rlx::kernels {
namespace {
HWY_EXPORT(is_split_fit);
HWY_EXPORT(split_step);
HWY_EXPORT(multiply_columns);

void set_out(TiledColumns::Head& head, const ColumnBlock& block, int64_t rows) {
  head = TiledColumns::Head{};
  head.rest = block, head.rows_left = rows;
}

}  // namespace

int64_t TiledColumns::bytes(int64_t k, int64_t row_blocks) {
  return ((row_blocks == 1 ? 1 : tile_steps(k)) + 1) * kStepBytes;
}

TiledColumns::TiledColumns(int64_t k, int64_t row_blocks, char* memory) noexcept
    : k_(k), row_blocks_(row_blocks), memory_(memory), memory_bytes_(bytes(k, row_blocks)) {}

void TiledColumns::stream(std::span<const char> columns, std::span<const char> then) noexcept {
  const char* const begin = columns.data() + std::min<size_t>(columns.size(), kBytesAhead);
  const char* const end = columns.data() + columns.size();
  if (then.empty()) then = columns.last(std::min<size_t>(columns.size(), 64));  // again and again
  stream_ = {begin, end, then.data(), then.data() + then.size(), divided_up(kStepLines, kProducts * row_blocks_)};
}

void TiledColumns::begin(const ColumnBlock& first) noexcept {
  at_hand_ = 0, step_ = 0, is_split_ = false;
  set_out(heads_[0], first, k_);
  HWY_DYNAMIC_DISPATCH(split_step)(heads_[0], memory_);
}
void TiledColumns::follow_with(const ColumnBlock& next) noexcept { set_out(heads_[1 - at_hand_], next, k_); }
// The rows that are left are none: zeros will be written.
void TiledColumns::follow_with_nothing() noexcept { set_out(heads_[1 - at_hand_], heads_[at_hand_].rest, 0); }

void TiledColumns::multiply(const char* upper, const char* lower, float* sums, int64_t stride) noexcept {
  const Slots slots{memory_, memory_ + memory_bytes_, memory_ + step_ * kStepBytes};
  HWY_DYNAMIC_DISPATCH(multiply_columns)
  ({upper, lower, tile_steps(k_), sums, stride}, slots, is_split_ ? nullptr : &heads_[at_hand_], heads_[1 - at_hand_],
   stream_);
  is_split_ = true;
}

bool TiledColumns::is_fit() const noexcept { return HWY_DYNAMIC_DISPATCH(is_split_fit)(heads_[at_hand_]); }

void TiledColumns::advance() noexcept {
  at_hand_ = 1 - at_hand_, is_split_ = false;
  step_ = (step_ + tile_steps(k_)) % (memory_bytes_ / kStepBytes);
}

}  // namespace rlx::kernels
#endif  // HWY_ONCE

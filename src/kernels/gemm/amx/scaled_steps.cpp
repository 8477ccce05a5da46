// See the header. The sums of a step leave the tiles through memory: each is stored just before its tile is zeroed for
// the next step. Vector instructions scale and add them while the tiles multiply the next step: some rows after each of
// its twelve tile products, because instructions that follow several of these would wait for them. All blocks of rows
// take a step before the next one begins, so that what is read of the right operand, all sums, and the one array of
// products stay in the first-level cache. Tiles are loaded some products before they are used.
#include "kernels/gemm/amx/scaled_steps.h"

#include "kernels/vector/highway_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/gemm/amx/scaled_steps.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "kernels/gemm/amx/interleaved-inl.h"

HWY_BEFORE_NAMESPACE();
namespace rlx::kernels {
namespace HWY_NAMESPACE {
namespace {

#if HWY_TARGET == HWY_AVX3 && RLX_HAS_TILES

constexpr int64_t kRows = 2 * kTileRows, kSlots = 12;
constexpr int64_t kRightBytes = 6 * kTileBytes;  // of a step: three terms of two tiles

/// Registers as in interleaved-inl.h; one tile at a time.
template <int kTile>
HWY_INLINE void load_tile(const char* from) {
  asm volatile("tileloadd (%0,%1,1), %%tmm%c2" ::"r"(from), "r"(int64_t{64}), "i"(kTile) : "memory");
}
template <int kTile>
HWY_INLINE void zero_tile() {
  asm volatile("tilezero %%tmm%c0" ::"i"(kTile) : "memory");
}
template <int kTile>
HWY_INLINE void store_sums(float* to) {
  asm volatile("tilestored %%tmm%c2, (%0,%1,1)" ::"r"(to), "r"(kTiledColumns * int64_t{sizeof(float)}), "i"(kTile)
               : "memory");
}
template <int kTile>
HWY_INLINE void add_tile_product() {
  asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(kTile), "i"(4 + kTile / 2), "i"(6 + kTile % 2)
               : "memory");
}

/// What is added to sums: the products of a step, and their scales.
struct Addition {
  const float* scales = nullptr;
  float* sums = nullptr;
};

class Stream {
 public:
  /// `products` has room for a step. It is no member: its address is known to the tile instructions, and the members
  /// are to stay in registers.
  HWY_INLINE Stream(int64_t steps, std::span<const ScaledRows> blocks, const char* right, int64_t stride,
                    float* products)
      : steps_(steps), stride_(stride), left_(steps * static_cast<int64_t>(blocks.size())), first_(blocks.data()),
        block_(first_), end_(first_ + blocks.size()), right_(right), products_(products) {
    next_ = place();
  }
  HWY_INLINE void run() {
    load_tile<4>(next_.upper), load_tile<5>(next_.lower);
    load_tile<6>(next_.right + 4 * kTileBytes), load_tile<7>(next_.right + 5 * kTileBytes);
    const int64_t count = left_;
    step<false, false>();
    if (left_ > 0) step<true, false>();
    while (left_ > 0) step<true, true>();
    if (count > 1) add_rows(before_, first_row_of(kSlots), kRows);
    store_sums<0>(products_), store_sums<1>(products_ + kTileRows);
    store_sums<2>(products_ + kTileRows * kTiledColumns), store_sums<3>(products_ + kTileRows * (kTiledColumns + 1));
    add_rows(last_, 0, kRows);
  }

 private:
  struct Place {
    const char *upper = nullptr, *lower = nullptr, *right = nullptr;
    Addition to;
  };
  HWY_INLINE Place place() const {
    return {block_->upper + step_ * kTileBytes,
            block_->lower + step_ * kTileBytes,
            right_ + step_ * kRightBytes,
            {block_->scales + step_ * kRows, block_->sums}};
  }
  /// After the last step comes the first one again, whose tiles are loaded but not used.
  HWY_INLINE void find_next() {
    if (++block_ == end_) {
      block_ = first_;
      if (++step_ == steps_) step_ = 0;
    }
    next_ = place();
  }

  HWY_INLINE void add_rows(const Addition& to, int64_t begin, int64_t end) const {
    const hn::ScalableTag<float> d;
    RLX_UNROLL for (int64_t i = begin; i < end; ++i) {
      float* const sums = to.sums + i * stride_;
      const float* const from = products_ + i * kTiledColumns;
      const auto scale = hn::Set(d, to.scales[i]);
      const auto first = hn::MulAdd(scale, hn::Load(d, from), hn::LoadU(d, sums));
      const auto second = hn::MulAdd(scale, hn::Load(d, from + kTileRows), hn::LoadU(d, sums + kTileRows));
      hn::StoreU(first, d, sums), hn::StoreU(second, d, sums + kTileRows);
    }
  }
  /// The rows of a step are added in slots kFirst to kSlots - 1 of the next step, which by then has stored all four
  /// tiles, and in the first kLate slots of the step after it, before that one stores the lower tiles.
  static constexpr int64_t kFirst = 3, kLate = 2;
  static constexpr int64_t first_row_of(int64_t slot) { return kRows * (slot - kFirst) / (kSlots - kFirst + kLate); }

  /// One tile product: kSlot / 4 is the term, the smallest first. The terms behind the first one take the tiles in an
  /// order that frees a right tile early.
  template <int kSlot, bool kStores, bool kAdds>
  HWY_INLINE void slot() {
    constexpr int kOrder[] = {0, 1, 2, 3, 0, 2, 1, 3, 0, 2, 1, 3};
    constexpr int kTile = kOrder[kSlot];
    if constexpr (kSlot < 4) {
      if constexpr (kStores)
        store_sums<kTile>(products_ + kTile / 2 * kTileRows * kTiledColumns + kTile % 2 * kTileRows);
      zero_tile<kTile>();
    }
    add_tile_product<kTile>();
    if constexpr (kSlot == 2) load_tile<6>(now_.right + 2 * kTileBytes);
    if constexpr (kSlot == 3) load_tile<7>(now_.right + 3 * kTileBytes);
    if constexpr (kSlot == 5) load_tile<6>(now_.right);
    if constexpr (kSlot == 7) load_tile<7>(now_.right + kTileBytes);
    if constexpr (kSlot == 9) load_tile<6>(next_.right + 4 * kTileBytes);
    if constexpr (kSlot == 10) load_tile<4>(next_.upper);
    if constexpr (kSlot == 11) load_tile<7>(next_.right + 5 * kTileBytes), load_tile<5>(next_.lower);
    if constexpr (kAdds && kSlot < kLate)
      add_rows(before_, first_row_of(kSlots + kSlot), first_row_of(kSlots + kSlot + 1));
    if constexpr (kStores && kSlot >= kFirst) add_rows(last_, first_row_of(kSlot), first_row_of(kSlot + 1));
  }
  template <bool kStores, bool kAdds>
  HWY_INLINE void step() {
    now_ = next_;
    find_next();
    slot<0, kStores, kAdds>(), slot<1, kStores, kAdds>(), slot<2, kStores, kAdds>(), slot<3, kStores, kAdds>();
    slot<4, kStores, kAdds>(), slot<5, kStores, kAdds>(), slot<6, kStores, kAdds>(), slot<7, kStores, kAdds>();
    slot<8, kStores, kAdds>(), slot<9, kStores, kAdds>(), slot<10, kStores, kAdds>(), slot<11, kStores, kAdds>();
    before_ = last_, last_ = now_.to, --left_;
  }

  int64_t steps_, stride_, step_ = 0;
  int64_t left_;  ///< of all steps
  const ScaledRows *first_, *block_, *end_;
  const char* right_;
  Place now_, next_;
  Addition last_, before_;  ///< of the last step, and that before it
  float* products_;
};

void add_scaled_steps(int64_t steps, std::span<const ScaledRows> blocks, const char* right, int64_t stride) {
  HWY_ALIGN float products[kRows * kTiledColumns];
  if (steps > 0 && !blocks.empty()) Stream(steps, blocks, right, stride, products).run();
}

#else  // never called: there are no tiles

void add_scaled_steps(int64_t, std::span<const ScaledRows>, const char*, int64_t) {}

#endif

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace rlx::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rlx::kernels {

HWY_EXPORT(add_scaled_steps);

void add_scaled_steps(int64_t steps, std::span<const ScaledRows> blocks, const char* right, int64_t stride) noexcept {
  HWY_DYNAMIC_DISPATCH(add_scaled_steps)(steps, blocks, right, stride);
}

}  // namespace rlx::kernels
#endif  // HWY_ONCE

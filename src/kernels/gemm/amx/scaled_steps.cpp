// See the header. The sums of a step leave the tiles through memory. Vector instructions scale and add those of the
// last step but one while the tiles multiply: some rows behind each of the step's twelve tile products, as whatever
// stands behind several of them would wait. The sums of the last step are stored one by one, each just before its tile
// begins anew, when its product is done.
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
  /// `products` has room for two steps. It is no member: its address is known to the tile instructions, and the members
  /// are to stay in registers.
  HWY_INLINE Stream(int64_t steps, std::span<const ScaledRows> blocks, const char* right, int64_t stride,
                    float (*products)[kRows * kTiledColumns])
      : steps_(steps), stride_(stride), first_right_(right), block_(blocks.data()), end_(block_ + blocks.size()),
        products_(products) {
    begin_block();
  }
  HWY_INLINE void run() {
    step<false, false>();
    if (!is_at_end()) step<true, false>();
    while (!is_at_end()) step<true, true>();
    float* const last = products_of(count_ - 1);
    store_sums<0>(last), store_sums<1>(last + kTileRows);
    store_sums<2>(last + kTileRows * kTiledColumns), store_sums<3>(last + kTileRows * kTiledColumns + kTileRows);
    if (count_ > 1) add_rows(products_of(count_ - 2), before_, 0, kRows);
    add_rows(last, last_, 0, kRows);
  }

 private:
  HWY_INLINE bool is_at_end() const { return block_ == end_; }
  HWY_INLINE float* products_of(int64_t step) { return products_[step & 1]; }
  HWY_INLINE void begin_block() {
    upper_ = block_->upper, lower_ = block_->lower, right_ = first_right_;
    now_ = {block_->scales, block_->sums}, left_ = steps_;
  }

  HWY_INLINE void add_rows(const float* products, const Addition& to, int64_t begin, int64_t end) const {
    const hn::ScalableTag<float> d;
    RLX_UNROLL for (int64_t i = begin; i < end; ++i) {
      float* const sums = to.sums + i * stride_;
      const float* const from = products + i * kTiledColumns;
      const auto scale = hn::Set(d, to.scales[i]);
      const auto first = hn::MulAdd(scale, hn::Load(d, from), hn::LoadU(d, sums));
      const auto second = hn::MulAdd(scale, hn::Load(d, from + kTileRows), hn::LoadU(d, sums + kTileRows));
      hn::StoreU(first, d, sums), hn::StoreU(second, d, sums + kTileRows);
    }
  }

  /// One tile product: kSlot / 4 is the term, the smallest first, kSlot % 4 the tile of sums.
  template <int kSlot, bool kStores, bool kAdds>
  HWY_INLINE void slot() {
    constexpr int kTile = kSlot % 4, kTerm = 2 - kSlot / 4;
    if constexpr (kSlot < 4) {
      if constexpr (kStores)
        store_sums<kTile>(products_of(count_ + 1) + kTile / 2 * kTileRows * kTiledColumns + kTile % 2 * kTileRows);
      zero_tile<kTile>();
    }
    if constexpr (kSlot == 0) load_tile<4>(upper_);
    if constexpr (kSlot == 2) load_tile<5>(lower_);
    if constexpr (kTile < 2) load_tile<6 + kTile>(right_ + (2 * kTerm + kTile) * kTileBytes);
    add_tile_product<kTile>();
    if constexpr (kAdds) add_rows(products_of(count_), before_, kRows * kSlot / kSlots, kRows * (kSlot + 1) / kSlots);
  }
  template <bool kStores, bool kAdds>
  HWY_INLINE void step() {
    slot<0, kStores, kAdds>(), slot<1, kStores, kAdds>(), slot<2, kStores, kAdds>(), slot<3, kStores, kAdds>();
    slot<4, kStores, kAdds>(), slot<5, kStores, kAdds>(), slot<6, kStores, kAdds>(), slot<7, kStores, kAdds>();
    slot<8, kStores, kAdds>(), slot<9, kStores, kAdds>(), slot<10, kStores, kAdds>(), slot<11, kStores, kAdds>();
    before_ = last_, last_ = now_, ++count_;
    if (--left_ > 0) {
      upper_ += kTileBytes, lower_ += kTileBytes, right_ += kRightBytes, now_.scales += kRows;
    } else if (++block_ != end_) {
      begin_block();
    }
  }

  int64_t steps_, stride_, left_ = 0;
  int64_t count_ = 0;  ///< of all steps
  const char *first_right_, *upper_ = nullptr, *lower_ = nullptr, *right_ = nullptr;
  const ScaledRows *block_, *end_;
  Addition now_, last_, before_;  ///< of this step, the last one, and that before it
  float (*products_)[kRows * kTiledColumns];
};

void add_scaled_steps(int64_t steps, std::span<const ScaledRows> blocks, const char* right, int64_t stride) {
  HWY_ALIGN float products[2][kRows * kTiledColumns];
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

// See the header. Compiled for AVX-512 alone, as other targets have no tiles.
#include "kernels/gemm/amx/pipelined_blocks.h"

#include <algorithm>

#include "kernels/vector/highway_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/gemm/amx/pipelined_blocks.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "kernels/gemm/amx/interleaved-inl.h"
#include "kernels/vector/activation-inl.h"
#include "kernels/vector/narrow_float-inl.h"

HWY_BEFORE_NAMESPACE();
namespace rlx::kernels {
namespace HWY_NAMESPACE {
namespace {

#if HWY_TARGET == HWY_AVX3 && RLX_HAS_TILES
namespace hn = hwy::HWY_NAMESPACE;

/// The outputs of a block, row by row. T: of y.
template <PipelinedTiles kKind, class T, class Act>
class PendingRows {
 public:
  PendingRows(const PendingEpilogue& e, Act act) : e_(e), act_(act), left_(e.rows) {
    sums_ = static_cast<const float*>(e_.sums);
    y_ = static_cast<T*>(e_.y);
    residual_ = static_cast<const T*>(e_.residual);
    scale_ = e_.row_scales;
  }

  int64_t left() const { return left_; }
  HWY_INLINE void compute() {
    if (left_ <= 0) return;
    const F32Tag d;
    const F32Vec first = output(0), second = output(kTileRows);
    store_f32(first, d, y_), store_f32(second, d, y_ + kTileRows);
    --left_;
    sums_ += kTiledColumns, y_ += e_.y_stride;
    if (residual_) residual_ += e_.residual_stride;
    if constexpr (kKind != PipelinedTiles::bf16s) ++scale_;
  }

 private:
  static constexpr int64_t kPlane = 2 * kTileRows * kTiledColumns;

  HWY_INLINE F32Vec output(int64_t column) const {
    const F32Tag d;
    F32Vec v;
    if constexpr (kKind == PipelinedTiles::bf16s) {
      const F32Vec sum = hn::Load(d, sums_ + column), alpha = hn::Set(d, e_.alpha);
      v = e_.bias ? hn::MulAdd(sum, alpha, hn::LoadU(d, e_.bias + column)) : hn::Mul(sum, alpha);
    } else {
      const hn::RebindToSigned<F32Tag> di;
      const auto* const sums = reinterpret_cast<const int32_t*>(sums_) + column;
      auto sum = hn::Load(di, sums);
      if constexpr (kKind == PipelinedTiles::planes) sum = hn::Add(hn::ShiftLeft<7>(sum), hn::Load(di, sums + kPlane));
      const F32Vec x_scale = hn::Set(d, *scale_), w_scale = hn::LoadU(d, e_.column_scales + column);
      // A NaN of either comes through, as x86 gives the second operand where one is NaN.
      v = hn::Mul(hn::Mul(hn::ConvertTo(d, sum), hn::Min(x_scale, w_scale)), hn::Max(w_scale, x_scale));
      if (e_.bias) v = hn::Add(v, hn::LoadU(d, e_.bias + column));
    }
    if (residual_ && e_.residual_first) v = hn::Add(v, load_f32(d, residual_ + column));
    v = act_(d, v);
    if (e_.factor) v = hn::Mul(v, hn::LoadU(d, e_.factor + column));
    return residual_ && !e_.residual_first ? hn::Add(v, load_f32(d, residual_ + column)) : v;
  }

  const PendingEpilogue& e_;
  Act act_;
  int64_t left_;
  const float* sums_;  ///< of the next row; the bits of i32 with bytes
  T* y_;
  const T* residual_;
  const float* scale_;
};

HWY_INLINE void prefetch_tile(const TileRows& rows) {
  RLX_UNROLL for (int64_t i = 0; i < kTileRows; ++i) __builtin_prefetch(rows.data + i * rows.stride, 0, 2);
}

/// The tile products of a block: between() is called after each. `plane` is added to the left operand's addresses.
template <bool kIsBf16, bool kBoth, bool kPrefetches, class Between>
HWY_INLINE void multiply_block_tiles(const PipelinedBlock& b, int64_t plane, float* sums, Between between) {
#define RLX_LOAD_TILE(rows, tile) \
  asm volatile("tileloadd (%0,%1,1), %%tmm" tile ::"r"(rows.data), "r"(rows.stride) : "memory")
#define RLX_ADD_TILE(right, left, to)                                                                    \
  if constexpr (kIsBf16) asm volatile("tdpbf16ps %%tmm" right ", %%tmm" left ", %%tmm" to ::: "memory"); \
  else asm volatile("tdpbssd %%tmm" right ", %%tmm" left ", %%tmm" to ::: "memory");                     \
  between()
  TileRows upper = b.upper, lower = b.lower, first = b.first, second = b.second;
  TileRows next_first = b.next_first, next_second = b.next_second;
  upper.data += plane;
  if constexpr (kBoth) lower.data += plane;
  // Sums of i32 are exact in any parts.
  const int64_t at_once = kIsBf16 ? kSumTileSteps : std::max<int64_t>(1, b.steps);
  for (int64_t begin = 0; begin < b.steps || begin == 0; begin += at_once) {
    asm volatile("tilezero %%tmm0\n\ttilezero %%tmm1\n\ttilezero %%tmm2\n\ttilezero %%tmm3" ::: "memory");
    for (int64_t i = begin; i < std::min(b.steps, begin + at_once); ++i) {
      RLX_LOAD_TILE(upper, "4");
      RLX_LOAD_TILE(first, "6");
      RLX_ADD_TILE("6", "4", "0");
      if constexpr (kPrefetches) prefetch_tile(next_first), next_first.data += next_first.step;
      if constexpr (kBoth) {
        RLX_LOAD_TILE(lower, "5");
        RLX_ADD_TILE("6", "5", "2");
        lower.data += lower.step;
      }
      RLX_LOAD_TILE(second, "7");
      RLX_ADD_TILE("7", "4", "1");
      if constexpr (kPrefetches) prefetch_tile(next_second), next_second.data += next_second.step;
      if constexpr (kBoth) {
        RLX_ADD_TILE("7", "5", "3");
      }
      upper.data += upper.step, first.data += first.step, second.data += second.step;
    }
    if (begin == 0) store_products<kBoth>(sums, kTiledColumns * 4);
    else add_stored_products<kBoth>(sums, kTiledColumns);
  }
#undef RLX_LOAD_TILE
#undef RLX_ADD_TILE
}

template <PipelinedTiles kKind, class Between>
HWY_INLINE void multiply_planes(const PipelinedBlock& b, Between between) {
  constexpr bool kIsBf16 = kKind == PipelinedTiles::bf16s;
  auto* const sums = static_cast<float*>(b.sums);  // the bits of i32
  const auto multiply = [&](int64_t plane, float* to) HWY_ATTR __attribute__((always_inline)) {
    if (b.next_first.data && plane == 0) {
      if (b.lower.data) multiply_block_tiles<kIsBf16, true, true>(b, plane, to, between);
      else multiply_block_tiles<kIsBf16, false, true>(b, plane, to, between);
    } else if (b.lower.data) {
      multiply_block_tiles<kIsBf16, true, false>(b, plane, to, between);
    } else {
      multiply_block_tiles<kIsBf16, false, false>(b, plane, to, between);
    }
  };
  multiply(0, sums);
  if constexpr (kKind == PipelinedTiles::planes) multiply(b.low_plane, sums + 2 * kTileRows * kTiledColumns);
}

template <PipelinedTiles kKind, class T, class Act>
HWY_NOINLINE void run_beside(const PipelinedBlock* next, const PendingEpilogue& previous, Act act) {
  PendingRows<kKind, T, Act> pending(previous, act);
  if (next) {
    const int64_t products =
        std::max<int64_t>(1, next->steps * (next->lower.data ? 4 : 2) * (kKind == PipelinedTiles::planes ? 2 : 1));
    if (pending.left() <= products)
      multiply_planes<kKind>(
          *next, [&]() HWY_ATTR __attribute__((always_inline)) { pending.compute(); });
    else
      multiply_planes<kKind>(
          *next, [&]() HWY_ATTR __attribute__((always_inline)) { pending.compute(), pending.compute(); });
  }
  while (pending.left() > 0) pending.compute();
}

template <PipelinedTiles kKind>
void run_kind(const PipelinedBlock* next, const PendingEpilogue* previous) {
  if (!previous) return multiply_planes<kKind>(*next, [] {});
  const auto run = [&](auto act) HWY_ATTR {
    if (previous->dtype == bf16) run_beside<kKind, BF16>(next, *previous, act);
    else run_beside<kKind, float>(next, *previous, act);
  };
  switch (previous->activation) {
    case Activation::relu: return run([](auto d, auto v) HWY_ATTR { return hn::Max(hn::Zero(d), v); });
    case Activation::gelu_erf: return run([](auto d, auto v) HWY_ATTR { return GeluErf(d, v); });
    case Activation::gelu_tanh: return run([](auto d, auto v) HWY_ATTR { return GeluTanh(d, v); });
    case Activation::silu: return run([](auto d, auto v) HWY_ATTR { return Silu(d, v); });
    default: return run([](auto, auto v) HWY_ATTR { return v; });
  }
}
#endif

}  // namespace

void run_pipelined([[maybe_unused]] PipelinedTiles kind, [[maybe_unused]] const PipelinedBlock* next,
                   [[maybe_unused]] const PendingEpilogue* previous) {
#if HWY_TARGET == HWY_AVX3 && RLX_HAS_TILES
  if (kind == PipelinedTiles::bf16s) run_kind<PipelinedTiles::bf16s>(next, previous);
  else if (kind == PipelinedTiles::bytes) run_kind<PipelinedTiles::bytes>(next, previous);
  else run_kind<PipelinedTiles::planes>(next, previous);
#endif
}

}  // namespace HWY_NAMESPACE
}  // namespace rlx::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rlx::kernels {
namespace {
HWY_EXPORT(run_pipelined);
}  // namespace

bool is_pipelined(Activation activation, DType dtype) {
  const bool is_known = activation == Activation::none || activation == Activation::relu ||
                        activation == Activation::gelu_erf || activation == Activation::gelu_tanh ||
                        activation == Activation::silu;
  return is_known && (dtype == f32 || dtype == bf16);
}
void multiply_pipelined(PipelinedTiles kind, const PipelinedBlock& next, const PendingEpilogue* previous) noexcept {
  HWY_DYNAMIC_DISPATCH(run_pipelined)(kind, &next, previous);
}
void apply_pending(PipelinedTiles kind, const PendingEpilogue& pending) noexcept {
  HWY_DYNAMIC_DISPATCH(run_pipelined)(kind, nullptr, &pending);
}

}  // namespace rlx::kernels
#endif

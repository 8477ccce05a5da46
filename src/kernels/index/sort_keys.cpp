// See the header. The bound of top_k_candidates(): keys are dealt to 2k groups, and the k-th smallest of the groups'
// minima is at least the k-th smallest key. With twice as many groups as k, few other keys are below it.
#include "kernels/index/sort_keys.h"

#include <algorithm>

#include "base/rounded_up.h"
#include "kernels/vector/highway_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/index/sort_keys.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace rlx::kernels {
namespace HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;
using Tag = hn::CappedTag<uint32_t, 16>;

HWY_INLINE hn::Vec<Tag> key_of(Tag d, hn::Vec<hn::RebindToFloat<Tag>> x, hn::Vec<Tag> flip) {
  const hn::RebindToFloat<Tag> df;
  const auto sign = hn::Set(d, 0x80000000u), bits = hn::BitCast(d, hn::IfThenZeroElse(hn::Eq(x, hn::Zero(df)), x));
  const auto negative = hn::Ne(hn::And(bits, sign), hn::Zero(d));
  const auto key = hn::IfThenElse(negative, hn::Not(bits), hn::Or(bits, sign));
  return hn::Xor(hn::IfThenElse(hn::RebindMask(d, hn::IsNaN(x)), hn::Set(d, ~0u), key), flip);
}
void keys(const float* x, int64_t n, bool descending, uint32_t* to) {
  const Tag d;
  const hn::RebindToFloat<Tag> df;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto flip = hn::Set(d, descending ? ~0u : 0u);
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) hn::StoreU(key_of(d, hn::LoadU(df, x + i), flip), d, to + i);
  if (i == n) return;
  HWY_ALIGN float some[hn::MaxLanes(Tag())] = {};
  HWY_ALIGN uint32_t result[hn::MaxLanes(Tag())];
  std::copy(x + i, x + n, some);
  hn::Store(key_of(d, hn::Load(df, some), flip), d, result);
  std::copy_n(result, n - i, to + i);
}

int64_t candidates(const uint32_t* from, int64_t n, int64_t k, uint32_t* work, uint32_t* indices) {
  const Tag d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const int64_t groups = top_k_work(k);
  std::copy_n(from, groups, work);
  int64_t at = groups;
  for (; at + groups <= n; at += groups)
    for (int64_t j = 0; j < groups; j += lanes)
      hn::StoreU(hn::Min(hn::LoadU(d, work + j), hn::LoadU(d, from + at + j)), d, work + j);
  for (int64_t j = 0; at + j < n; ++j) work[j] = std::min(work[j], from[at + j]);
  std::nth_element(work, work + k - 1, work + groups);
  const uint32_t max_key = work[k - 1];

  const auto bound = hn::Set(d, max_key);
  int64_t count = 0, i = 0;
  for (; i + lanes <= n; i += lanes) {
    const auto v = hn::LoadU(d, from + i);
    const auto below = hn::Eq(v, hn::Min(v, bound));
    if (HWY_LIKELY(hn::AllFalse(d, below))) continue;
    count += static_cast<int64_t>(
        hn::CompressBlendedStore(hn::Iota(d, static_cast<uint32_t>(i)), below, d, indices + count));
  }
  for (; i < n; ++i)
    if (from[i] <= max_key) indices[count++] = static_cast<uint32_t>(i);
  return count;
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace rlx::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rlx::kernels {
namespace {
HWY_EXPORT(keys);
HWY_EXPORT(candidates);
}  // namespace

void keys_of_f32(const float* x, int64_t n, bool descending, uint32_t* to) noexcept {
  HWY_DYNAMIC_DISPATCH(keys)(x, n, descending, to);
}
int64_t top_k_work(int64_t k) { return aligned(2 * k); }
int64_t top_k_candidates(const uint32_t* from, int64_t n, int64_t k, uint32_t* work, uint32_t* indices) noexcept {
  return HWY_DYNAMIC_DISPATCH(candidates)(from, n, k, work, indices);
}

}  // namespace rlx::kernels
#endif  // HWY_ONCE

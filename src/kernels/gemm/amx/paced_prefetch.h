// Memory that is read after a sequence of tile products, prefetched while they run: each product takes a share of it,
// so that its loads do not wait behind prefetches that nobody needs yet.
#ifndef RLX_KERNELS_GEMM_AMX_PACED_PREFETCH_H_
#define RLX_KERNELS_GEMM_AMX_PACED_PREFETCH_H_

#include <algorithm>
#include <cstdint>

#include "base/rounded_up.h"
#include "kernels/gemm/amx/tiles.h"

namespace rlx::kernels {

class PacedPrefetch {
 public:
  /// `bytes` from `from` on (null: nothing) over so many products, each of `steps` steps along k.
  PacedPrefetch(const char* from, int64_t bytes, int64_t products, int64_t steps) {
    if (!from) return;
    from_ = from, rest_ = bytes;
    const int64_t of_step = divided_up(rest_, std::max<int64_t>(1, products * steps));
    share_ = std::clamp<int64_t>(rounded_up(of_step, int64_t{64}), 256, 2048);
  }
  /// Gives the product what it is to prefetch in each of its steps.
  void give(TilesAt& tiles) {
    tiles.prefetch = from_, tiles.prefetch_bytes = 0;
    if (rest_ == 0) return;
    tiles.prefetch_bytes = rest_ >= share_ * tiles.steps ? share_ : rest_ / tiles.steps / 64 * 64;
    from_ += tiles.prefetch_bytes * tiles.steps, rest_ -= tiles.prefetch_bytes * tiles.steps;
  }

 private:
  const char* from_ = nullptr;
  int64_t rest_ = 0, share_ = 0;  // the share is of a step
};

}  // namespace rlx::kernels

#endif  // RLX_KERNELS_GEMM_AMX_PACED_PREFETCH_H_

// Greedy by size; see the header.
#include "plan/arena.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "base/rounded_up.h"
#include "rlx/error.h"

namespace rlx {

ArenaPlan plan_arena(std::span<const BufferLife> buffers) {
  constexpr size_t kMostArenaBytes = size_t{1} << 60;  // no machine has more, and no sum below wraps
  ArenaPlan plan{std::vector<size_t>(buffers.size()), 0};
  std::vector<size_t> order(buffers.size()), placed;  // `placed` by offset
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return buffers[a].bytes > buffers[b].bytes; });
  for (size_t i : order) {
    const BufferLife& b = buffers[i];
    if (b.bytes == 0) continue;
    if (b.bytes > kMostArenaBytes) fail(ErrorCode::out_of_memory, "no memory for a buffer of ", b.bytes, " bytes");
    size_t at = 0;
    for (size_t other : placed) {
      const BufferLife& o = buffers[other];
      if (o.last < b.first || b.last < o.first) continue;
      if (at + aligned(b.bytes) <= plan.offsets[other]) break;  // the gap before it is large enough
      at = std::max(at, plan.offsets[other] + aligned(o.bytes));
    }
    if (at + aligned(b.bytes) > kMostArenaBytes)
      fail(ErrorCode::out_of_memory, "no memory for values that are needed at one time: ", at, " and ", b.bytes,
           " bytes");
    plan.offsets[i] = at;
    plan.bytes = std::max(plan.bytes, at + aligned(b.bytes));
    placed.insert(std::upper_bound(placed.begin(), placed.end(), i,
                                   [&](size_t x, size_t y) { return plan.offsets[x] < plan.offsets[y]; }),
                  i);
  }
  return plan;
}

size_t largest_live_bytes(std::span<const BufferLife> buffers) {
  std::map<size_t, std::pair<size_t, size_t>> changes;  // at a step: what begins, and what ended before it
  for (const BufferLife& b : buffers) {
    changes[b.first].first += aligned(b.bytes);
    changes[b.last + 1].second += aligned(b.bytes);
  }
  size_t live = 0, most = 0;
  for (const auto& [step, change] : changes) {
    live += change.first - change.second;
    most = std::max(most, live);
  }
  return most;
}

}  // namespace rlx

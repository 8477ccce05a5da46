// Greedy, in the order that gives the least; see the header.
#include "plan/arena.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "base/rounded_up.h"
#include "rlx/error.h"

namespace rlx {

namespace {

/// Each buffer in turn goes to the lowest gap that is free while it lives.
ArenaPlan place_in_order(std::span<const BufferLife> buffers, std::span<const size_t> order) {
  constexpr size_t kMostArenaBytes = size_t{1} << 60;  // no machine has more, and no sum below wraps
  ArenaPlan plan{std::vector<size_t>(buffers.size()), 0};
  std::vector<size_t> placed;  // by offset
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

}  // namespace

ArenaPlan plan_arena(std::span<const BufferLife> buffers) {
  std::vector<size_t> order(buffers.size());
  std::iota(order.begin(), order.end(), size_t{0});
  const auto size = [&](size_t i) { return buffers[i].bytes; };
  const auto steps = [&](size_t i) { return buffers[i].last - buffers[i].first + 1; };
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return size(a) > size(b); });
  ArenaPlan best = place_in_order(buffers, order);
  // The largest first is the best rule, but not in every case.
  const size_t least = largest_live_bytes(buffers);
  const auto try_order = [&](auto before) {
    if (best.bytes <= least) return;
    std::stable_sort(order.begin(), order.end(), before);
    if (ArenaPlan plan = place_in_order(buffers, order); plan.bytes < best.bytes) best = std::move(plan);
  };
  try_order([&](size_t a, size_t b) { return steps(a) > steps(b); });  // of equal lives the largest
  try_order([&](size_t a, size_t b) { return buffers[a].first < buffers[b].first; });
  try_order([&](size_t a, size_t b) { return buffers[a].last > buffers[b].last; });
  return best;
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

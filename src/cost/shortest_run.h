// What the measurements of `rlx calibrate` share.
#pragma once

#include <algorithm>
#include <chrono>

#include "rlx/tensor.h"

namespace rlx {

/// Seconds of the shortest call, of as many as fit into a moment, after one that is not timed: it does what is done
/// once.
template <class F>
double shortest_run(F call) {
  using Clock = std::chrono::steady_clock;
  constexpr double kMoment = 0.15;
  constexpr int kLeast = 4;
  call();
  double best = 1e30, all = 0;
  for (int i = 0; i < kLeast || all < kMoment; ++i) {
    const auto begin = Clock::now();
    call();
    const double taken = std::chrono::duration<double>(Clock::now() - begin).count();
    best = std::min(best, taken), all += taken;
  }
  return std::max(best, 1e-9);
}

/// Numbers between -1 and 1 that repeat after a while.
inline Tensor repeating_numbers(Shape shape) {
  Tensor t = Tensor::uninitialized(f32, std::move(shape));
  int64_t i = 0;
  for (float& v : t.mutable_values<float>()) v = static_cast<float>(i++ * 7919 % 2003 - 1001) / 1001;
  return t;
}

}  // namespace rlx

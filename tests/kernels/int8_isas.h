// The instructions of 8-bit products that a test can run here. Those that the processor lacks are named once, so that
// nobody takes a test that left them out for one that judged them.
#pragma once

#include <doctest/doctest.h>

#include <array>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/quant/vnni.h"
#include "kernels/vector/highway_dispatch.h"

namespace rlx::test {

/// Inside of a MatrixTiles fixture, tiles are among them wherever they can be emulated; inside of for_each_target,
/// those that come with the target.
inline std::vector<kernels::Int8DotIsa> int8_isas_here() {
  using kernels::Int8DotIsa;
  static constexpr std::array<std::string_view, 6> kNames = {"pairs",    "neon_dot",    "neon_i8mm",
                                                             "avx_vnni", "avx512_vnni", "tiles"};
#if defined(__aarch64__)
  constexpr bool kIsArm = true;
#else
  constexpr bool kIsArm = false;
#endif
  static bool is_first = true;
  if (std::exchange(is_first, false)) {
    const int64_t targets = kernels::available_targets();
    kernels::limit_targets(0);
    for (const Int8DotIsa isa : kernels::kInt8DotIsas) {
      const bool is_arms = isa == Int8DotIsa::neon_dot || isa == Int8DotIsa::neon_i8mm;
      if ((isa == Int8DotIsa::pairs || is_arms == kIsArm) && !kernels::has_int8_dot_isa(isa))
        MESSAGE("skipped: 8-bit products by ", kNames[static_cast<size_t>(isa)], ", which are not here");
    }
    kernels::limit_targets(targets);
  }
  std::vector<Int8DotIsa> here;
  for (const Int8DotIsa isa : kernels::kInt8DotIsas)
    if (kernels::has_int8_dot_isa(isa)) here.push_back(isa);
  return here;
}

}  // namespace rlx::test

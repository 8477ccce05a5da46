// The instructions of 8-bit products that a test can run here. Those that the processor lacks are named once, so that
// nobody takes a test that left them out for one that judged them.
#pragma once

#include <doctest/doctest.h>

#include <array>
#include <string_view>
#include <vector>

#include "kernels/quant/vnni.h"

namespace rlx::test {

/// Inside of a MatrixTiles fixture, tiles are among them wherever they can be emulated.
inline std::vector<kernels::Int8DotIsa> int8_isas_here() {
  using kernels::Int8DotIsa;
  static constexpr std::array<std::string_view, 6> kNames = {"pairs",    "neon_dot",    "neon_i8mm",
                                                             "avx_vnni", "avx512_vnni", "tiles"};
#if defined(__aarch64__)
  constexpr bool kIsArm = true;
#else
  constexpr bool kIsArm = false;
#endif
  static std::array<bool, kNames.size()> is_named{};
  std::vector<Int8DotIsa> here;
  for (const Int8DotIsa isa : kernels::kInt8DotIsas) {
    const auto i = static_cast<size_t>(isa);
    const bool is_arms = isa == Int8DotIsa::neon_dot || isa == Int8DotIsa::neon_i8mm;
    if (kernels::has_int8_dot_isa(isa)) {
      here.push_back(isa);
    } else if (is_arms == kIsArm && !is_named[i]) {
      is_named[i] = true;
      MESSAGE("skipped: 8-bit products by ", kNames[i], ", which this processor lacks");
    }
  }
  return here;
}

}  // namespace rlx::test

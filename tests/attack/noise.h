// Is a difference between native and reference a mistake, or is it rounding that the graph enlarges? Laws compare one
// op at a time, on samples that are well behaved, within the tolerance of the dtype. Here ops stand one behind another,
// and values are odd: a cancellation enlarges what ops before it rounded, a comparison turns over, a sum overflows.
//
// So the graph is interpreted again, several times, with noise: each op's results are off by what the laws allow an op
// (support/tolerance.h), at random, and the operands of ops that sum by as much, as is the error of any stable
// algorithm. What changes thereby does depend on rounding, and by how much it changes bounds how far native may be off:
// its ops keep the laws too, so that their errors are no larger than the noise, and sums of independent errors keep
// within a number of standard deviations that a theorem gives (kMostDeviations in noise.cpp). Nothing else is excused.
// The tolerance itself is that of the laws.
#pragma once

#include <array>
#include <map>
#include <string>

#include "attack/op_uses.h"

namespace rlx::attack {

/// Why an element that is not within the tolerance is no finding.
enum class Excuse {
  carried,     ///< the difference is within what the noise's deviations allow
  flipped,     ///< an integer or a bool, or a float of few bits, that the noise changes: a rounding, a tie, a place
  not_finite,  ///< infinite or NaN here or there, and under some noise it is so too, or no more
  ill_defined  ///< the noise changes the element by more than a hundredth
};
constexpr std::array<std::string_view, 4> names_of(Excuse) {
  return {"carried", "flipped", "not finite", "ill-defined"};
}

struct Compared {
  size_t elements = 0, beyond_tolerance = 0;
  std::array<size_t, 4> excused = {};
  std::string why = {};  ///< the first element that is neither within the tolerance nor excused
};

struct Judged {
  const Graph& graph;
  Tensors inputs;
  const std::map<std::string, Tensor>& params;
  bool row_relative = false;  ///< errors may be relative to the largest number of a row
  bool relaxed = false;       ///< f16 and bf16 may not be rounded within a fused op
};
/// `wanted` is what the reference makes of it.
Compared compare_with_noise(const Judged& judged, Tensors got, Tensors wanted, Random& random);

}  // namespace rlx::attack

// What the tests of models ask of messages and of logits.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "rlx/tensor.h"

namespace rlx::test {

/// Whether the text contains the part; prints the text if it does not.
inline bool says(const std::string& text, const std::string& part) {
  if (text.find(part) != text.npos) return true;
  MESSAGE("got: " << text);
  return false;
}

/// Of two f32 tensors of one shape: the largest difference of two elements.
inline float worst_difference(const Tensor& a, const Tensor& b) {
  REQUIRE(a.shape() == b.shape());
  float worst = 0;
  for (size_t i = 0; i < a.element_count(); ++i)
    worst = std::max(worst, std::abs(a.values<float>()[i] - b.values<float>()[i]));
  return worst;
}

}  // namespace rlx::test

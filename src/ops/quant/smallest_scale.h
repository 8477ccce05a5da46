// The scale that quantization uses instead of a smaller one or 0. A division by it is finite, and it is so small that
// no number that models compute with is rounded by it. Neighbours: qat.cpp, whose ops clamp scales to it;
// src/quantization, which makes scales for them.
#pragma once

namespace rlx {

constexpr double kLeastScale = 1e-12;

}  // namespace rlx

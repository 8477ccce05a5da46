// What quantization takes for a scale that is smaller, or 0: a division by it is finite, and no number that a model
// computes with is rounded by it. Neighbours: qat.cpp, whose ops clamp by it; src/quantization, which makes scales for
// them.
#pragma once

namespace rlx {

constexpr double kLeastScale = 1e-12;

}  // namespace rlx

// The frequencies of rotary positions: how fast each pair of a head turns. Those that do not depend on how many tokens
// there are are numbers; the others are made of them in the graph (decoder_blocks.cpp).
#pragma once

#include <vector>

#include "rlx/language_model.h"

namespace rlx::language {

/// Radians a position of each pair, for all scalings but `dynamic` (which gives the unscaled ones) and `longrope`
/// (those of the short factors, or of the long ones). Computed as `transformers` does, in f32 where it does.
std::vector<float> rotary_frequencies(const RopeConfig& rope, bool is_long = false);

}  // namespace rlx::language

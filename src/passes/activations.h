// Which node is an activation that products and convolutions take in. Neighbours: fuse_matmul, fuse_convolution.
#pragma once

#include <optional>

#include "rlx/ops/activation.h"

namespace rlx {

/// A clamp to [0, 6] is relu6: they differ in their derivatives alone, which are graphs of their own by now.
std::optional<Activation> activation_of(const Node& node);

}  // namespace rlx

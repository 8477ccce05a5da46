// Where the output channels of a product's weights lie.
#pragma once

#include <optional>

#include "rlx/op_def.h"

namespace rlx {

/// The axis of the weights, operand 1 of a node (conv, convolution, linear, matmul or dot_general), along which its
/// output channels lie; nothing if they lie along several.
std::optional<int64_t> channel_axis(const Node& node, const Graph& g);

}  // namespace rlx

// Where the output channels of a product's weights lie.
#pragma once

#include <optional>

#include "rlx/op_def.h"

namespace rlx {

/// The axis of a node's operand 1, its weights, along which the output channels lie. Nothing for a matmul whose weights
/// are not a matrix, and for a dot_general whose weights have batch axes or not exactly one free axis. The node is a
/// conv, convolution, linear, matmul or dot_general.
std::optional<int64_t> output_channel_axis(const Node& node, const Graph& g);

}  // namespace rlx

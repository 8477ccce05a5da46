// Convolutions one after the other over bands of rows, which the cache holds: a product of channels that makes many of
// few, the depthwise convolution of these, and the product back to few (the inverted residuals of MobileNet). So the
// many channels are never written to memory. Neighbour: schedule.cpp, which asks for it before it makes the steps one
// by one.
#pragma once

#include <span>

#include "backends/cpu/lowering.h"

namespace rlx::cpu {

/// Nodes that follow each other, each the only reader of the one before it: [product,] depthwise convolution, product.
struct ConvolutionChain {
  std::vector<size_t> nodes;
};
std::vector<ConvolutionChain> convolution_chains(const Graph& graph);

/// The chain as one step, or null where that does not pay or suit. Its operands: all of the first node, then of each
/// other node all but the first.
std::unique_ptr<Step> lower_convolution_chain(std::span<const LoweringContext* const> links);

}  // namespace rlx::cpu

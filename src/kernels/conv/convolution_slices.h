// How a convolution is divided: into slices, which threads compute side by side, and a slice whose sums are long into
// partial sums, because oneDNN's kernels compute each sum as one running sum, whose rounding errors grow with its
// length (kernels/partial_sums.h). A slice is a convolution itself, on slices of the operands.
#pragma once

#include <array>
#include <vector>

#include "kernels/conv/direct.h"

namespace rlx::kernels {

/// Which of oneDNN's three convolutions computes it: the forward one, the gradient of the input, or that of the
/// weights.
enum class ConvolutionForm { forward, input, weights };
enum ConvolutionOperand { kX, kW, kY };

/// The slice of a convolution that one task computes.
struct ConvolutionSlice {
  ConvolutionArgs args;
  int64_t batch_groups;
  std::array<int64_t, 3> offset{};  ///< of the operands, in elements
  int64_t channel = 0;              ///< its first output channel

  /// Of two slices that one call of slices_for_threads gave: whether a program for one is a program for the other.
  bool has_shape_of(const ConvolutionSlice& o) const {
    return args.batch == o.args.batch && args.out_channels == o.args.out_channels && args.groups == o.args.groups &&
           args.in_channels == o.args.in_channels && batch_groups == o.batch_groups &&
           args.in_dims[0] == o.args.in_dims[0] && args.out_dims[0] == o.args.out_dims[0] &&
           args.low[0] == o.args.low[0];
  }
};

/// The whole convolution in slices: one for each of `threads` where it is large enough, and where images are many, as
/// few images a slice as stay in the cache.
std::vector<ConvolutionSlice> slices_for_threads(const ConvolutionArgs& args, int64_t batch_groups,
                                                 ConvolutionForm form, int threads, bool packs_weights);
/// Divides a slice whose sums are long into slices that each add up some of the terms of every sum; their results
/// have to be added. The slice alone if its sums are short; empty if it cannot be divided.
std::vector<ConvolutionSlice> partial_sums_of(const ConvolutionSlice& s, ConvolutionForm form);

}  // namespace rlx::kernels

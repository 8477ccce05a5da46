// The fake quantization that stands in a graph, read back as scales and codes.
#pragma once

#include "quantization/plan.h"

namespace rlx::quantization {

/// A node of fake quantization with its numbers.
struct Quantizer {
  size_t node = 0;
  Ref x;
  int64_t low = -128, high = 127;
  Axes axes;  ///< of the scales
  std::vector<double> scales;
  std::vector<int64_t> zero_points;  ///< as many
  std::optional<Tensor> codes;       ///< of what no input of the graph reaches: i8 or u8
  bool is_activation() const { return !codes; }
  /// Of the codes: i8, or u8 if they do not fit.
  DType dtype() const { return low >= -128 && high <= 127 ? i8 : u8; }
};

/// All of them, by node. Fails for a scale that depends on what is fed, and for codes of more than 8 bits.
std::map<size_t, Quantizer> quantizers_in(const Graph& g, const NamedTensors& params, const Session& device);

}  // namespace rlx::quantization

// What in a graph is quantized: found once, in the same way for calibration, for fake quantization, and for codes.
#pragma once

#include <functional>

#include "ir/rewrite.h"
#include "rlx/quantization.h"

namespace rlx::quantization {

/// A product or convolution, by its layer's name: that of its weight without ".weight", else its scope, else its op.
struct Layer {
  size_t node = 0;
  std::string name;
};

/// Only the layers see it quantized: a table of embeddings that is a weight too stays as it is for who looks up.
struct PlannedWeight {
  Ref value;
  std::vector<size_t> nodes;  ///< whose operand 1 it is
  std::string name;           ///< of the param that it comes from, else "<layer>.weight"
  int64_t axis = 0;           ///< of the output channels
  int64_t bits = 8;
};
struct PlannedActivation {
  Ref value;
  std::string name;
  int64_t bits = 8;
};
struct Plan {
  std::vector<PlannedWeight> weights;
  std::vector<PlannedActivation> activations;
};
Plan plan_of(const Graph& g, const QuantizationConfig& config);

/// The ops whose nodes are quantized.
const std::vector<const OpDef*>& quantized_ops();
/// One of the ops of rlx/ops/qat.h that stand for codes.
bool is_fake_quantized(const Node& node);
/// For each node: whether an input of the graph reaches it. What none reaches is known when params are.
Mask nodes_behind_inputs(const Graph& g);
/// Products and convolutions of an activation with a weight, or of two activations, in floats.
std::vector<Layer> layers_in(const Graph& g, const Mask& behind_inputs);

/// Result 0 has elements of operand 0 alone, as they are, or the greatest or least of them: codes go through.
bool keeps_codes(const Node& node);
/// The operand whose scale a result keeps: that of keeps_codes, or what dropout thins out.
std::optional<Ref> scaled_like(const Node& node);
/// The value behind what adds a bias and a relu to the result of `node` and nothing else uses.
Ref end_of_layer(const Graph& g, const Uses& uses, const Mask& behind_inputs, size_t node);

/// What may be said while a graph is emitted again.
struct Changes {
  std::function<Value(const Node&)> param = {};  ///< its value; else a param of that name
  std::function<void(size_t node, std::vector<Value>& operands)> operands = {};  ///< before the node is emitted
  std::function<Value(Ref, Value)> result = {};                                  ///< what stands for it behind it
};
/// Emits every node again into `to`, which gets g's inputs; gives the outputs.
std::vector<Value> copied(Graph& to, const Graph& g, const Changes& changes);
/// The graph with other outputs, which need not be named.
Graph with_results(const Graph& g, std::span<const Ref> results);
/// Values that no input of the graph reaches, by those of its params. Fails for a param that has none.
std::vector<Tensor> known_values(const Graph& g, std::span<const Ref> wanted, const NamedTensors& params,
                                 const Session& device);

}  // namespace rlx::quantization

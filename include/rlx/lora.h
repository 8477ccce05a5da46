// Low-rank adapters (Hu et al. 2021, "LoRA"): beside each chosen product with a weight W stands a small one that
// learns, x Wᵀ + alpha / rank (x Aᵀ) Bᵀ, with A [rank, in] and B [out, rank]; everything else is frozen, quantized
// weights too.
//
//     rlx::Lora lora = rlx::add_lora(loss, {.targets = {"query", "value"}, .rank = 8, .alpha = 16});
//     rlx::NamedTensors params = weights;
//     params.merge(lora.initial(seed));
//     rlx::TrainConfig config;
//     config.groups = lora.groups();
//     rlx::TrainingSession session(lora.graph, params, config);
//     ...
//     rlx::save_lora("adapter", lora, session.params());               // as the package PEFT keeps it
//     rlx::NamedTensors merged = rlx::merge_lora(lora, session.params());  // for the graph without adapters
#pragma once

#include "rlx/train.h"

namespace rlx {

struct LoraConfig {
  /// The modules that get adapters, by whole name, or by the end of their name after a dot: "query" means every
  /// "....query". The name of a module is that of its weight without ".weight".
  std::vector<std::string> targets;
  int64_t rank = 8;
  double alpha = 8;  ///< the adapter's product is multiplied by alpha / rank
};

/// A graph with adapters.
struct Lora {
  struct Module {
    std::string name;
    Signature::Entry weight;  ///< the frozen param
    int64_t in = 0, out = 0;  ///< of the product
    bool in_by_out = false;   ///< the weight stands as [in, out] instead of [out, in]
    std::string a, b;  ///< params of the graph: "<name>.lora_A.weight" [rank, in], "<name>.lora_B.weight" [out, rank]
  };
  LoraConfig config;
  Graph graph;
  std::vector<Module> modules;

  double scale() const { return config.alpha / static_cast<double>(config.rank); }
  /// Initial values. A is uniform within 1 / sqrt(in), by Philox from the seed. B is zero, so that the graph computes
  /// the same as before at first.
  NamedTensors initial(uint64_t seed = 0) const;
  /// Groups for a TrainConfig, with which only the adapters are trained.
  std::vector<ParamGroup> groups() const;
};

/// Adds adapters to products (matmul, linear, fused_matmul, dequant_matmul) whose weight is a param named by a target,
/// or comes from one through dequantize, dequantize_blocks, dequantize_blockwise, convert or transpose. Fails if a
/// target names no such product, naming those there are. Sub-graphs are left alone.
Lora add_lora(const Graph& g, const LoraConfig& config);

/// The params of the graph without adapters: to each weight the product of its adapter is added, in the weight's dtype.
/// Weights in blocks are dequantized, added to and quantized again, which rounds. Fails for a block format that cannot
/// be written, and for quantized values with separate scales.
NamedTensors merge_lora(const Lora& lora, const NamedTensors& params);

/// Writes the adapters alone into a folder as PEFT does: adapter_model.safetensors, tensors named
/// "base_model.model.<module>.lora_A.weight", and adapter_config.json.
void save_lora(const std::string& folder, const Lora& lora, const NamedTensors& params);
/// Reads such a folder; the result has the names of the graph's params. Fails if the adapters are for other modules or
/// have another rank or alpha.
NamedTensors load_lora(const std::string& folder, const Lora& lora);

}  // namespace rlx

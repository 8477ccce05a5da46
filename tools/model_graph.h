// The graph behind what the user calls a model: a `.rlx` file, a model folder, a folder that `rlx train` wrote, or a
// file of `rlx compile`.
#pragma once

#include <string>

#include "rlx/graph.h"

namespace rlx::tools {

bool is_folder(const std::string& path);
/// Fails, naming what there is to give, for anything else.
Graph load_model(const std::string& path);
/// The safetensors file with the params of a model that are used where no others are named: of a model folder
/// model.safetensors, of a training (its folder, or the inference.rlx in it) params.safetensors. Empty if there is
/// none.
std::string weights_of(const std::string& path);

constexpr const char *kInferenceGraph = "inference.rlx", *kTrainedParams = "params.safetensors";

}  // namespace rlx::tools

// The graph behind what the user calls a model: a `.rlx` file, a model folder, a folder that `rlx train` wrote, or a
// file of `rlx compile`.
#pragma once

#include <optional>
#include <string>

#include "rlx/language_model.h"

namespace rlx::tools {

bool is_folder(const std::string& path);
/// Fails, naming what there is to give, for anything else.
Graph load_model(const std::string& path);
/// What the config.json of a folder says of a decoder of text; nothing if it is none of one.
std::optional<LanguageModelConfig> decoder_config(const std::string& folder);
/// Whether it is a decoder of text: a folder whose config.json describes one, or a .gguf file.
bool is_language_model(const std::string& path);
/// The graph of one step of it, with weights of the types that its files have.
Graph language_model_graph(const std::string& path);
/// The safetensors file with the params of a model that are used where no others are named: of a model folder
/// model.safetensors, of a training (its folder, or the inference.rlx in it) params.safetensors. Empty if there is
/// none.
std::string weights_of(const std::string& path);

constexpr const char *kInferenceGraph = "inference.rlx", *kTrainedParams = "params.safetensors";

}  // namespace rlx::tools

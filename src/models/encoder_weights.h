// Weights of encoders from their folders: names, with the prefix that some files have, halves as f32, and no tensor
// that nothing reads. Users: sentence_encoder.cpp and text_encoder.cpp.
#pragma once

#include <string>

#include "rlx/models.h"

namespace rlx::encoders {

/// Binds each param of a graph of `config` to its tensor in the folder's model.safetensors. Tensors of heads that the
/// graph does not have mean nothing; any other that nothing reads is an error.
void bind_params(CompiledGraph& compiled, const std::string& folder, const EncoderConfig& config);

}  // namespace rlx::encoders

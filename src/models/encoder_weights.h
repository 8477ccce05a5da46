// Binds the weights of encoders from their folders. Some files have a prefix in front of names; f16 and bf16 become
// f32; a tensor that nothing reads is an error. Users: sentence_encoder.cpp and text_encoder.cpp.
#pragma once

#include <string>

#include "rlx/models.h"

namespace rlx::encoders {

/// Binds each param of a graph of `config` to its tensor in the folder's model.safetensors. It ignores heads that the
/// graph does not have, buffers, and equal copies of tied weights; other unread tensors are errors.
void bind_params(CompiledGraph& compiled, const std::string& folder, const EncoderConfig& config);

}  // namespace rlx::encoders

// The params of a model from safetensors files.
#pragma once

#include <string>
#include <vector>

#include "rlx/io.h"
#include "rlx/session.h"

namespace rlx::tools {

/// The values of the params of `signature` by their names, each from the first of `files` that has it; without files,
/// from the model's own (`weights_of`). Of the declared types where those are static. Fails, naming the nearest, for a
/// param that no file has, unless the name is one of `bound`: these have values already, which a file may replace.
/// Empty if there is no file at all.
NamedTensors read_params(const Signature& signature, const std::string& model, const std::vector<std::string>& files,
                         const std::vector<std::string>& bound = {});

/// "'w' (f32[3, 2]), 'b' (f32[2])": of those that are neither in `values` nor in `bound`.
std::string missing_params(const Signature& signature, const NamedTensors& values,
                           const std::vector<std::string>& bound = {});

}  // namespace rlx::tools

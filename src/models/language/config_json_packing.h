// How weights are packed, by config.json.
#pragma once

#include "models/language/config_json_keys.h"
#include "rlx/language_model.h"

namespace rlx::language::config_json {

/// From `quantization_config`, or mlx-lm's `quantization`; `inner` is a decoder's own part of the file, or null. Fails
/// as unsupported for a method, a layout or a number of bits that is not read, naming those that are.
WeightPacking packing_of(const Keys& outer, const Keys* inner);

}  // namespace rlx::language::config_json

// Rotary positions as config.json describes them; see config_json.cpp.
#pragma once

#include "models/language/config_json_keys.h"

namespace rlx::language::config_json {

/// One set of positions for all layers: `rope_scaling` and, where that is left out or empty, `rope_parameters`, beside
/// `rope_theta` and others among the keys of the model.
void fill_rope(LanguageModelConfig& c, const Keys& k);
/// Gemma 3: one for layers that see everything, one for those with a window.
void fill_ropes(LanguageModelConfig& c, const Keys& k);

}  // namespace rlx::language::config_json

// Rotary positions as config.json describes them; see config_json.cpp.
#pragma once

#include "models/language/config_json_keys.h"

namespace rlx::language::config_json {

/// Fills `rope`, which all layers share. Reads `rope_scaling`, or `rope_parameters` if that is absent or empty;
/// `rope_theta` and the like are read from the model's own keys as well.
void fill_shared_rope(LanguageModelConfig& c, const Keys& k);
/// Fills `rope`, of layers that see everything, and `local_rope`, of those with a window: members "full_attention"
/// and "sliding_attention" of `rope_parameters`. Members of `rope_scaling` replace those of the first.
void fill_gemma3_ropes(LanguageModelConfig& c, const Keys& k);

}  // namespace rlx::language::config_json

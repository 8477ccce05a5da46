// What a decoder keeps of a text, layer by layer: the inputs of its graph that each step updates.
#pragma once

#include <string>
#include <vector>

#include "rlx/language_model.h"

namespace rlx::language {

/// An input that is updated. Of attention the names end with ".keys" and ".values", of recurrences with ".convolution"
/// and ".state".
struct CacheInput {
  std::string name;
  Type type;
};
/// Two for each layer, in the order of the layers. `cache` is the dtype of keys and values; their capacity is a symbol.
std::vector<CacheInput> cache_inputs(const LanguageModelConfig& config, DType cache);

}  // namespace rlx::language

// What a Core ML package says of itself, for whoever looks at it: as JSON (CoremlModel::description_json).
#pragma once

#include <nlohmann/json.hpp>

#include "io/mil.h"

namespace rlx {

/// Of the model, and of the features of that function.
nlohmann::ordered_json description_of(const mil::Model& model, const std::string& function);

}  // namespace rlx

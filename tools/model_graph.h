// The graph behind what the user calls a model: a `.rlx` file, or a model folder.
#pragma once

#include <string>

#include "rlx/graph.h"

namespace rlx::tools {

bool is_folder(const std::string& path);
/// Fails, naming what there is to give, for anything else.
Graph load_model(const std::string& path);

}  // namespace rlx::tools

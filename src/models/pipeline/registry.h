// Stages by name: the library's own, those that were registered, and ops, which are stages too.
#pragma once

#include <string_view>

#include "rlx/pipeline.h"

namespace rlx {

/// The stage of that name; else the op of that name as a stage, whose settings are its attributes. Fails, naming the
/// nearest, if there is neither.
StageDef find_stage(std::string_view name);
/// The library's own; stages.cpp.
const std::vector<StageDef>& library_stages();

}  // namespace rlx

// What a character model has learnt to write.
#pragma once

#include "rlx/session.h"
#include "tools/train/models.h"

namespace rlx::tools {

/// Writes on from the prompt.
std::string written_text(const TrainModel& model, const NamedTensors& params, const TrainSettings& settings,
                         const Session& device);

}  // namespace rlx::tools

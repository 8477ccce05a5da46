// What the settings of `rlx train` mean for a session: its config, its batches, and what is fed beside them.
#pragma once

#include "rlx/data.h"
#include "rlx/train.h"
#include "tools/train/models.h"

namespace rlx::tools {

/// The config of a session: optimizer, schedule over `steps`, groups. Fails for a name that is none.
TrainConfig train_config(const TrainSettings& settings, const TrainModel& model, int64_t steps);
/// The batch, and a key of this step for a graph that has an input 'key'.
std::vector<NamedTensor> inputs_of(const Graph& loss, std::vector<NamedTensor> batch, int64_t seed, int64_t step);
LoaderOptions loader_options(const TrainModel& model, const TrainSettings& settings);
/// The loader of the examples that a model is tested by; fails if they make no batch.
Loader test_loader(const TrainModel& model, const TrainSettings& settings);

}  // namespace rlx::tools

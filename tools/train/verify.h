// How well a model of `rlx train` does.
#pragma once

#include "rlx/session.h"
#include "tools/train/models.h"

namespace rlx::tools {

/// What a model does on the examples that it is tested by, or on those it learns from if there are no others.
struct TestMeans {
  double loss = 0;  ///< the first output
  std::optional<double> accuracy = {};
  std::string text() const;  ///< "loss 0.1234  accuracy 97.50 %"
};
/// `tested`, with its params bound, has the outputs of model.tested.
TestMeans test_means(const CompiledGraph& tested, const TrainModel& model, const TrainSettings& settings, int64_t step);

}  // namespace rlx::tools

// The loop of `rlx train`: batches in, metrics, checkpoints and the trained params out.
#pragma once

#include "rlx/train.h"
#include "tools/train_models.h"

namespace rlx::tools {

struct TrainRun {
  TrainSettings settings;
  bool resume = false, overwrite = false;
  int threads = 0;
  std::string device = "cpu";
};

/// Trains to the end, or until an interrupt asks to stop, and leaves in the folder settings.out:
/// checkpoint.safetensors, params.safetensors, metrics.jsonl, loss.svg and, of char_lm, sample.txt.
void train(const TrainRun& run);

/// The config of a session: optimizer, schedule over `steps`, groups. Fails for a name that is none.
TrainConfig train_config(const TrainSettings& settings, const TrainModel& model, int64_t steps);
/// The batch, and a key of this step for a graph that has an input 'key'.
std::vector<NamedTensor> inputs_of(const Graph& loss, std::vector<NamedTensor> batch, int64_t seed, int64_t step);
LoaderOptions loader_options(const TrainModel& model, const TrainSettings& settings);

/// What a model does on the examples that it is tested by, or on those it learns from if there are no others.
struct TestMeans {
  double loss = 0;  ///< the first output
  std::optional<double> accuracy = {};
  std::string text() const;  ///< "loss 0.1234  accuracy 97.50 %"
};
/// `tested`, with its params bound, has the outputs of model.tested.
TestMeans test_means(const CompiledGraph& tested, const TrainModel& model, const TrainSettings& settings, int64_t step);
/// The loader of those examples; fails if they make no batch.
Loader test_loader(const TrainModel& model, const TrainSettings& settings);

/// `rlx train --audit`: each trained param with the norm of its gradient for the first batch. Fails if the loss does
/// not reach one, unless the settings allow it.
void audit(const TrainRun& run);

/// Writes on from the prompt.
std::string written_text(const TrainModel& model, const NamedTensors& params, const TrainSettings& settings,
                         const Session& device);

}  // namespace rlx::tools

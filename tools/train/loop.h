// The loop of `rlx train`: batches in, metrics, checkpoints and the trained params out.
#pragma once

#include "tools/device_option.h"
#include "tools/train/settings.h"

namespace rlx::tools {

struct TrainRun {
  TrainSettings settings;
  bool resume = false, overwrite = false;
  bool json = false;  ///< print a JSON object a line instead of text: the lines of metrics.jsonl, and one at the end
  int threads = 0;
  std::string device = default_device();
};

/// Trains to the end, or until an interrupt asks to stop, and leaves in the folder settings.out:
/// checkpoint.safetensors, params.safetensors, metrics.jsonl, loss.svg and, of char_lm, sample.txt.
void train(const TrainRun& run);

/// `rlx train --audit`: each trained param with the norm of its gradient for the first batch. Fails if the loss does
/// not reach one, unless the settings allow it.
void audit(const TrainRun& run);

}  // namespace rlx::tools

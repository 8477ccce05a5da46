// What `rlx train` with [quantize] and `rlx quantize` share: the settings as configs, calibration by a model's data,
// and the int8 model with its figures.
#pragma once

#include "rlx/quantization.h"
#include "tools/train/models.h"

namespace rlx::tools {

/// Fail for names that are none. `activation_scales` stands for the kind that the settings name.
QuantizationConfig quantization_config(const TrainSettings& settings, const std::string& activation_scales);
CalibrationOptions calibration_options(const TrainSettings& settings);
/// The ranges of a model's activations, from the first batches of the examples to learn from, in a shuffled order.
Calibration calibrated(const TrainModel& model, const NamedTensors& params, const TrainSettings& settings,
                       const QuantizationConfig& config, const Session& device);

/// What is kept of a model whose graphs have got fake quantization.
struct QuantizedTraining {
  QuantizationConfig config;
};
/// Nothing unless the settings ask for it; else the model's graphs, initial values and groups are those of training
/// with fake quantization. Scales in the file of --params are taken; what else is beside the params in it fails.
std::optional<QuantizedTraining> quantized_training(TrainModel& model, const TrainSettings& settings,
                                                    const Session& device);

/// Writes the int8 graph of a model that was trained so, and tells what it does on the examples for testing.
std::string write_int8(const QuantizedTraining& q, const TrainModel& model, const NamedTensors& params,
                       const TrainSettings& settings, const Session& device, const std::string& path);

}  // namespace rlx::tools

// See the header.
#include "tools/quantization.h"

#include <algorithm>

#include "rlx/graph_file.h"
#include "tools/output.h"
#include "tools/train/session.h"
#include "tools/train/verify.h"

namespace rlx::tools {
namespace {

/// The enumerator of that name.
template <class E>
E named(const char* setting, const std::string& name) {
  constexpr auto kNames = names_of(E{});
  auto found = std::find(kNames.begin(), kNames.end(), name);
  if (found != kNames.end()) return static_cast<E>(found - kNames.begin());
  std::string all;
  for (std::string_view each : kNames) all += (all.empty() ? "" : ", ") + std::string(each);
  fail(ErrorCode::not_found, "there is no ", setting, " '", name, "'; there are ", all);
}

}  // namespace

QuantizationConfig quantization_config(const TrainSettings& s, const std::string& activation_scales) {
  QuantizationConfig config;
  config.activations = named<ScaleKind>("activation_scales", activation_scales);
  config.weights = named<ScaleKind>("weight_scales", s.weight_scales);
  config.ste = named<SteKind>("ste", s.ste);
  config.symmetric = s.symmetric, config.decay = s.scale_decay;
  for (const char* op : {"conv", "linear", "matmul", "dot_general"})
    config.classes[op] = {true, s.weight_bits, s.activation_bits};
  config.skip = s.keep_float;
  return config;
}

CalibrationOptions calibration_options(const TrainSettings& s) {
  CalibrationOptions options;
  options.method = named<CalibrationMethod>("calibration", s.calibration);
  options.percentile = s.percentile;
  return options;
}

Calibration calibrated(const TrainModel& model, const NamedTensors& params, const TrainSettings& s,
                       const QuantizationConfig& config, const Session& device) {
  LoaderOptions options = loader_options(model, s);
  options.transforms.clear();
  Loader loader(model.data.train, options);
  std::vector<std::vector<NamedTensor>> batches;
  for (int64_t i = 0; i < std::min(s.calibration_batches, loader.batches_per_epoch()); ++i)
    batches.push_back(inputs_of(model.tested, loader.next().tensors, s.seed, i));
  return calibrate(model.tested, params, batches, config, calibration_options(s), device);
}

std::optional<QuantizedTraining> quantized_training(TrainModel& model, const TrainSettings& s, const Session& device) {
  if (s.activation_scales.empty()) {
    require_nothing_beside(model);
    return std::nullopt;
  }
  QuantizedTraining kept{quantization_config(s, s.activation_scales)};
  Quantization learning = add_quantization(model.loss, kept.config, true);
  NamedTensors scales;
  if (kept.config.activations == ScaleKind::fixed || kept.config.activations == ScaleKind::learned)
    scales = learning.initial(model.initial, calibrated(model, model.initial, s, kept.config, device));
  else scales = learning.initial(model.initial);
  for (auto& [name, value] : scales)  // those of an earlier training go on
    if (auto given = model.beside.extract(name)) {
      if (given.mapped().type() != value.type())
        fail(ErrorCode::shape_mismatch, "'", name, "' of the file of --params is ", given.mapped().type(), ", not ",
             value.type());
      value = given.mapped();
    }
  require_nothing_beside(model);
  model.loss = learning.graph;
  model.tested = add_quantization(model.tested, kept.config).graph;
  if (model.answering) model.answering = add_quantization(*model.answering, kept.config).graph;
  if (model.writer) model.writer = add_quantization(*model.writer, kept.config).graph;
  model.written = learning.written, model.groups = learning.groups();
  model.initial.merge(scales);
  return kept;
}

std::string write_int8(const QuantizedTraining& q, const TrainModel& model, const NamedTensors& params,
                       const TrainSettings& s, const Session& device, const std::string& path) {
  if (q.config.activations == ScaleKind::per_batch)
    return "no int8 model is written: with activation_scales per_batch its scales depend on each batch\n";
  Int8Model tested = export_int8(model.tested, params, device);
  save_graph(path, model.answering ? export_int8(*model.answering, params, device).graph : tested.graph);
  return tested.table() + "int8 " + test_means(device.compile(tested.graph), model, s, 0).text() + "; " + path +
         " is written\n";
}

}  // namespace rlx::tools

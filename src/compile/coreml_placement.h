// Where Core ML would run each operation of a program: a prediction, from rules that are published, and not what a
// device said. On Apple's systems MLComputePlan says it (backends/coreml_framework).
#pragma once

#include "io/mil.h"
#include "rlx/device.h"

namespace rlx::mlprogram {

struct Placement {
  std::string op, name;
  std::string device;  ///< "ane", "gpu", "cpu"; "load": computed when the model is loaded (constants)
  std::string reason;  ///< which rule says so
};

/// Of each operation of the function, nested blocks included, if Core ML may use `units`.
std::vector<Placement> predict_placement(const mil::Model& model, const std::string& function, ComputeUnits units);

}  // namespace rlx::mlprogram

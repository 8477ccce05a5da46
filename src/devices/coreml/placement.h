// Where Core ML would run each operation of a program: a prediction, from rules that are published, and not what a
// device said. On Apple's systems MLComputePlan says it (backends/coreml_framework), and is asked there.
#pragma once

#include "backends/coreml_framework/framework.h"
#include "io/mil.h"
#include "rlx/report.h"

namespace rlx::mlprogram {

/// Of each operation of the function, nested blocks included, if Core ML may use `units`.
std::vector<PlacedOp> predict_placement(const mil::Model& model, const std::string& function, ComputeUnits units);
/// What a device plans, in the same words.
PlacementReport placement_of(const std::vector<coreml_framework::PlannedOp>& plan);
/// Of a package: what the framework plans where it is present and says so, else a prediction.
PlacementReport placement_of(const std::string& package, const mil::Model& model, const std::string& function,
                             ComputeUnits units,
                             const coreml_framework::Framework& framework = coreml_framework::system_framework());

}  // namespace rlx::mlprogram

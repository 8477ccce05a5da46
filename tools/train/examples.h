// The examples that a model of `rlx train` learns from and is tested by.
#pragma once

#include "tools/train/models.h"

namespace rlx::tools {

/// What --data and --test name; for a graph `g` its inputs in its own dtypes. Fails where the two do not fit.
TrainData data_of(const TrainSettings& settings, const Graph* g = nullptr);
/// Keeps the last examples to be tested by, if the settings say so and there are no others.
void hold_out(TrainData& data, const TrainSettings& settings);
/// Of a batch of one input of the built-in model of that name.
const Type& type_named(const TrainData& data, const std::string& name, const std::string& model);
/// "example 7 of 'x' has nan": the first one that is not finite, or nothing.
std::string not_finite_in(const Dataset& data);
/// One more than the greatest label.
int64_t classes_in(const Dataset& data);

}  // namespace rlx::tools

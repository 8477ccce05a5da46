// A model that is run without a package on disk: what MilBuilder::load gives.
#pragma once

#include "io/mlpackage.h"
#include "rlx/coreml_model.h"

namespace rlx {

CoremlModel coreml_model_of(PackageInMemory package, CoremlOptions options);

}  // namespace rlx

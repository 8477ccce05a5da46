// The device "coreml": a graph becomes an ML Program, the program a package, and the package runs: through
// CoreML.framework where there is one, and elsewhere through the MIL front end on the CPU. Either way a package is
// written and read back, and what runs has the types and the operations of the program.
#pragma once

#include "backends/backend.h"
#include "backends/coreml_framework/framework.h"

namespace rlx {

/// Which processors a device "coreml", "coreml:ane" names.
ComputeUnits coreml_units(const Device& device);

/// `framework` is the system's, or what stands for it in a test.
std::unique_ptr<Backend> make_coreml_device(
    Device device, const coreml_framework::Framework& framework = coreml_framework::system_framework());

}  // namespace rlx

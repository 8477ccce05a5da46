// The device "coreml": a graph becomes an ML Program, the program a package, and the package runs: through
// CoreML.framework where there is one, and elsewhere through the MIL front end on the CPU. Either way a package is
// written and read back, and what runs has the types and the operations of the program.
#pragma once

#include "backends/backend.h"
#include "rlx/device.h"

namespace rlx {

std::unique_ptr<Backend> make_coreml_device(Device device);

}  // namespace rlx

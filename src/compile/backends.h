// The one list of backends: a device becomes a backend here.
#pragma once

#include "backends/backend.h"
#include "rlx/device.h"

namespace rlx {

/// The backend of a device; null if this build has none.
std::shared_ptr<const Backend> find_backend(Device device);
/// The same; fails, naming the devices that there are.
std::shared_ptr<const Backend> backend_of(Device device);
/// Those that lower graphs to code of their own: not the device "coreml", which runs packages through another one.
std::vector<std::shared_ptr<const Backend>> all_backends();

}  // namespace rlx

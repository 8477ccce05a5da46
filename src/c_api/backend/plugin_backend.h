// A backend from outside as one of ours.
#pragma once

#include <memory>

#include "backends/backend.h"
#include "c_api/backend/plugin_device.h"

namespace rlx::c {

std::shared_ptr<const Backend> make_plugin_backend(PluginDevice& device);

}  // namespace rlx::c

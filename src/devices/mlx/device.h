// The device mlx: Apple's MLX, whose library is opened when it is first needed.
#pragma once

#include "backends/backend.h"
#include "rlx/device.h"

namespace rlx {

/// In the mode that the device's name asks for (mlx:eager), else the one of RLX_MLX_MODE, else lazy. Where this build
/// has no MLX, or it cannot be loaded, `unavailable` says how to get it.
std::unique_ptr<Backend> make_mlx_device(const Device& device);

}  // namespace rlx

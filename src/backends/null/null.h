// The smallest backend: claims every primitive, lowers to nothing, runs nowhere. Copy this folder to begin another.
#pragma once

#include "backends/backend.h"

namespace rlx::null {

std::unique_ptr<Backend> make_backend();

}  // namespace rlx::null

// The CPU backend: the processor that this program runs on.
#pragma once

#include "backends/backend.h"

namespace rlx::cpu {

std::unique_ptr<Backend> make_backend();

}  // namespace rlx::cpu

// Shared libraries of a user's, which bring backends, ops and kernels.
#pragma once

#include <string>

namespace rlx {

/// Loads a shared library and calls what it has of `rlx_register_backends`, which registers backends (rlx/backend.h),
/// and `extern "C" void rlx_register()`, which registers ops and kernels (rlx/op_def.h, rlx/kernel.h). It stays loaded
/// until the process ends, also if this fails, and what it has registered by then stays. Fails if it cannot be loaded,
/// with the system's reason, if it has neither function or brings a copy of RLX of its own, or as its functions do.
void load_plugin(const std::string& path);

}  // namespace rlx

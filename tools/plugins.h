// Shared libraries of a user's, loaded before a subcommand runs: what their `extern "C" void rlx_register()` registers
// is known to it.
#pragma once

#include <string>
#include <vector>

namespace rlx::tools {

/// Loads each, in order. Fails if one cannot be loaded, with the system's reason, if it has no such
/// function, or as that does.
void load_plugins(const std::vector<std::string>& paths);

}  // namespace rlx::tools

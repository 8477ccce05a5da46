// What `--device` and `--target` are by default.
#pragma once

#include <cstdlib>
#include <string>

namespace rlx::tools {

/// The device that RLX_DEVICE names, which is looked at when it is used; else the processor.
inline std::string default_device() {
  const char* named = std::getenv("RLX_DEVICE");
  return named && *named ? named : "cpu";
}

}  // namespace rlx::tools

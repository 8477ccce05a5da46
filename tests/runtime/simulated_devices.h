// The two pretended accelerators (src/devices/simulated): memory that the host cannot read, and limits as WebGPU's.
#pragma once

#include "rlx/device.h"

namespace rlx::test {

inline const Device kLoopback("loopback"), kTiny("tiny");

}  // namespace rlx::test

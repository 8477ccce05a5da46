// What sessions make of `rlx calibrate`; see rlx/machine.h.
#pragma once

#include "rlx/machine.h"

namespace rlx {

/// Once in a process: reads the file, if there is one, and lets the kernels choose by it. What is wrong with it is
/// said on standard error, and the defaults stay.
void use_measured_machine();

}  // namespace rlx

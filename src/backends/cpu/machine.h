// What sessions make of `rlx calibrate`; see rlx/machine.h.
#pragma once

#include "kernels/cost_model.h"
#include "rlx/machine.h"

namespace rlx {

/// What kernels choose by on such a machine. What was not measured is left as it is by default.
kernels::CostModel cost_model_of(const MachineSpeeds& speeds);
/// Once in a process: reads the file, if there is one, and lets the kernels choose by it. What is wrong with it is
/// said on standard error, and the defaults stay.
void use_measured_machine();

}  // namespace rlx

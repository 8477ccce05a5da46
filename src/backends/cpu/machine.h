// How sessions use the measurements of `rlx calibrate`. The public interface is rlx/machine.h.
#pragma once

#include "kernels/cost_model.h"
#include "rlx/machine.h"

namespace rlx {

/// The cost model by which kernels choose on a machine of these speeds. Figures that were not measured (0) keep their
/// defaults.
kernels::CostModel cost_model_of(const MachineSpeeds& speeds);
/// On the first call in a process, reads the file of `rlx calibrate`, if there is one, and sets the kernels' cost
/// model. If the file cannot be used, a logged warning (rlx/log.h) says why, and the defaults stay.
void use_measured_machine();

}  // namespace rlx

// What a prediction by a package is given: files hold arrays of any number's type, as NumPy writes them.
#pragma once

#include "rlx/coreml_model.h"

namespace rlx::tools {

/// Whether elements of that dtype are single numbers.
bool is_number(DType dtype);

/// The inputs in the dtypes that the model wants. Floats are rounded to narrower ones; integers must keep their values,
/// and so must floats that become integers: else it fails, naming the input.
std::vector<NamedTensor> as_wanted(const CoremlModel& model, const std::vector<NamedTensor>& given);

}  // namespace rlx::tools

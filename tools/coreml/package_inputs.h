// What a prediction by a package is given: files hold arrays of any number's type, as NumPy writes them.
#pragma once

#include <optional>

#include "rlx/coreml_model.h"
#include "rlx/session.h"
#include "tools/image_input.h"

namespace rlx::tools {

/// Whether elements of that dtype are single numbers.
bool is_number(DType dtype);

/// The inputs in the dtypes that the model wants. Floats are rounded to narrower ones; integers must keep their values,
/// and so must floats that become integers: else it fails, naming the input.
std::vector<NamedTensor> as_wanted(const CoremlModel& model, const std::vector<NamedTensor>& given);

/// The same for a graph's inputs.
std::vector<NamedTensor> as_wanted(const std::vector<Signature::Entry>& inputs, const std::vector<NamedTensor>& given);

/// What the inputs of a package are: an image's program scales what an image holds, 0 to 255.
WantedInputs wanted_by(const CoremlModel& model);

/// The label that a classifier chose: the output that the package calls its predicted feature is the label's place.
std::optional<std::string> label_among(const CoremlModel& model, const std::vector<NamedTensor>& results);

}  // namespace rlx::tools

// Arrays as JSON, for whoever reads what the program prints.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "rlx/session.h"

namespace rlx::tools {

/// {"outputs": [{"name", "dtype", "shape", "values"}]} and a newline: all elements in row-major order, what is no
/// number as null, complex numbers as pairs. Fails for dtypes whose elements are no numbers of their own. What a
/// classifier chose stands beside "outputs" as "label".
std::string values_json(std::span<const Signature::Entry> entries, std::span<const Tensor> tensors,
                        const std::optional<std::string>& label = std::nullopt);

}  // namespace rlx::tools

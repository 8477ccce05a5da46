// Running a legal graph by MLX.
#pragma once

#include <memory>

#include "backends/backend.h"
#include "backends/mlx/plan.h"

namespace rlx::mlx_backend {

/// A graph with symbols has a plan for each of the latest sets of input shapes.
std::unique_ptr<Executable> make_executable(Graph legal, Mode mode, const LoadOptions& options);

/// Module::write_function.
void write_function(Graph legal, const NamedTensors& params, const std::string& path);

}  // namespace rlx::mlx_backend

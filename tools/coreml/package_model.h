// Core ML packages for the subcommands that take a model: running one, and saying what is in it.
#pragma once

#include <string>
#include <vector>

#include "rlx/coreml_model.h"

namespace rlx::tools {

bool is_package(const std::string& path);

struct PackageRun {
  std::string model, function, steps, output_dir, output_file;
  bool f32 = false;
  int threads = 0;
  bool compare = false;  ///< beside the same in f32, op by op
  bool json = false;     ///< print outputs as JSON, an object for each prediction
};
/// One prediction on `inputs`; or one for each folder of `steps`, in the order of their numbers, whose <input>.npy
/// stand for the inputs that are not in `inputs`. States live from step to step.
void run_package(const PackageRun& options, const std::vector<NamedTensor>& inputs);
/// Functions, their inputs, outputs and states, ops, weights by dtype, sizes.
void inspect_package(const std::string& path, bool all);

}  // namespace rlx::tools

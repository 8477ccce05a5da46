// `rlx run PIPELINE.toml`: the stages of a pipeline on arrays and texts from files.
#pragma once

#include <string>
#include <vector>

#include "rlx/pipeline.h"

namespace rlx::tools {

struct PipelineRun {
  std::string path;
  std::vector<std::string> inputs;  ///< NAME=FILE.npy, NAME=FILE.txt (a text a line), FILE.npz, FILE.safetensors
  std::string output_dir, output_file;
  bool json = false;
  Pipeline::Options options = {};
};
void run_pipeline(const PipelineRun& request);

}  // namespace rlx::tools

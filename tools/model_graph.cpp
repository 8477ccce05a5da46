// See the header.
#include "tools/model_graph.h"

#include <filesystem>

#include "rlx/graph_file.h"
#include "rlx/models.h"
#include "tools/coreml/package_model.h"

namespace rlx::tools {

bool is_folder(const std::string& path) {
  std::error_code error;
  return std::filesystem::is_directory(path, error);
}

Graph load_model(const std::string& path) {
  if (is_package(path)) return load_mlpackage_graph(path);
  if (is_folder(path)) return load_model_graph(path);
  for (const char* weights : {".safetensors", ".npy", ".npz"})
    if (path.ends_with(weights))
      fail(ErrorCode::invalid_argument, "'", path, "' holds arrays, not a graph; give a .rlx file or a model folder");
  return load_graph(path);
}

}  // namespace rlx::tools

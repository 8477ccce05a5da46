// See the header.
#include "tools/model_graph.h"

#include <filesystem>

#include "rlx/artifact.h"
#include "rlx/graph_file.h"
#include "rlx/models.h"
#include "tools/coreml/package_model.h"

namespace rlx::tools {
namespace {

namespace fs = std::filesystem;

bool has(const fs::path& folder, const char* name) {
  std::error_code error;
  return fs::is_regular_file(folder / name, error);
}

}  // namespace

bool is_folder(const std::string& path) {
  std::error_code error;
  return std::filesystem::is_directory(path, error);
}

Graph load_model(const std::string& path) {
  if (is_package(path)) return load_mlpackage_graph(path);
  if (is_folder(path)) {
    if (has(path, kInferenceGraph)) return load_graph((fs::path(path) / kInferenceGraph).string());
    if (has(path, kTrainedParams) && !has(path, "config.json"))
      fail(ErrorCode::invalid_argument, "the folder '", path, "' has params and no ", kInferenceGraph,
           ": it was trained from a graph of your own, or has not come to its end; give a graph that answers, and "
           "--params ",
           (fs::path(path) / kTrainedParams).string());
    return load_model_graph(path);
  }
  if (is_artifact(path)) return artifact_graph(path);
  for (const char* weights : {".safetensors", ".npy", ".npz"})
    if (path.ends_with(weights))
      fail(ErrorCode::invalid_argument, "'", path, "' holds arrays, not a graph; give a .rlx file or a model folder");
  return load_graph(path);
}

std::string weights_of(const std::string& path) {
  if (is_package(path)) return {};
  if (is_folder(path))
    return (fs::path(path) / (has(path, kInferenceGraph) ? kTrainedParams : "model.safetensors")).string();
  const fs::path beside = fs::path(path).parent_path();
  return fs::path(path).filename() == kInferenceGraph && has(beside, kTrainedParams)
             ? (beside / kTrainedParams).string()
             : std::string();
}

}  // namespace rlx::tools

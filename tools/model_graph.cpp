// See the header.
#include "tools/model_graph.h"

#include <filesystem>

#include "models/language/weight_files.h"
#include "rlx/artifact.h"
#include "rlx/graph_file.h"
#include "rlx/language_model.h"
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

bool is_language_model(const std::string& path) {
  return path.ends_with(".gguf") || (is_folder(path) && decoder_config(path).has_value());
}

Graph language_model_graph(const std::string& path) {
  return with_context([&] { return text_of("reading the language model '", path, "'"); },
                      [&] {
                        std::unique_ptr<language::WeightFiles> weights;
                        LanguageModelConfig config;
                        if (is_folder(path)) {
                          config = decoder_config(path).value();
                          weights = language::open_folder(path, config, FileAccess::copied);
                        } else {
                          const GgufFile file = GgufFile::open(path);
                          config = LanguageModelConfig::from_gguf(file);
                          weights = language::open_gguf(file, config);
                        }
                        return decoder_graph(config, [&](const std::string& name) { return weights->type(name); });
                      });
}

std::optional<LanguageModelConfig> decoder_config(const std::string& folder) {
  const fs::path path = fs::path(folder) / "config.json";
  std::error_code error;
  if (!fs::is_regular_file(path, error) || fs::file_size(path, error) > (size_t{4} << 20)) return std::nullopt;
  const auto file = FileBytes::read(path.string());
  try {
    return LanguageModelConfig::from_json({reinterpret_cast<const char*>(file->bytes().data()), file->bytes().size()});
  } catch (const Error&) {
    return std::nullopt;  // an encoder, perhaps: load_model says what is wrong with it
  }
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

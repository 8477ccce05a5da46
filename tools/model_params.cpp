// See the header.
#include "tools/model_params.h"

#include <algorithm>

#include "tools/model_graph.h"

namespace rlx::tools {

NamedTensors read_params(const Signature& signature, const std::string& model, const std::vector<std::string>& paths,
                         const std::vector<std::string>& bound) {
  std::vector<SafetensorsFile> files;
  for (const std::string& path : paths) files.push_back(SafetensorsFile::open(path, FileAccess::when_read));
  if (files.empty() && !signature.params.empty())
    if (const std::string own = weights_of(model); !own.empty())
      files.push_back(SafetensorsFile::open(own, FileAccess::when_read));
  NamedTensors values;
  if (files.empty()) return values;
  for (const auto& param : signature.params) {
    auto file = std::find_if(files.begin(), files.end(), [&](const auto& each) { return each.find(param.name); });
    if (file == files.end()) {
      if (std::find(bound.begin(), bound.end(), param.name) != bound.end()) continue;
      file = files.begin();  // whose message suggests names
    }
    with_context([&] { return text_of("binding param '", param.name, "' (", param.type, ")"); },
                 [&] {
                   values.emplace(param.name, is_static(param.type.dims) ? file->tensor(param.name, param.type.dtype,
                                                                                        shape_of(param.type.dims))
                                                                         : file->tensor(param.name));
                 });
  }
  return values;
}

std::string missing_params(const Signature& signature, const NamedTensors& values,
                           const std::vector<std::string>& bound) {
  std::string missing;
  for (const auto& param : signature.params)
    if (!values.contains(param.name) && std::find(bound.begin(), bound.end(), param.name) == bound.end())
      missing += text_of(missing.empty() ? "" : ", ", "'", param.name, "' (", param.type, ")");
  return missing;
}

}  // namespace rlx::tools

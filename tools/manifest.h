// `rlx inspect --manifest`: the layers of a model as a table, as JSON or as a picture.
#pragma once

#include <string>
#include <vector>

namespace rlx::tools {

struct ManifestRequest {
  std::string model, svg;         ///< `svg`: the file to write; empty: none
  std::vector<std::string> dims;  ///< NAME=NUMBER
  bool json = false, all = false;
};
void print_manifest(const ManifestRequest& request);

}  // namespace rlx::tools

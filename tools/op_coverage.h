// Which of the published names of operations (src/ops/published_names.def) the op table covers.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace rlx::tools {

struct PublishedName {
  std::string_view family, name;
  std::vector<std::string_view> covered_by;  ///< ops; or what else stands for it
};
/// In the order of the list.
std::vector<PublishedName> published_names();
/// Names that an op says it covers and that are none: "op: Name".
std::vector<std::string> unpublished_names();
/// "N of 187", then what is missing, a line for each family.
std::string coverage_text();

}  // namespace rlx::tools

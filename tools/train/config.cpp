// The config file of `rlx train`: TOML 1.0.
#include <filesystem>

#include "io/toml_fields.h"
#include "tools/train/settings.h"

namespace rlx::tools {
namespace {

namespace fs = std::filesystem;

/// A file that is named in a config lies beside it, unless its path is absolute.
std::string beside(const std::string& config, const std::string& path) {
  fs::path home = with_home(path);
  return home.is_absolute() ? home.string() : (fs::path(config).parent_path() / home).string();
}

std::vector<std::string> files_in(const TomlTree& value) {
  std::vector<std::string> files;
  from_toml(value, files);
  return files;
}

void read(const TomlTree& tree, const std::string& path, TrainSettings& settings) {
  std::vector<std::string_view> sections = {"data", "test"};
  for (const Setting& s : settings_table())
    if (std::find(sections.begin(), sections.end(), s.section) == sections.end()) sections.push_back(s.section);
  for (const TomlTree& table : tree.items) {
    const std::string_view section = table.key;
    if (std::find(sections.begin(), sections.end(), section) == sections.end())
      fail(ErrorCode::parse, "line ", table.line, ": there is no section ", quoted_name(section),
           nearest_names(section, sections));
    if (table.kind != TomlTree::Kind::table)
      fail(ErrorCode::parse, "line ", table.line, ": ", quoted_name(section), " is a section: [", section, "]");
    std::vector<std::string_view> keys;
    for (const Setting& s : settings_table())
      if (s.section == section) keys.push_back(s.key);
    for (const TomlTree& value : table.items) {
      if (section == "data" || section == "test") {
        Strings files = files_in(value);
        for (std::string& file : files) file = beside(path, file);
        (section == "data" ? settings.data : settings.test)[value.key] = std::move(files);
        continue;
      }
      const Setting* found = nullptr;
      for (const Setting& s : settings_table())
        if (s.section == section && s.key == value.key) found = &s;
      if (!found)
        fail(ErrorCode::parse, "line ", value.line, ": section [", section, "] has no key ", quoted_name(value.key),
             nearest_names(value.key, keys));
      std::visit([&](auto member) { from_toml(value, settings.*member); }, found->member);
    }
  }
  if (settings.model.ends_with(".rlx")) settings.model = beside(path, settings.model);
  if (!settings.params.empty()) settings.params = beside(path, settings.params);
}

}  // namespace

void read_config(const std::string& path, TrainSettings& settings) {
  with_context([&] { return "reading the config file '" + path + "'"; },
               [&] { read(read_toml(path), path, settings); });
}

}  // namespace rlx::tools

// The config file of `rlx train`: TOML 1.0, read by toml++. The only file that includes it.
#include <toml++/toml.h>
#include <filesystem>

#include "io/names_in_messages.h"
#include "rlx/error.h"
#include "rlx/io.h"
#include "tools/train/settings.h"

namespace rlx::tools {
namespace {

namespace fs = std::filesystem;

auto line_of(const toml::node& node) { return node.source().begin.line; }

/// A file that is named in a config lies beside it, unless its path is absolute.
std::string beside(const std::string& config, const std::string& path) {
  fs::path home = with_home(path);
  return home.is_absolute() ? home.string() : (fs::path(config).parent_path() / home).string();
}

template <class T>
T get(const toml::node& node, std::string_view key, const char* wanted) {
  if constexpr (std::is_same_v<T, double>) {
    if (auto whole = node.value_exact<int64_t>()) return static_cast<double>(*whole);
  }
  if (auto value = node.value_exact<T>()) return *value;
  fail(ErrorCode::parse, "line ", line_of(node), ": '", key, "' wants ", wanted);
}
template <class T>
std::vector<T> list(const toml::node& node, std::string_view key, const char* wanted) {
  const toml::array* array = node.as_array();
  if (!array) return {get<T>(node, key, wanted)};
  std::vector<T> all;
  for (const toml::node& each : *array) all.push_back(get<T>(each, key, wanted));
  return all;
}

void set(const Setting& setting, const toml::node& node, TrainSettings& settings) {
  std::visit(
      [&](auto member) {
        auto& to = settings.*member;
        using T = std::remove_reference_t<decltype(to)>;
        if constexpr (std::is_same_v<T, Strings>)
          to = list<std::string>(node, setting.key, "a string, or an array of strings");
        else if constexpr (std::is_same_v<T, std::vector<int64_t>>)
          to = list<int64_t>(node, setting.key, "a whole number, or an array of them");
        else
          to = get<T>(node, setting.key,
                      std::is_same_v<T, std::string> ? "a string"
                      : std::is_same_v<T, bool>      ? "true or false"
                      : std::is_same_v<T, int64_t>   ? "a whole number"
                                                     : "a number");
      },
      setting.member);
}

void read(std::string_view text, const std::string& path, TrainSettings& settings) {
  toml::table table;
  try {
    table = toml::parse(text, std::string_view(path));
  } catch (const toml::parse_error& error) {
    fail(ErrorCode::parse, "line ", error.source().begin.line, ", column ", error.source().begin.column, ": ",
         error.description());
  }
  std::vector<std::string_view> sections = {"data", "test"};
  for (const Setting& s : settings_table())
    if (std::find(sections.begin(), sections.end(), s.section) == sections.end()) sections.push_back(s.section);
  for (const auto& [section_key, node] : table) {
    std::string_view section = section_key.str();
    if (std::find(sections.begin(), sections.end(), section) == sections.end())
      fail(ErrorCode::parse, "line ", line_of(node), ": there is no section ", quoted_name(section),
           nearest_names(section, sections));
    const toml::table* entries = node.as_table();
    if (!entries)
      fail(ErrorCode::parse, "line ", line_of(node), ": ", quoted_name(section), " is a section: [", section, "]");
    std::vector<std::string_view> keys;
    for (const Setting& s : settings_table())
      if (s.section == section) keys.push_back(s.key);
    for (const auto& [key, value] : *entries) {
      if (section == "data" || section == "test") {
        Strings files = list<std::string>(value, key.str(), "a file name, or an array of them");
        for (std::string& file : files) file = beside(path, file);
        (section == "data" ? settings.data : settings.test)[std::string(key.str())] = std::move(files);
        continue;
      }
      const Setting* found = nullptr;
      for (const Setting& s : settings_table())
        if (s.section == section && s.key == key.str()) found = &s;
      if (!found)
        fail(ErrorCode::parse, "line ", line_of(value), ": section [", section, "] has no key ", quoted_name(key.str()),
             nearest_names(key.str(), keys));
      set(*found, value, settings);
    }
  }
  if (settings.model.ends_with(".rlx")) settings.model = beside(path, settings.model);
  if (!settings.params.empty()) settings.params = beside(path, settings.params);
}

}  // namespace

void read_config(const std::string& path, TrainSettings& settings) {
  with_context([&] { return "reading the config file '" + path + "'"; },
               [&] {
                 auto file = FileBytes::read(path);
                 read({reinterpret_cast<const char*>(file->bytes().data()), file->bytes().size()}, path, settings);
               });
}

}  // namespace rlx::tools

// See the header.
#include "tools/reference/command_line.h"

#include <algorithm>
#include <CLI/CLI.hpp>
#include <string_view>

namespace rlx::tools {
namespace {

/// Of "f32|exact|row_relative" the words. Of "N", "NAME=FILE" or "16,32|auto" none: those stand for more than they say.
std::vector<std::string> choices_in(const std::string& value) {
  std::vector<std::string> words{""};
  for (const char c : value) {
    const bool is_part = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
    if (c == '|') words.emplace_back();
    else if (is_part) words.back() += c;
    else return {};
  }
  const bool has_empty = std::any_of(words.begin(), words.end(), [](const std::string& word) { return word.empty(); });
  return words.size() < 2 || has_empty ? std::vector<std::string>{} : words;
}

OptionReference reference_of(const CLI::Option& option) {
  OptionReference made;
  made.is_positional = option.get_positional();
  if (made.is_positional) made.names.push_back(option.get_name(true));
  for (const std::string& name : option.get_snames()) made.names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) made.names.push_back("--" + name);
  if (!made.is_positional && option.get_items_expected_max() != 0) {
    made.value = option.get_option_text();
    if (made.value.empty()) made.value = option.get_type_name();
  }
  if (const size_t dots = made.value.rfind(" ..."); dots != std::string::npos) made.value.erase(dots);
  made.choices = choices_in(made.value);
  made.description = option.get_description();
  made.group = option.get_group();
  return made;
}

CommandReference reference_of_one(const CLI::App& app) {
  CommandReference made{app.get_name(), app.get_description(), app.get_footer(), {}};
  for (const CLI::Option* option : app.get_options())
    if (!option->get_group().empty()) made.options.push_back(reference_of(*option));  // without a group: hidden
  return made;
}

}  // namespace

ProgramReference reference_of(const CLI::App& rlx) {
  ProgramReference made{reference_of_one(rlx), {}};
  for (const CLI::App* app : rlx.get_subcommands({}))
    if (!app->get_group().empty()) made.subcommands.push_back(reference_of_one(*app));
  return made;
}

}  // namespace rlx::tools

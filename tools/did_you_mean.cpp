// See the header.
#include "tools/did_you_mean.h"

#include <algorithm>
#include <CLI/CLI.hpp>

#include "rlx/error.h"

namespace rlx::tools {
namespace {

size_t edits_between(std::string_view a, std::string_view b) {
  std::vector<size_t> before, last(b.size() + 1), now(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) last[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    now[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      now[j] = std::min({last[j] + 1, now[j - 1] + 1, last[j - 1] + (a[i - 1] != b[j - 1] ? 1u : 0u)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) now[j] = std::min(now[j], before[j - 2] + 1);
    }
    before = last;
    last = now;
  }
  return last[b.size()];
}

std::string meant(const std::string& what, const std::string& word, const std::vector<std::string>& known) {
  const std::string nearest = nearest_word(word, known);
  std::string text = text_of("there is no ", what, " '", word, "'");
  if (!nearest.empty()) return text_of(text, "; did you mean ", nearest, "?");
  if (what != "subcommand") return text;
  for (size_t i = 0; i < known.size(); ++i) text += (i ? ", " : "; there are ") + known[i];
  return text;
}

std::vector<std::string> option_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    for (const std::string& name : option->get_snames()) names.push_back("-" + name);
  }
  return names;
}

}  // namespace

std::string nearest_word(std::string_view mistyped, const std::vector<std::string>& known) {
  // A long word may well be copied out of something else; its beginning is enough to compare.
  mistyped = mistyped.substr(0, 64);
  std::string nearest;
  size_t least = std::max<size_t>(1, mistyped.size() / 3) + 1;
  for (const std::string& word : known)
    if (size_t edits = edits_between(mistyped, word); edits < least) least = edits, nearest = word;
  return nearest;
}

std::string mistyped_word(const CLI::App& rlx, const std::vector<std::string>& words) {
  const CLI::App* app = &rlx;
  while (!app->get_subcommands().empty()) app = app->get_subcommands().front();
  if (app == &rlx) {
    std::vector<std::string> names;
    for (const CLI::App* sub : rlx.get_subcommands([](const CLI::App*) { return true; }))
      names.push_back(sub->get_name());
    for (size_t i = 0; i < words.size(); ++i) {
      const std::string& word = words[i];
      if (word == "--load" || word == "--npz-limit") {
        ++i;  // its value
        continue;
      }
      const std::string name = word.substr(0, word.find('='));
      if (!word.starts_with("-")) return meant("subcommand", word, names);
      if (auto options = option_names(rlx); std::find(options.begin(), options.end(), name) == options.end())
        return meant("option", name, options);
    }
    return {};
  }
  for (const CLI::App* each : {&rlx, app})
    for (const std::string& word : each->remaining()) {
      const std::string name = word.substr(0, word.find('='));
      if (!name.starts_with("-") || name == "-" || name == "--") continue;
      const std::vector<std::string> options = option_names(*each);
      if (std::find(options.begin(), options.end(), name) == options.end()) return meant("option", name, options);
    }
  return {};
}

}  // namespace rlx::tools

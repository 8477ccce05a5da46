// See the header.
#include "tools/train/options.h"

#include <CLI/CLI.hpp>
#include <tuple>

#include "tools/subcommands.h"

namespace rlx::tools {

SettingsOptions::SettingsOptions(CLI::App& app, const std::string& model_help,
                                 const std::function<bool(const Setting&)>& wanted) {
  app.add_option("MODEL", model_, model_help);
  app.add_option("--config", config_, "a TOML file with what stands below; options given here come before it")
      ->type_name("FILE");
  app.add_option("--data", data_,
                 "what an input is fed: FILE.npy, FILE.npz:ARRAY, FILE.safetensors:TENSOR,\n"
                 "FILE.csv:COLUMN,... or an IDX file; char_lm: text=FILE or a folder. Repeatable")
      ->allow_extra_args(false)
      ->option_text("NAME=FILE");
  app.add_option("--test", test_, "the same of the examples to be tested by")
      ->allow_extra_args(false)
      ->option_text("NAME=FILE");
  for (const Setting& s : settings_table()) {
    if (s.key == "name" || !wanted(s)) continue;
    std::string help(s.help), group = "[" + std::string(s.section) + "]";
    if (std::holds_alternative<bool TrainSettings::*>(s.member))
      app.add_flag_callback(
             s.option(), [this, key = s.key] { given_[key] = "true"; }, help)
          ->group(group);
    else
      app.add_option_function<std::string>(
             s.option(), [this, key = s.key](const std::string& text) { given_[key] = text; }, help)
          ->option_text(std::string(s.hint))
          ->group(group);
  }
}

TrainSettings SettingsOptions::settings() const {
  TrainSettings s;
  if (!config_.empty()) read_config(config_, s);
  if (!model_.empty()) s.model = model_;
  for (const Setting& setting : settings_table())
    if (auto found = given_.find(setting.key); found != given_.end()) set_from_text(setting, found->second, s);
  // Steps and epochs are one setting: the command line's comes before the file's.
  if (given_.contains("steps") && !given_.contains("epochs")) s.epochs = TrainSettings::kUnset;
  if (given_.contains("epochs") && !given_.contains("steps")) s.steps = TrainSettings::kUnset;
  for (auto [option, words, sources] : {std::tuple{"--data", &data_, &s.data}, {"--test", &test_, &s.test}}) {
    Sources own;
    for (const std::string& word : *words) add_source(option, word, own);
    for (auto& [name, files] : own) (*sources)[name] = files;
  }
  if (s.model.empty())
    throw UsageError("name a MODEL: linear, mlp, cnn, char_lm or a .rlx file; or a --config that does");
  return s;
}

}  // namespace rlx::tools

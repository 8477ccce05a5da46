// The command line's side of the settings of training: MODEL, --config, --data, --test, and an option for each setting.
#pragma once

#include <functional>

#include "tools/train/settings.h"

namespace CLI {
class App;
}

namespace rlx::tools {

class SettingsOptions {
 public:
  /// Adds the options of the settings that are `wanted`.
  SettingsOptions(CLI::App& app, const std::string& model_help, const std::function<bool(const Setting&)>& wanted);
  SettingsOptions(const SettingsOptions&) = delete;  // the parser writes to it
  SettingsOptions& operator=(const SettingsOptions&) = delete;

  /// Those of the config file, with what the command line says before them. Fails if no model is named.
  TrainSettings settings() const;

 private:
  std::string model_, config_;
  std::vector<std::string> data_, test_;
  std::map<std::string_view, std::string> given_;  // by the setting's key
};

}  // namespace rlx::tools

// The options that programs with a language model share.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "rlx/language_model.h"
#include "tools/device_option.h"
#include "tools/execution_option.h"

namespace rlx::tools {

/// Names and dtypes that `--cache` accepts.
std::vector<std::pair<std::string, DType>> cache_choices();

/// The parser writes into the members, so that the object must stay where it is until arguments are parsed.
struct LanguageModelOptions {
  /// Adds --model, --lora, --context, --cache, --copied, --threads, --device and --execution.
  explicit LanguageModelOptions(CLI::App& app);
  /// Loads the model and shows a progress bar meanwhile. A chunk of 0 is the profile's, else the default.
  LanguageModel load(int64_t chunk = 0) const;

  std::string model, device = default_device();
  int64_t context = 0;  ///< 0: as LanguageModel::Options::context
  int threads = 0;      ///< 0: as many as the process may use
  DType cache = f32;
  bool is_copied = false;  ///< the weights: LanguageModel::Options::access
  std::vector<std::string> adapters = {};
  const CLI::Option *cache_option = nullptr, *device_option = nullptr;
  std::optional<ExecutionOption> execution;
};

}  // namespace rlx::tools

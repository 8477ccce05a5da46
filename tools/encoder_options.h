// The options that name a sentence encoder and how it runs, for the subcommands that embed.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <utility>
#include <vector>

#include "rlx/models.h"
#include "tools/device_option.h"

namespace rlx::tools {

/// `--model DIR`, or the folder that RLX_MODEL names.
CLI::Option* add_model_option(CLI::App& app, std::string& folder);
/// `--threads N`; 0 where it is not given: as many as the process may use.
CLI::Option* add_threads_option(CLI::App& app, int& threads);
/// `--device D`, as Device::parse reads it.
CLI::Option* add_device_option(CLI::App& app, std::string& device, const std::string& name = "--device");

/// An option whose values have names; an error lists them.
template <class T>
CLI::Option* add_choice(CLI::App& app, const std::string& name, T& to,
                        const std::vector<std::pair<std::string, T>>& choices, const std::string& text) {
  std::vector<std::string> names;
  for (const auto& [choice, value] : choices) names.push_back(choice);
  return app
      .add_option_function<std::string>(
          name,
          [&to, choices](const std::string& given) {
            for (const auto& [choice, value] : choices)
              if (choice == given) to = value;
          },
          text)
      ->option_text(CLI::detail::join(names, "|"))
      ->check(CLI::IsMember(names));
}

/// `--fallback LIST` and `--place PATTERN=DEVICE`, into those of `options`.
void add_split_options(CLI::App& app, CompileOptions& options);
/// `--accuracy A`, `--compute T`, `--batch-invariant`, `--narrow` and `--isa NAME`, into those of `options`.
void add_accuracy_options(CLI::App& app, CompileOptions& options);
/// Whether one of them was given another value than the default.
bool asks_for_numbers(const CompileOptions& options);

struct EncoderOptions {
  explicit EncoderOptions(CLI::App& app);
  SentenceEncoder load() const;
  /// What of it the vectors depend on, besides the model: the device and how exact products are.
  std::string setting() const;

  std::string model, device = default_device();
  int threads = 0;
  CompileOptions compile = CompileOptions::from_environment();
};

}  // namespace rlx::tools

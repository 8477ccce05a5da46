// What `rlx generate` and `rlx chat` share: the options of a model that writes, and writing itself.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "rlx/generation.h"
#include "rlx/language_model.h"
#include "tools/language_model_options.h"

namespace rlx::tools {

struct GenerationOptions {
  explicit GenerationOptions(CLI::App& app);
  /// With a bar while weights are bound; stores the seconds that it took.
  LanguageModel load(double& seconds) const;
  /// With what was given; for the rest what the model's files advise.
  TextGenerator generator(const LanguageModel& model) const;

  LanguageModelOptions model;
  std::vector<std::string> stops;
  int64_t max_tokens = 512;
  bool json = false;

 private:
  // -1: not given.
  double temperature_ = -1, top_p_ = -1, min_p_ = -1, typical_p_ = 1, repetition_penalty_ = -1;
  double presence_penalty_ = 0, frequency_penalty_ = 0;
  int64_t top_k_ = -1;
  uint64_t seed_ = 0;
};

/// What was read and written, and how long it took.
struct GenerationTimes {
  size_t prompt_tokens = 0, new_tokens = 0;
  double prefill_seconds = 0, decode_seconds = 0;
  GenerationTimes& operator+=(const GenerationTimes& other);
  /// "12 tokens read in 0.3 s (40.0 a second), 5 written in 1.0 s (4.0 a second)".
  std::string text() const;
};
struct Generated {
  std::string text;
  std::vector<int32_t> tokens;  ///< those of the text, and the one that ended it, if it was a token
  std::string finish;           ///< a name of TextGenerator::Finish
  GenerationTimes times;
  /// As a JSON object on one line.
  std::string json() const;
};

/// Goes on behind `tokens`, and measures it. Gives the text to `put` in pieces of valid UTF-8 as it comes.
Generated write(TextGenerator& generator, std::span<const int32_t> tokens,
                const std::function<void(std::string_view)>& put);

}  // namespace rlx::tools

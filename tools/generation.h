// What `rlx generate` and `rlx chat` share: the options of a model that writes, and writing itself.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "rlx/language_model.h"
#include "rlx/sampler.h"
#include "tools/device_option.h"

namespace rlx::tools {

struct GenerationOptions {
  explicit GenerationOptions(CLI::App& app);
  /// With a bar while weights are bound; stores the seconds that it took.
  LanguageModel load(double& seconds) const;
  /// What was given; for the rest what the model's files advise.
  SamplerOptions sampler(const LanguageModel& model) const;

  std::string model, device = default_device();
  std::vector<std::string> stops;
  int64_t max_tokens = 512, context = 0;
  int threads = 0;
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
  std::string finish;  ///< "end": the model's token for it, "stop": a stop string, "length": max_tokens, "context"
  GenerationTimes times;
  /// As a JSON object on one line.
  std::string json() const;
};

/// A text that a model goes on with: its tokens and what the model keeps of them.
class Writer {
 public:
  Writer(const LanguageModel& model, const GenerationOptions& options);
  /// Goes on behind `tokens`, of which those that were read or written before need not be read again. Gives the text to
  /// `put` in pieces of valid UTF-8 as it comes, none of a stop string.
  Generated write(std::span<const int32_t> tokens, const std::function<void(std::string_view)>& put);
  /// Forgets what was seen and drawn; the random numbers begin anew.
  void reset() { sampler_.reset(); }

 private:
  const LanguageModel& model_;
  const GenerationOptions& options_;
  Sampler sampler_;
  LanguageModel::Sequence sequence_;
  std::vector<int32_t> held_;  // what the sequence has
};

}  // namespace rlx::tools

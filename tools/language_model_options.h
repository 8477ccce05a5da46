// The options of every program that loads a language model.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "rlx/language_model.h"
#include "tools/device_option.h"

namespace rlx::tools {

/// What `--cache` may be.
inline const std::vector<std::pair<std::string, DType>> kCacheTypes = {{"f32", f32}, {"f16", f16}, {"bf16", bf16}};

struct LanguageModelOptions {
  /// Adds --model, --context, --cache, --threads and --device.
  explicit LanguageModelOptions(CLI::App& app);
  /// With a bar while weights are bound.
  LanguageModel load(int64_t chunk = LanguageModel::Options().chunk) const;

  std::string model, device = default_device();
  int64_t context = 0;
  int threads = 0;
  DType cache = f32;
};

}  // namespace rlx::tools

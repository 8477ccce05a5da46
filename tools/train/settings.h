// What `rlx train` is told: one table of settings, from which both the keys of a config file and the options of the
// command line come. Neighbours: tools/train/train.cpp, the subcommand; tools/train/config.cpp, which reads the file.
#pragma once

#include <cmath>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace rlx::tools {

using Strings = std::vector<std::string>;
/// For each input of the model the files it comes from.
using Sources = std::map<std::string, Strings, std::less<>>;

struct TrainSettings {
  static constexpr int64_t kUnset = INT64_MIN;
  static constexpr double kOwn = -HUGE_VAL;
  // [model]
  std::string model;  // linear, mlp, cnn, char_lm, or a .rlx file
  std::string params;
  std::vector<int64_t> hidden = {256, 128}, channels = {16, 32};
  int64_t layers = 5, width = 128, heads = 4, context = 128;
  double dropout = 0, byte_scale = 1.0 / 255;
  // [data], [test]
  Sources data, test;
  double hold_out = 0;
  std::string missing = "error", text_columns = "error";
  // [optimizer]
  std::string optimizer = "adamw", schedule = "constant", precision = "f32";
  double learning_rate = 1e-3, last = 0, momentum = 0.9, weight_decay = kOwn, beta1 = kOwn, beta2 = kOwn,
         epsilon = kOwn;
  double clip_norm = 0, clip_value = 0, ema = 0;
  int64_t warmup = 0;
  bool nesterov = false;
  Strings freeze, trained, lr_scale;
  // [train]
  int64_t epochs = kUnset, steps = kUnset;
  int64_t batch_size = 32, accumulate = 1, seed = 0, shift = 0;
  int64_t log_every = 10, evaluate_every = 0, checkpoint_every = 0, patience = 0, checkpoints = 0;
  bool allow_unused = false;
  std::string out = "trained";
  // [quantize]
  std::string activation_scales, weight_scales = "per_batch", ste = "clipped_identity", calibration = "min_max";
  int64_t activation_bits = 8, weight_bits = 8, calibration_batches = 16;
  double percentile = 99.99, scale_decay = 0.99;
  bool symmetric = false;
  Strings keep_float;
  // [generate]
  std::string prompt = "\n";
  int64_t length = 400;
  double temperature = 0.8;
};

struct Setting {
  std::string_view section, key, hint, help;
  std::variant<std::string TrainSettings::*, int64_t TrainSettings::*, double TrainSettings::*, bool TrainSettings::*,
               std::vector<int64_t> TrainSettings::*, Strings TrainSettings::*>
      member;

  /// "--learning-rate" for learning_rate.
  std::string option() const;
};
const std::vector<Setting>& settings_table();

/// The table as Markdown: docs/generated/train.md.
std::string settings_markdown();

/// Reads a TOML file into `settings`; files that it names are looked for beside it. Fails naming the line.
void read_config(const std::string& path, TrainSettings& settings);
/// `text` as the setting wants it; throws UsageError naming the option.
void set_from_text(const Setting& setting, const std::string& text, TrainSettings& settings);
/// "NAME=FILE" of --data and --test.
void add_source(const std::string& option, const std::string& text, Sources& sources);
/// What makes no sense whatever the model: throws an rlx::Error (invalid_argument) that names the setting.
void check_settings(const TrainSettings& settings);

/// "~/" at the beginning is the home folder.
std::string with_home(const std::string& path);

}  // namespace rlx::tools

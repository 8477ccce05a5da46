// See the header.
#include "tools/train/settings.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>

#include "rlx/error.h"
#include "tools/subcommands.h"

namespace rlx::tools {
namespace {

template <class T>
T number_in(std::string_view text, const Setting& setting) {
  T value{};
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc::result_out_of_range && end == text.data() + text.size())
    throw UsageError(text_of(setting.option(), " is ", text, ", which no ",
                             std::is_integral_v<T> ? "whole number of 64 bits" : "f64", " holds"));
  if (error != std::errc() || end != text.data() + text.size())
    throw UsageError(text_of(setting.option(), " wants ", std::is_integral_v<T> ? "a whole number" : "a number",
                             ", not '", text, "'"));
  return value;
}

std::vector<std::string> parts_of(const std::string& text) {
  std::vector<std::string> parts;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, ',');) parts.push_back(part);
  return parts;
}

}  // namespace

std::string Setting::option() const {
  std::string name = "--" + std::string(key);
  for (char& c : name)
    if (c == '_') c = '-';
  return name;
}

const std::vector<Setting>& settings_table() {
  using S = TrainSettings;
  static const std::vector<Setting> kTable = {
      {"model", "name", "MODEL", "linear, mlp, cnn, char_lm, or a .rlx file whose first output is the loss", &S::model},
      {"model", "params", "FILE", "safetensors with initial values of params; others are drawn", &S::params},
      {"model", "hidden", "N,...",
       "mlp: widths of the hidden layers (256,128); cnn: of the one behind the pools (the last)", &S::hidden},
      {"model", "channels", "N,...", "cnn: of each 3x3 convolution, a 2x2 pool behind it (16,32)", &S::channels},
      {"model", "layers", "N", "char_lm: transformer layers (5)", &S::layers},
      {"model", "width", "N", "char_lm: of the residual stream (128)", &S::width},
      {"model", "heads", "N", "char_lm: of attention (4)", &S::heads},
      {"model", "context", "N", "char_lm: characters that it sees (128)", &S::context},
      {"model", "dropout", "P", "mlp, cnn, char_lm: while training (0)", &S::dropout},
      {"model", "byte_scale", "X",
       "linear, mlp, cnn: an x of bytes is multiplied by it, in the model that is written too (1/255)", &S::byte_scale},
      {"train", "hold_out", "PART",
       "of the examples, the last ones: kept to be tested by, where there is no --test (0)", &S::hold_out},
      {"train", "missing", "KIND",
       "cells of a CSV file without a value (empty, NA, nan, null ...): error, drop (such rows), mean (of the\n"
       "column's others, of the data for training; rows without an answer are dropped) (error)",
       &S::missing},
      {"train", "text_columns", "KIND",
       "columns of text among others of a CSV file: error, onehot (a column of 0 and 1 for each text), drop (error)",
       &S::text_columns},
      {"optimizer", "optimizer", "NAME",
       "sgd, adam, adamw, adagrad, rmsprop, adafactor, lamb, lion, muon, sophia (adamw)", &S::optimizer},
      {"optimizer", "learning_rate", "X", "the highest one (0.001)", &S::learning_rate},
      {"optimizer", "schedule", "NAME", "constant, linear, cosine, one_cycle (constant)", &S::schedule},
      {"optimizer", "warmup", "N", "steps in which the rate rises from 0 (0)", &S::warmup},
      {"optimizer", "last", "PART", "of the highest rate, at the end of linear and cosine (0)", &S::last},
      {"optimizer", "momentum", "X", "sgd, rmsprop, muon (0.9)", &S::momentum},
      {"optimizer", "weight_decay", "X", "instead of the optimizer's own; vectors are left alone", &S::weight_decay},
      {"optimizer", "beta1", "X",
       "adam, adamw, lamb, lion, sophia: of the mean gradient, what stays (the optimizer's own)", &S::beta1},
      {"optimizer", "beta2", "X",
       "adam, adamw, lamb: of the mean square, what stays; lion: of the mean gradient (its own)", &S::beta2},
      {"optimizer", "epsilon", "X", "what keeps a divisor from 0 (the optimizer's own)", &S::epsilon},
      {"optimizer", "nesterov", "", "sgd: steps by the velocity that comes next (not)", &S::nesterov},
      {"optimizer", "clip_norm", "X", "all gradients together are scaled to at most this norm (0: not)", &S::clip_norm},
      {"optimizer", "clip_value", "X", "each gradient's elements are clamped to +-X (0: not)", &S::clip_value},
      {"optimizer", "ema", "X", "a moving mean of the params is kept, X of it a step; it is what is tested (0: none)",
       &S::ema},
      {"optimizer", "precision", "NAME",
       "f32; or f16, bf16: products in it, all else in f32, f16 with a scale that adapts (f32)", &S::precision},
      {"optimizer", "freeze", "NAME,...", "params that stay; NAME* stands for all that begin so", &S::freeze},
      {"optimizer", "trained", "NAME,...",
       "params that are trained, all others staying; NAME* stands for all that begin so (all)", &S::trained},
      {"optimizer", "lr_scale", "NAME=X,...",
       "params that step at X times the rate; NAME* stands for all that begin so", &S::lr_scale},
      {"train", "epochs", "N", "times that all examples are seen (10)", &S::epochs},
      {"train", "steps", "N", "steps in all, instead of epochs", &S::steps},
      {"train", "batch_size", "N", "examples a batch (32)", &S::batch_size},
      {"train", "accumulate", "N", "batches whose mean gradient makes a step (1)", &S::accumulate},
      {"train", "seed", "N", "of the drawn params, the order of the examples, dropout, shifts (0)", &S::seed},
      {"train", "shift", "N", "images are moved by up to N places, anew each time (0)", &S::shift},
      {"train", "log_every", "N", "steps between two lines of metrics (10)", &S::log_every},
      {"train", "evaluate_every", "N", "steps between two tests (an epoch)", &S::evaluate_every},
      {"train", "checkpoint_every", "N", "steps between two checkpoints (an epoch)", &S::checkpoint_every},
      {"train", "checkpoints", "N",
       "parts of the forward pass whose insides are computed again: less memory, more time (0: none)", &S::checkpoints},
      {"train", "patience", "N", "tests in a row without a better loss after which to stop (0: never)", &S::patience},
      {"train", "allow_unused", "", "a param that the loss does not depend on is no error", &S::allow_unused},
      {"train", "out", "DIR", "the folder that is written (trained)", &S::out},
      {"quantize", "activation_scales", "KIND",
       "trains with activations rounded to 8 bits, whose scales are: fixed (from calibration; for trained params), "
       "ema,\n"
       "learned (LSQ), per_batch; at the end int8.rlx is written (none)",
       &S::activation_scales},
      {"quantize", "weight_scales", "KIND", "of each output channel: per_batch (the greatest), fixed, ema, learned",
       &S::weight_scales},
      {"quantize", "ste", "NAME", "the rounding's derivative: clipped_identity, identity (clipped_identity)", &S::ste},
      {"quantize", "activation_bits", "N", "2 to 8 (8)", &S::activation_bits},
      {"quantize", "weight_bits", "N", "2 to 8 (8)", &S::weight_bits},
      {"quantize", "symmetric", "", "activations have the zero point 0, as weights have", &S::symmetric},
      {"quantize", "scale_decay", "X", "of ema: how much of the old mean stays in a step (0.99)", &S::scale_decay},
      {"quantize", "calibration", "NAME", "ranges by min_max, moving_average, percentile, entropy (min_max)",
       &S::calibration},
      {"quantize", "percentile", "X", "of percentile: numbers that stay in range, in percent (99.99)", &S::percentile},
      {"quantize", "calibration_batches", "N", "batches of the data that ranges are taken from (16)",
       &S::calibration_batches},
      {"quantize", "keep_float", "NAME,...", "layers that stay floats; NAME* stands for all that begin so",
       &S::keep_float},
      {"generate", "prompt", "TEXT", "char_lm: what the text begins with that is written at the end (a new line)",
       &S::prompt},
      {"generate", "length", "N", "char_lm: characters to write (400)", &S::length},
      {"generate", "temperature", "X", "char_lm: below 1 the likelier ones are preferred (0.8)", &S::temperature},
  };
  return kTable;
}

namespace {

std::string_view kind_of(const Setting& setting) {
  return std::visit(
      [](auto member) -> std::string_view {
        using T = std::remove_cvref_t<decltype(TrainSettings{}.*member)>;
        if constexpr (std::is_same_v<T, std::string>) return "string";
        else if constexpr (std::is_same_v<T, bool>) return "true or false";
        else if constexpr (std::is_same_v<T, int64_t>) return "whole number";
        else if constexpr (std::is_same_v<T, double>) return "number";
        else if constexpr (std::is_same_v<T, Strings>) return "string, or several";
        else return "whole number, or several";
      },
      setting.member);
}

}  // namespace

std::string settings_markdown() {
  std::string text =
      "# Settings of `rlx train`\n\nWritten by `rlx train --markdown`; a test compares. Each key of a config file "
      "(TOML) "
      "is an option of the command line too, `batch_size` `--batch-size`, which comes before the file; in parentheses "
      "stands what it is when left out. Files in a config lie beside it, or are absolute, or begin with `~/`.\n\n"
      "`[data]` and `[test]` have the names of the model's inputs as keys, and as values a file, or several, which are "
      "put "
      "behind one another: `x = \"images.npy\"` is `--data x=images.npy`. A file is `FILE.npy`, `FILE.npz:ARRAY`, "
      "`FILE.safetensors:TENSOR`, `FILE.csv:COLUMN,...` or an IDX file; of char_lm `text` is a file or a folder.\n";
  for (std::string_view section : {"model", "train", "optimizer", "quantize", "generate"}) {
    text += "\n## [" + std::string(section) + "]\n\n| key | value | |\n|---|---|---|\n";
    for (const Setting& s : settings_table()) {
      if (s.section != section) continue;
      std::string help(s.help);
      std::replace(help.begin(), help.end(), '\n', ' ');
      text += text_of("| `", s.key, "` | ", kind_of(s), " | ", help, " |\n");
    }
  }
  return text;
}

void set_from_text(const Setting& setting, const std::string& text, TrainSettings& settings) {
  std::visit(
      [&](auto member) {
        auto& to = settings.*member;
        using T = std::remove_reference_t<decltype(to)>;
        if constexpr (std::is_same_v<T, std::string>) to = text;
        else if constexpr (std::is_same_v<T, bool>) to = text != "false";
        else if constexpr (std::is_same_v<T, Strings>) to = parts_of(text);
        else if constexpr (std::is_same_v<T, std::vector<int64_t>>) {
          to.clear();
          for (const std::string& part : parts_of(text)) to.push_back(number_in<int64_t>(part, setting));
        } else {
          to = number_in<T>(text, setting);
        }
      },
      setting.member);
}

void add_source(const std::string& option, const std::string& text, Sources& sources) {
  size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0 || equals + 1 == text.size())
    throw UsageError(option + " is NAME=FILE, not '" + text + "'");
  sources[text.substr(0, equals)].push_back(text.substr(equals + 1));
}

void check_settings(const TrainSettings& s) {
  auto refuse = [](const char* key, const auto& value, const char* wanted) {
    fail(ErrorCode::invalid_argument, key, " is ", value, "; it must be ", wanted);
  };
  for (auto [key, value] : {std::pair{"batch_size", s.batch_size},
                            {"accumulate", s.accumulate},
                            {"log_every", s.log_every},
                            {"layers", s.layers},
                            {"width", s.width},
                            {"heads", s.heads},
                            {"context", s.context},
                            {"calibration_batches", s.calibration_batches}})
    if (value < 1 || value > int64_t{1} << 32) refuse(key, value, "from 1 to 4294967296");
  for (auto [key, value] : {std::pair{"epochs", s.epochs}, {"steps", s.steps}})
    if (value < 0 && value != TrainSettings::kUnset) refuse(key, value, "at least 0");
  for (auto [key, value] : {std::pair{"warmup", s.warmup},
                            {"seed", s.seed},
                            {"shift", s.shift},
                            {"evaluate_every", s.evaluate_every},
                            {"checkpoint_every", s.checkpoint_every},
                            {"patience", s.patience},
                            {"checkpoints", s.checkpoints},
                            {"length", s.length}})
    if (value < 0) refuse(key, value, "at least 0");
  for (auto [key, value] :
       {std::pair{"hold_out", s.hold_out}, {"dropout", s.dropout}, {"ema", s.ema}, {"momentum", s.momentum}})
    if (!(value >= 0 && value < 1)) refuse(key, value, "from 0 to below 1");
  if (!std::isfinite(s.byte_scale) || s.byte_scale == 0) refuse("byte_scale", s.byte_scale, "finite, and not 0");
  if (!(s.learning_rate > 0) || !std::isfinite(s.learning_rate))
    refuse("learning_rate", s.learning_rate, "above 0 and finite");
  if (s.weight_decay != TrainSettings::kOwn && !(s.weight_decay >= 0 && std::isfinite(s.weight_decay)))
    refuse("weight_decay", s.weight_decay, "at least 0 and finite");
  if (!(s.last >= 0 && s.last <= 1)) refuse("last", s.last, "from 0 to 1");
  if (!(s.temperature > 0) || !std::isfinite(s.temperature)) refuse("temperature", s.temperature, "above 0 and finite");
  for (auto [key, value] : {std::pair{"clip_norm", s.clip_norm}, {"clip_value", s.clip_value}})
    if (!(value >= 0)) refuse(key, value, "at least 0");
  for (const auto* list : {&s.hidden, &s.channels})
    for (int64_t n : *list)
      if (n < 1 || n > 1 << 20) refuse(list == &s.hidden ? "hidden" : "channels", n, "1 to 1048576 each");
  if (s.hidden.empty()) refuse("hidden", "empty", "one width at least");
  if (s.channels.empty()) refuse("channels", "empty", "one number at least");
  if (s.missing != "error" && s.missing != "drop" && s.missing != "mean")
    refuse("missing", "'" + s.missing + "'", "error, drop or mean");
  if (s.text_columns != "error" && s.text_columns != "onehot" && s.text_columns != "drop")
    refuse("text_columns", "'" + s.text_columns + "'", "error, onehot or drop");
  if (s.epochs != TrainSettings::kUnset && s.steps != TrainSettings::kUnset)
    fail(ErrorCode::invalid_argument, "give either epochs or steps, not both");
  if (s.model.empty())
    fail(ErrorCode::invalid_argument, "no model is named: linear, mlp, cnn, char_lm, or a .rlx file");
}

std::string with_home(const std::string& path) {
  const char* home = std::getenv("HOME");
  return path.starts_with("~/") && home ? home + path.substr(1) : path;
}

}  // namespace rlx::tools

// See the header.
#include "tools/execution_option.h"

#include <array>
#include <filesystem>

#include "base/printable_text.h"

namespace rlx::tools {

// Options of the command line that stand above what a profile says; a profile has a key for all of them but --isa.
constexpr std::array kOverridden = {"--device", "--target",   "--threads", "--accuracy", "--compute",
                                    "--narrow", "--fallback", "--place",   "--bound",    "--batch-invariant",
                                    "--strict", "--context",  "--cache",   "--isa"};

ExecutionOption::ExecutionOption(CLI::App& app) : app_(app) {
  app.add_option(
         "--execution", text_,
         "an execution profile (TOML): devices, threads, precision and shapes, of a phase where it has several; "
         "other options come before it")
      ->option_text("FILE[:PHASE]");
}

/// FILE, or FILE:PHASE where there is no file of the whole name.
ExecutionOption::Named ExecutionOption::named() const {
  std::error_code error;
  const size_t colon = text_.rfind(':');
  if (colon == text_.npos || text_.find('/', colon) != text_.npos || std::filesystem::exists(text_, error))
    return {ExecutionProfile::load(text_), ""};
  return {ExecutionProfile::load(text_.substr(0, colon)), text_.substr(colon + 1)};
}

void ExecutionOption::put_command_line_over() {
  for (const char* name : kOverridden)
    if (CLI::Option* option = app_.get_option_no_throw(name); option && option->count() > 0) option->run_callback();
}

void ExecutionOption::apply(std::string& device, int* threads, CompileOptions* compile) {
  if (!is_given()) return;
  const Named given = named();
  options_ = given.profile.options(given.phase);
  for (const std::string& each : options_->passed_over) say("not available: ", each);
  device = options_->device.name();
  if (threads && options_->session.threads > 0) *threads = options_->session.threads;
  if (compile) *compile = options_->compile;
  put_command_line_over();
}

void ExecutionOption::apply(LanguageModel::Options& options) const {
  const Named given = named();
  const auto progress = options.progress;
  options = given.profile.language_model_options(given.phase);
  options.progress = progress;
}

const Bindings& ExecutionOption::shapes() const {
  static const Bindings kNone;
  return options_ ? options_->shapes : kNone;
}

}  // namespace rlx::tools

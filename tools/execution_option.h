// `--execution FILE[:PHASE]`: what an execution profile says stands where the command line says nothing else.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>

#include "rlx/execution_profile.h"

namespace rlx::tools {

class ExecutionOption {
 public:
  explicit ExecutionOption(CLI::App& app);

  bool is_given() const { return !text_.empty(); }
  /// The profile's options into these; then what the command line itself says is put over them, option by option. It is
  /// called once all is parsed. Says on standard error which devices are passed over, and why.
  void apply(std::string& device, int* threads, CompileOptions* compile);
  /// What it says of a language model, into `options`.
  void apply(LanguageModel::Options& options) const;
  /// The graph with the symbols that the phase has numbers for; as it is without a profile.
  Graph specialized(const Graph& g) const { return options_ ? options_->specialized(g) : g; }
  const Bindings& shapes() const;

 private:
  struct Named {
    ExecutionProfile profile;
    std::string phase;
  };
  Named named() const;
  void put_command_line_over();
  CLI::App& app_;
  std::string text_;
  std::optional<ExecutionOptions> options_;
};

}  // namespace rlx::tools

// Lines of text that a subcommand works on: from a file, from arguments, from standard input.
#pragma once

#include <string>
#include <vector>

#include <CLI/CLI.hpp>

namespace rlx::tools {

/// The lines of a file, or of standard input for "-". A newline ends a line, so that the last one makes no further
/// line; empty lines count.
std::vector<std::string> read_lines(const std::string& path);

/// An argument that may be given several times and is taken as it stands. CLI11 would read "[MASK]" as a list of one
/// element and "{}" as an empty one.
class Words {
 public:
  Words(CLI::App& app, const std::string& name, const std::string& description);
  void require() { option_->required(); }
  std::vector<std::string> all() const { return option_->results(); }
  bool empty() const { return option_->count() == 0; }

 private:
  std::vector<std::string> bound_;
  CLI::Option* option_;
};

/// Sentences as `embed` and `tokenize` take them: `--file`, arguments, "-" for standard input.
class Sentences {
 public:
  explicit Sentences(CLI::App& app);
  /// Fails as wrong usage if there is nothing to read, or both a file and arguments.
  std::vector<std::string> read() const;

 private:
  std::string file_;
  Words words_;
};

}  // namespace rlx::tools

// The command line as data: subcommands and options as CLI11 has them, for the manual pages and the completions.
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace rlx::tools {

struct OptionReference {
  std::vector<std::string> names;         ///< "--threads", "-o"; of a positional its name, "MODEL"
  std::string value = {};                 ///< what stands behind it, "N"; empty of a flag
  std::vector<std::string> choices = {};  ///< all that the value can be, where those are few words; else empty
  std::string description = {};
  std::string group = {};  ///< the heading under which the help lists it
  bool is_positional = false;
};

struct CommandReference {
  std::string name;         ///< "embed"; of the program itself "rlx"
  std::string description;  ///< one line
  std::string footer;       ///< notes and examples, behind the options
  std::vector<OptionReference> options;
};

struct ProgramReference {
  CommandReference program;
  std::vector<CommandReference> subcommands;  ///< in the order of the help
};
ProgramReference reference_of(const CLI::App& rlx);

/// A manual page in section 1 as troff (the macros of man(7)): of the program if `subcommand` is empty. Fails for a
/// name that is none.
std::string man_page(const ProgramReference&, const std::string& subcommand);

/// Scripts that complete subcommands, options and their values in a shell, and names of files where neither is meant.
std::string bash_completion(const ProgramReference&);
std::string zsh_completion(const ProgramReference&);
std::string fish_completion(const ProgramReference&);

}  // namespace rlx::tools

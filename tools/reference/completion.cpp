// Completions of the command line for bash, zsh and fish. All are made of the same reference; a script neither starts
// the program nor knows more of it than the help does.
#include <algorithm>
#include <sstream>

#include "tools/reference/command_line.h"

namespace rlx::tools {
namespace {

std::string joined(const std::vector<std::string>& words) {
  std::string out;
  for (const std::string& word : words) out += (out.empty() ? "" : " ") + word;
  return out;
}

std::vector<std::string> names_of_subcommands(const ProgramReference& reference) {
  std::vector<std::string> names;
  for (const CommandReference& each : reference.subcommands) names.push_back(each.name);
  return names;
}

/// The first sentence, at most 80 characters, of what a list shows beside a name.
std::string short_text(const std::string& description) {
  constexpr size_t kMostCharacters = 80;
  std::string text = description.substr(0, description.find_first_of(";\n"));
  if (text.size() <= kMostCharacters) return text;
  const size_t end = text.rfind(' ', kMostCharacters);
  return text.substr(0, end == std::string::npos ? kMostCharacters : end) + " ...";
}

/// As text within single quotes of a POSIX shell and of zsh.
std::string shell_quoted(const std::string& text) {
  std::string out;
  for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return "'" + out + "'";
}

/// As text within single quotes of fish, which knows two escapes there.
std::string fish_quoted(const std::string& text) {
  std::string out;
  for (const char c : text) out += (c == '\'' || c == '\\' ? "\\" : "") + std::string(1, c);
  return "'" + out + "'";
}

/// As the text of zsh's _arguments, where brackets and colons separate.
std::string zsh_text(const std::string& text) {
  std::string out;
  for (const char c : text) out += (c == '[' || c == ']' || c == ':' || c == '\\' ? "\\" : "") + std::string(1, c);
  return out;
}

void add_bash_command(std::ostringstream& out, const CommandReference& command) {
  std::vector<std::string> names;
  std::ostringstream with_choices;
  std::vector<std::string> with_value;
  for (const OptionReference& option : command.options) {
    if (option.is_positional) continue;
    names.insert(names.end(), option.names.begin(), option.names.end());
    std::string pattern;
    for (const std::string& name : option.names) pattern += (pattern.empty() ? "" : "|") + name;
    if (!option.choices.empty())
      with_choices << "        " << pattern << ") COMPREPLY=($(compgen -W '" << joined(option.choices)
                   << "' -- \"$cur\")); return ;;\n";
    else if (!option.value.empty()) with_value.push_back(pattern);
  }
  out << "    " << command.name << ")\n      names='" << joined(names) << "'\n      case \"$prev\" in\n"
      << with_choices.str();
  if (!with_value.empty()) {
    out << "        ";
    for (size_t i = 0; i < with_value.size(); ++i) out << (i ? "|" : "") << with_value[i];
    out << ") COMPREPLY=($(compgen -f -- \"$cur\")); return ;;\n";
  }
  out << "      esac\n      ;;\n";
}

}  // namespace

std::string bash_completion(const ProgramReference& reference) {
  std::ostringstream out;
  out << R"(# Completion of rlx for bash, as `rlx completion bash` prints it.
_rlx() {
  local cur="${COMP_WORDS[COMP_CWORD]}" prev="${COMP_WORDS[COMP_CWORD-1]}" subcommand='' names='' word
  for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    case "$word" in )"
      <<
      [&] {
        std::string pattern;
        for (const std::string& name : names_of_subcommands(reference)) pattern += (pattern.empty() ? "" : "|") + name;
        return pattern;
      }()
      << R"() subcommand="$word"; break ;; esac
  done
  COMPREPLY=()
  case "$subcommand" in
    '')
      case "$prev" in --load) COMPREPLY=($(compgen -f -- "$cur")); return ;; esac
      names=')";
  for (const OptionReference& option : reference.program.options) out << joined(option.names) << " ";
  out << joined(names_of_subcommands(reference)) << "'\n      COMPREPLY=($(compgen -W \"$names\" -- \"$cur\"))\n"
      << "      return\n      ;;\n";
  for (const CommandReference& each : reference.subcommands) add_bash_command(out, each);
  out << R"(  esac
  if [[ "$cur" == -* ]]; then COMPREPLY=($(compgen -W "$names" -- "$cur"))
  else COMPREPLY=($(compgen -f -- "$cur")); fi
}
complete -o filenames -o bashdefault -F _rlx rlx
)";
  return out.str();
}

std::string zsh_completion(const ProgramReference& reference) {
  std::ostringstream out;
  out << "#compdef rlx\n# Completion of rlx for zsh, as `rlx completion zsh` prints it.\n";
  const auto add_arguments = [&](const CommandReference& command) {
    for (const OptionReference& option : command.options) {
      if (option.is_positional) continue;
      for (const std::string& name : option.names) {
        std::string spec = "*" + name + "[" + zsh_text(short_text(option.description)) + "]";
        if (!option.value.empty())
          spec += ":" + zsh_text(option.value) + ":" +
                  (option.choices.empty() ? "_files" : "(" + joined(option.choices) + ")");
        out << " \\\n        " << shell_quoted(spec);
      }
    }
  };
  out << "_rlx() {\n  local context state line\n  local -a subcommands\n  subcommands=(\n";
  for (const CommandReference& each : reference.subcommands)
    out << "    " << shell_quoted(each.name + ":" + zsh_text(short_text(each.description))) << "\n";
  out << "  )\n  _arguments -C";
  add_arguments(reference.program);
  out << " \\\n    '1:subcommand:->subcommand' '*::argument:->arguments' && return\n"
      << "  case $state in\n    subcommand) _describe subcommand subcommands ;;\n    arguments)\n      case $words[1] "
         "in\n";
  for (const CommandReference& each : reference.subcommands) {
    out << "      " << each.name << ")\n        _arguments";
    add_arguments(each);
    out << " \\\n        '*:file:_files' ;;\n";
  }
  out << "      esac ;;\n  esac\n}\nif [[ $funcstack[1] == _rlx ]]; then _rlx \"$@\"; else compdef _rlx rlx; fi\n";
  return out.str();
}

std::string fish_completion(const ProgramReference& reference) {
  std::ostringstream out;
  out << "# Completion of rlx for fish, as `rlx completion fish` prints it.\n";
  const auto add_options = [&](const CommandReference& command, const std::string& condition) {
    for (const OptionReference& option : command.options) {
      if (option.is_positional) continue;
      out << "complete -c rlx -n " << fish_quoted(condition);
      for (const std::string& name : option.names)
        out << (name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1));
      if (!option.choices.empty()) out << " -x -a " << fish_quoted(joined(option.choices));
      else if (!option.value.empty()) out << " -r";
      out << " -d " << fish_quoted(short_text(option.description)) << "\n";
    }
  };
  add_options(reference.program, "__fish_use_subcommand");
  for (const CommandReference& each : reference.subcommands)
    out << "complete -c rlx -f -n __fish_use_subcommand -a " << each.name << " -d "
        << fish_quoted(short_text(each.description)) << "\n";
  for (const CommandReference& each : reference.subcommands)
    add_options(each, "__fish_seen_subcommand_from " + each.name);
  return out.str();
}

}  // namespace rlx::tools

// Manual pages as troff source: one of the program, one of each subcommand.
#include <algorithm>
#include <sstream>
#include <string_view>

#include "rlx/error.h"
#include "rlx/version.h"
#include "tools/reference/command_line.h"

namespace rlx::tools {
namespace {

/// Text as troff prints it letter by letter: a backslash, a minus that is to be copied, and a line that begins with
/// what would be a request.
std::string troff_text(std::string_view text) {
  std::string out;
  bool begins_line = true;
  for (const char c : text) {
    if (begins_line && (c == '.' || c == '\'')) out += "\\&";
    if (c == '\\') out += "\\e";
    else if (c == '-') out += "\\-";
    else out += c;
    begins_line = c == '\n';
  }
  return out;
}

/// Lines as they stand: notes and examples are written for a terminal of 120 columns.
void add_lines(std::ostringstream& out, const std::string& text) { out << ".nf\n" << troff_text(text) << "\n.fi\n"; }

std::string in_one_line(std::string text) {
  std::string out;
  for (const char c : text) {
    const bool is_space = c == '\n' || c == ' ';
    if (!is_space) out += c;
    else if (!out.empty() && out.back() != ' ') out += ' ';
  }
  return out;
}

void add_option(std::ostringstream& out, const OptionReference& option) {
  out << ".TP\n";
  for (size_t i = 0; i < option.names.size(); ++i)
    out << (i ? ", " : "") << (option.is_positional ? "\\fI" : "\\fB") << troff_text(option.names[i]) << "\\fR";
  if (!option.value.empty()) out << " \\fI" << troff_text(option.value) << "\\fR";
  out << "\n" << troff_text(in_one_line(option.description)) << "\n";
}

void add_options(std::ostringstream& out, const CommandReference& command) {
  std::vector<std::string> groups = {"Arguments"};
  for (const OptionReference& option : command.options) {
    const std::string group = option.is_positional ? "Arguments" : option.group;
    if (std::find(groups.begin(), groups.end(), group) == groups.end()) groups.push_back(group);
  }
  const bool has_arguments = std::any_of(command.options.begin(), command.options.end(),
                                         [](const OptionReference& option) { return option.is_positional; });
  if (!has_arguments) groups.erase(groups.begin());
  for (const std::string& group : groups) {
    out << ".SH \"" << troff_text(group) << "\"\n";
    for (const OptionReference& option : command.options)
      if ((option.is_positional ? "Arguments" : option.group) == group) add_option(out, option);
  }
}

std::string head(const std::string& page, const std::string& description) {
  std::ostringstream out;
  std::string title = page;
  for (char& c : title) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  out << ".TH \"" << troff_text(title) << "\" 1 \"\" \"RLX " << version() << "\" \"RLX\"\n"
      << ".SH NAME\n"
      << troff_text(page) << " \\- " << troff_text(in_one_line(description)) << "\n.SH SYNOPSIS\n";
  return out.str();
}

std::string page_of_program(const ProgramReference& reference) {
  std::ostringstream out;
  out << head("rlx", reference.program.description) << ".B rlx\n[\\fIOPTIONS\\fR] \\fISUBCOMMAND\\fR ...\n";
  add_options(out, reference.program);
  out << ".SH SUBCOMMANDS\n";
  for (const CommandReference& each : reference.subcommands)
    out << ".TP\n\\fB" << troff_text(each.name) << "\\fR\n" << troff_text(in_one_line(each.description)) << "\n";
  out << ".SH NOTES\n";
  add_lines(out, reference.program.footer);
  out << ".SH SEE ALSO\n";
  for (size_t i = 0; i < reference.subcommands.size(); ++i)
    out << ".BR " << troff_text("rlx-" + reference.subcommands[i].name) << " (1)"
        << (i + 1 < reference.subcommands.size() ? ",\n" : "\n");
  return out.str();
}

std::string page_of(const CommandReference& command) {
  std::ostringstream out;
  out << head("rlx-" + command.name, command.description) << "\\fBrlx " << troff_text(command.name)
      << "\\fR [\\fIOPTIONS\\fR]";
  for (const OptionReference& option : command.options)
    if (option.is_positional) out << " \\fI" << troff_text(option.names.front()) << "\\fR";
  out << "\n";
  add_options(out, command);
  if (!command.footer.empty()) {
    out << ".SH NOTES\n";
    add_lines(out, command.footer);
  }
  out << ".SH SEE ALSO\n.BR rlx (1)\n";
  return out.str();
}

}  // namespace

std::string man_page(const ProgramReference& reference, const std::string& subcommand) {
  if (subcommand.empty()) return page_of_program(reference);
  for (const CommandReference& each : reference.subcommands)
    if (each.name == subcommand) return page_of(each);
  fail(ErrorCode::not_found, "there is no subcommand '", subcommand, "'; `rlx --help` lists them");
}

}  // namespace rlx::tools

// See the header.
#include "tools/dim_option.h"

#include "ir/binding_text.h"
#include "tools/subcommands.h"

namespace rlx::tools {

Bindings bindings_of(std::string_view option, const std::vector<std::string>& texts) {
  Bindings numbers;
  try {
    for (const std::string& text : texts) add_binding(numbers, text, option);
  } catch (const Error& e) {
    throw UsageError(e.what());
  }
  return numbers;
}

void add_bound_option(CLI::App& app, CompileOptions& options) {
  app.add_option_function<std::vector<std::string>>(
         "--bound",
         [&options](const std::vector<std::string>& all) {
           try {
             Bindings given;
             for (const std::string& each : all) add_binding(given, each, "--bound");
             for (const auto& [symbol, most] : given) options.bounds[symbol] = most;
           } catch (const Error& e) {
             throw CLI::ValidationError("--bound", e.what());
           }
         },
         "the most that a symbolic dim will be: a run with more is an error, and memory is taken for it at once; once "
         "for each")
      ->type_name("NAME=NUMBER")
      ->allow_extra_args(false);
}

}  // namespace rlx::tools

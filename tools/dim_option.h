// Options that give symbols numbers, NAME=NUMBER.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "rlx/compile.h"

namespace rlx::tools {

/// The numbers of the texts that an option was given; a UsageError that names it if one is not NAME=NUMBER.
Bindings bindings_of(std::string_view option, const std::vector<std::string>& texts);

/// `--bound NAME=NUMBER`, once for each, into CompileOptions::bounds.
void add_bound_option(CLI::App& app, CompileOptions& options);

}  // namespace rlx::tools

// What a mistyped word of the command line was to be.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace CLI {
class App;
}

namespace rlx::tools {

/// The word among `known` that is nearest to a mistyped one: that takes the fewest insertions, deletions, replacements
/// and exchanges of neighbours (Damerau 1964). Empty if even that one has little in common with it.
std::string nearest_word(std::string_view mistyped, const std::vector<std::string>& known);

/// Of a command line that was refused: which word is no subcommand, or no option, and which one was meant. Empty if
/// that was not what was wrong with it.
std::string mistyped_word(const CLI::App& rlx, const std::vector<std::string>& words);

}  // namespace rlx::tools

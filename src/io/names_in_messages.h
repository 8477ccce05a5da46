// Names from files, as error messages show them: quoted, never longer than a line, and with the nearest
// existing names for one that is missing.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace rlx {

/// `text` in single quotes, control characters escaped, what is beyond some 100 bytes left out.
std::string quoted_name(std::string_view text);

/// "; the nearest are 'a', 'b' and 'c'" with at most three names, those that take the fewest insertions,
/// deletions and replacements (Levenshtein, 1966) from `wanted`; "; there are none" without any.
std::string nearest_names(std::string_view wanted, const std::vector<std::string_view>& names);

}  // namespace rlx

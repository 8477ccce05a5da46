// Names of params and layers as settings give them.
#pragma once

#include <string_view>

namespace rlx {

/// Does the pattern, a name or the beginning of one with '*' behind it, stand for this name?
inline bool matches_name(std::string_view pattern, std::string_view name) {
  return pattern.ends_with('*') ? name.starts_with(pattern.substr(0, pattern.size() - 1)) : pattern == name;
}

}  // namespace rlx

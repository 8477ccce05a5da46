// What a message must contain.
#pragma once

#include <doctest/doctest.h>

#include <string>

namespace rlx::test {

/// Whether the text contains the part; prints the text if it does not.
inline bool says(const std::string& text, const std::string& part) {
  if (text.find(part) != text.npos) return true;
  MESSAGE("got: " << text);
  return false;
}

}  // namespace rlx::test

// Whether tests run under a sanitizer, which makes everything about ten times slower. Long tests then do only a part of
// their work, which must read and write the same memory; each test says what it leaves out.
#pragma once

#include <cstdlib>

namespace rlx::test {

inline bool sanitized() {
  static const bool set = std::getenv("RLX_SANITIZED") != nullptr;
  return set;
}

}  // namespace rlx::test

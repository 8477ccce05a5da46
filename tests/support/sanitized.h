// How much of its work a long test does; each test says what it leaves out, and when.
#pragma once

#include <cstdlib>

namespace rlx::test {

/// Whether tests run under a sanitizer (RLX_SANITIZED is set), which makes everything about ten times slower. A test
/// may do a part of its work then, if that part reads and writes memory in all the ways that the whole does.
inline bool sanitized() {
  static const bool set = std::getenv("RLX_SANITIZED") != nullptr;
  return set;
}

/// Whether everything was asked for, however long it takes (`make check-all` sets RLX_CHECK_ALL): every sample of every
/// op on every device, every element of a gradient.
inline bool checks_all() {
  const char* value = std::getenv("RLX_CHECK_ALL");
  return value && *value;
}

}  // namespace rlx::test

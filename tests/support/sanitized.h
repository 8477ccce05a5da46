// Under the sanitizers everything takes ten times as long: tests of much work do a part of it there, that which reads
// and writes other memory. Each says what it leaves out.
#pragma once

#include <cstdlib>

namespace rlx::test {

inline bool sanitized() {
  static const bool set = std::getenv("RLX_SANITIZED") != nullptr;
  return set;
}

}  // namespace rlx::test

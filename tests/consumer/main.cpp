// The smallest program that needs the headers and the library of an installed RLX: a table, a symbol of the
// library, and an exception that crosses from it.
#include <cstdio>
#include <cstring>

#include "rlx/dtype.h"
#include "rlx/error.h"
#include "rlx/version.h"

int main() {
  std::printf("RLX %s\n", rlx::version());
  if (std::strcmp(rlx::version(), RLX_VERSION) != 0 || rlx::dtype_named("f32") != rlx::f32) return 1;
  try {
    rlx::dtype_named("f33");
  } catch (const rlx::Error& error) {
    std::printf("%s\n", error.what());
    return error.code() == rlx::ErrorCode::parse ? 0 : 1;
  }
  return 1;
}

// The smallest program that needs the headers and the library of an installed RLX.
#include <cstdio>
#include <cstring>

#include "rlx/error.h"
#include "rlx/version.h"

int main() {
  std::printf("RLX %s\n", rlx::version());
  return std::strcmp(rlx::version(), RLX_VERSION) == 0 ? 0 : 1;
}

// The main of every doctest executable. Tests run from the top of the source tree, wherever they are started,
// so they open their data as "tests/golden/..."; RLX_PROGRAM in the environment names the built program
// `rlx`.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <unistd.h>

#include <cstdio>
#include <cstdlib>

int main(int argc, char** argv) {
  if (chdir(RLX_SOURCE_DIR) != 0) {
    std::perror("cannot enter the source tree " RLX_SOURCE_DIR);
    return 2;
  }
  setenv("RLX_PROGRAM", RLX_BINARY_DIR "/bin/rlx", 0);
  // Tests that draw numbers take their seed from here and stay reproducible: the line below is in every log.
  setenv("RLX_TEST_SEED", "20240229", 0);
  std::printf("RLX_TEST_SEED=%s\n", std::getenv("RLX_TEST_SEED"));
  doctest::Context context(argc, argv);
  return context.run();
}

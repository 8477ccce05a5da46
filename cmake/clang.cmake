# The clang of the sanitizer builds: Debian names it by its version, and a preset cannot look for it.
# The oldest that we support comes first, so that everyone checks with the same one where several are installed.
if(NOT CMAKE_CXX_COMPILER)
  find_program(RLX_CLANGXX NAMES clang++-14 clang++-15 clang++-16 clang++-17 clang++-18 clang++-19 clang++)
  if(NOT RLX_CLANGXX)
    message(FATAL_ERROR "clang was not found: run `scripts/deps --check`, which installs what `make check` needs")
  endif()
  string(REPLACE "clang++" "clang" RLX_CLANG "${RLX_CLANGXX}")
  set(CMAKE_CXX_COMPILER "${RLX_CLANGXX}")
  set(CMAKE_C_COMPILER "${RLX_CLANG}")
endif()

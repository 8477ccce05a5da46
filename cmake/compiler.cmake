# How our code is compiled: warnings, floating-point rules, sanitizers, ccache. The settings are an interface
# target, so that nothing leaks into a project that adds this one as a subdirectory.
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_C_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_BUILD_RPATH_USE_ORIGIN ON)  # a build tree can be moved, and ccache can share it
if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Build type" FORCE)
endif()
if(PROJECT_IS_TOP_LEVEL)
  set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/bin")
  set(CMAKE_LIBRARY_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/${CMAKE_INSTALL_LIBDIR}")  # as installed: cmake/run_paths.cmake
endif()

# ccache, if it is there. The sloppiness is what it needs to work with precompiled headers.
find_program(RLX_CCACHE ccache)
if(RLX_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER
      "${CMAKE_COMMAND};-E;env;CCACHE_SLOPPINESS=pch_defines,time_macros;${RLX_CCACHE}")
  set(CMAKE_C_COMPILER_LAUNCHER "${RLX_CCACHE}")
endif()

add_library(rlx_compiler_settings INTERFACE)
target_compile_options(rlx_compiler_settings INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow "$<$<COMPILE_LANGUAGE:CXX>:-Wconversion;-Wno-sign-conversion>"
  # A product and a sum are rounded twice unless the code asks for an FMA: else results would depend on the compiler.
  -ffp-contract=off
  # Nobody reads errno after sqrt; setting it keeps loops from being vectorized.
  -fno-math-errno)
if(RLX_WERROR)
  target_compile_options(rlx_compiler_settings INTERFACE -Werror)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # Nobody replaces our functions at load time, so a call inside the library may be inlined.
  target_compile_options(rlx_compiler_settings INTERFACE -fno-semantic-interposition)
  # A unit takes up to 1 GiB, and collecting garbage from 128 MiB on, which is where g++ begins, took a tenth of the time.
  target_compile_options(rlx_compiler_settings INTERFACE "$<$<COMPILE_LANGUAGE:CXX>:--param=ggc-min-heapsize=524288>")
  if(CMAKE_UNITY_BUILD)  # it takes a file that a unity build includes for a header, whose names many files would see
    target_compile_options(rlx_compiler_settings INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wno-subobject-linkage>)
  endif()
endif()

# A program loads only what it calls itself; what the library calls is the library's to find (cmake/run_paths.cmake).
# Debian's g++ asks the linker for this by itself, clang does not.
if(CMAKE_SYSTEM_NAME STREQUAL "Linux")
  target_link_options(rlx_compiler_settings INTERFACE -Wl,--as-needed)
endif()

if(RLX_SANITIZE)
  set(rlx_sanitizer_options -fsanitize=${RLX_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer -g1)
  if(RLX_SANITIZE MATCHES "address.*undefined")
    # Four checks of every pointer that is followed. The address sanitizer reports what is wrong with one, and a sixth of
    # the time of compiling is theirs.
    list(APPEND rlx_sanitizer_options -fno-sanitize=null,alignment,object-size,vptr)
  endif()
  if(NOT RLX_SANITIZE_KERNELS_ONLY)
    target_compile_options(rlx_compiler_settings INTERFACE ${rlx_sanitizer_options})
  endif()
  target_link_options(rlx_compiler_settings INTERFACE ${rlx_sanitizer_options})
  # Seventy programs are linked with all that sanitizers add: lld takes a second for what ld takes seven for.
  find_program(RLX_LLD NAMES ld.lld-14 ld.lld)
  if(RLX_LLD AND CMAKE_SYSTEM_NAME STREQUAL "Linux" AND CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    target_link_options(rlx_compiler_settings INTERFACE -fuse-ld=lld)
  endif()
endif()
if(RLX_FUZZ AND NOT CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  message(FATAL_ERROR "RLX_FUZZ needs clang (libFuzzer is part of it); this is ${CMAKE_CXX_COMPILER_ID}. "
                      "Use `cmake --preset asan`, or leave RLX_FUZZ off.")
endif()

# Standard headers that most files include. Only those: a project header in here would rebuild everything whenever
# it changes. A file that forgets one of them is found by tests/layering/includes_test.py.
set(RLX_PCH_HEADERS <algorithm> <array> <atomic> <cmath> <cstdint> <cstring> <functional> <limits> <map> <memory>
    <mutex> <optional> <span> <sstream> <stdexcept> <string> <string_view> <unordered_map> <utility> <variant>
    <vector>)

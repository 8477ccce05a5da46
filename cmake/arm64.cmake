# A cross build for Linux on aarch64, and its tests under qemu (`make arm64-check`). `scripts/deps --arm64` installs the
# compiler and the emulator, and unpacks Debian's libraries for aarch64 into .deps/arm64/root.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)

get_filename_component(rlx_arm64_root "${CMAKE_CURRENT_LIST_DIR}/../.deps/arm64/root" ABSOLUTE)
if(NOT EXISTS "${rlx_arm64_root}/whole")
  message(FATAL_ERROR "The libraries for aarch64 are not in ${rlx_arm64_root}: run `scripts/deps --arm64`")
endif()
set(CMAKE_SYSROOT "${rlx_arm64_root}")
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
foreach(kind IN ITEMS LIBRARY INCLUDE PACKAGE)
  set(CMAKE_FIND_ROOT_PATH_MODE_${kind} ONLY)
endforeach()

# A processor that lacks nothing qemu knows; QEMU_CPU in the environment names another (cortex-a72: NEON alone).
find_program(RLX_QEMU qemu-aarch64 qemu-aarch64-static)
if(RLX_QEMU)
  set(CMAKE_CROSSCOMPILING_EMULATOR "${RLX_QEMU}" -L "${rlx_arm64_root}")
endif()

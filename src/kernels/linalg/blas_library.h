// The BLAS and LAPACK that the factorizations call: what the library was linked to (RLX_BLAS of CMake), or what the
// environment variable RLX_BLAS names, which is loaded when it is first needed.
#pragma once

#include <string>

namespace rlx::kernels {

struct BlasLibrary {
  std::string name;  ///< "OpenBLAS 0.3.21 ... (/usr/lib/.../libopenblas.so.0)", or why there is none
  bool is_there = false;
  /// It must be called by one thread at a time. OpenBLAS's build without threads hands out its buffers without a lock,
  /// unless USE_LOCKING was set, and Debian's is such a build: two threads that call it get the same buffer, and wrong
  /// numbers (OpenBLAS FAQ, "Multi-threaded applications"; a solve of many small matrices on two threads shows it in
  /// one run of four).
  bool is_for_one_thread = false;
};

/// Loads it if need be, sets the pointers of lapack_routines.h, and has it use one thread a call: ours call it. Fails,
/// and says how to get it, if the one that was named cannot be loaded; without any, `is_there` is false.
const BlasLibrary& blas_library();

/// For those who list what a build stands on: its name, or the error.
std::string blas_description();

}  // namespace rlx::kernels

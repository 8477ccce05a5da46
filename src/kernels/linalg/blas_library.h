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

/// At the first call loads the library, sets the pointers of lapack_routines.h, and makes the library compute on the
/// calling thread alone, as RLX's own threads call it. Fails, and says how to get it, if the one that was named cannot
/// be loaded; if none was named and there is none, `is_there` is false.
const BlasLibrary& blas_library();

/// For `rlx devices`: its name, or the error of loading it.
std::string blas_description();

}  // namespace rlx::kernels

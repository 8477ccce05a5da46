// See the header.
#include "kernels/linalg/blas_library.h"

#include <dlfcn.h>

#include <cstdlib>
#include <string_view>
#include <vector>

#include "kernels/linalg/lapack_routines.h"
#include "rlx/error.h"

// Of cmake/blas.cmake: whether this is linked to a LAPACK, and the name of what is taken where RLX_BLAS is not set.
#ifndef RLX_BLAS_IS_LINKED
#define RLX_BLAS_IS_LINKED 1
#define RLX_BLAS_DEFAULT ""
#endif

#if RLX_BLAS_IS_LINKED && defined(__linux__)
// OpenBLAS's functions, which are null with any other LAPACK. They are weak references: dlsym would not find the
// functions of a library that was loaded for this library alone, as it is for Python's module.
extern "C" {
[[gnu::weak]] int openblas_get_parallel();
[[gnu::weak]] void openblas_set_num_threads(int);
[[gnu::weak]] char* openblas_get_config();
}
#endif

namespace rlx::kernels {
namespace lapack {
#if RLX_BLAS_IS_LINKED
#define RLX_LAPACK_POINTER(p, name) decltype(&p##name##_) p##name = &p##name##_;
#else
#define RLX_LAPACK_POINTER(p, name) decltype(&p##name##_) p##name = nullptr;
#endif
RLX_LAPACK_ROUTINES(RLX_LAPACK_POINTER)
}  // namespace lapack

namespace {

/// A library by the name that RLX_BLAS has for it.
struct KnownBlas {
  std::string_view name;
  std::vector<const char*> files;  // what the loader looks for, one after the other
  std::string_view how_to_get;
};
const std::vector<KnownBlas>& known_libraries() {
  static const std::vector<KnownBlas> all = {
      {"mkl",
       {"libmkl_rt.so.3", "libmkl_rt.so.2", "libmkl_rt.so.1", "libmkl_rt.so"},
       "`pip install mkl` brings it: name its file, RLX_BLAS=ENVIRONMENT/lib/libmkl_rt.so.3"},
      {"openblas",
       {"libopenblas.so.0", "libopenblas.so"},
       "Debian's libopenblas0-serial and libopenblas0-pthread are such; name the file of another, RLX_BLAS=PATH"},
      {"reference", {"liblapack.so.3"}, "Debian's liblapack3 is it; name the file of another, RLX_BLAS=PATH"},
  };
  return all;
}

std::string file_of(void* function) {
  Dl_info info{};
  return dladdr(function, &info) != 0 && info.dli_fname ? info.dli_fname : "linked";
}

/// What OpenBLAS or MKL say of themselves is set and read by the functions that are passed.
BlasLibrary described(const std::string& fallback, const std::string& file, int (*get_parallel)(),
                      void (*set_threads)(int), char* (*get_config)()) {
  BlasLibrary made{fallback, true, false};
  if (get_config) made.name = get_config();
  made.name += " (" + file + ")";
  if (get_parallel) {
    made.is_for_one_thread = get_parallel() == 0;
    // Otherwise it would start a team of threads for each of our threads.
    if (!made.is_for_one_thread && set_threads) set_threads(1);
  }
  return made;
}

BlasLibrary linked() {
#if !RLX_BLAS_IS_LINKED
  return {"none: RLX_BLAS names one to load, as `mkl` or a file; factorizations run as the ops that they are made of"};
#elif defined(__linux__)
  return described("LAPACK", file_of(reinterpret_cast<void*>(&lapack::sgetrf_)), openblas_get_parallel,
                   openblas_set_num_threads, openblas_get_config);
#else
  return described("LAPACK", file_of(reinterpret_cast<void*>(&lapack::sgetrf_)), nullptr, nullptr, nullptr);
#endif
}

template <class F>
F* function_of(void* library, const char* name) {
  return reinterpret_cast<F*>(dlsym(library, name));
}

BlasLibrary loaded(const std::string& asked) {
  std::vector<std::string> files = {asked};
  std::string how_to_get = "give the file of a LAPACK with 32-bit integers, or one of: mkl, openblas, reference";
  for (const KnownBlas& known : known_libraries())
    if (known.name == asked) {
      files.assign(known.files.begin(), known.files.end());
      how_to_get = known.how_to_get;
    }
  void* library = nullptr;
  std::string why;
  for (const std::string& file : files) {
    if ((library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL))) break;
    if (const char* text = dlerror(); text && why.empty()) why = text;
  }
  if (!library)
    fail(ErrorCode::not_found, "RLX_BLAS is '", asked, "', and that cannot be loaded (", why, "); ", how_to_get);
#define RLX_LAPACK_LOAD(p, routine)                                                                             \
  if (auto* found = function_of<std::remove_pointer_t<decltype(lapack::p##routine)>>(library, #p #routine "_")) \
    lapack::p##routine = found;                                                                                 \
  else                                                                                                          \
    fail(ErrorCode::unsupported, "RLX_BLAS is '", asked,                                                        \
         "', which has no function " #p #routine                                                                \
         "_: it is no LAPACK "                                                                                  \
         "with 32-bit integers; ",                                                                              \
         how_to_get);
  RLX_LAPACK_ROUTINES(RLX_LAPACK_LOAD)
#undef RLX_LAPACK_LOAD
  const std::string file = file_of(reinterpret_cast<void*>(lapack::sgetrf));
  // MKL's one library for all of its layers takes 32-bit integers and no threads if it is told so before its first
  // call.
  if (auto* threading = function_of<int(int)>(library, "MKL_Set_Threading_Layer")) {
    constexpr int kSequential = 1, kIntegersOf32Bits = 0;
    threading(kSequential);
    if (auto* integers = function_of<int(int)>(library, "MKL_Set_Interface_Layer")) integers(kIntegersOf32Bits);
    char version[200] = "MKL";
    if (auto* get_version = function_of<void(char*, int)>(library, "MKL_Get_Version_String"))
      get_version(version, sizeof version - 1);
    std::string_view name(version);
    name = name.substr(0, name.find_last_not_of(' ') + 1);
    return {std::string(name) + " (" + file + ")", true, false};
  }
  return described("LAPACK", file, function_of<int()>(library, "openblas_get_parallel"),
                   function_of<void(int)>(library, "openblas_set_num_threads"),
                   function_of<char*()>(library, "openblas_get_config"));
}

}  // namespace

const BlasLibrary& blas_library() {
  // What is thrown leaves it unmade: the next call says the same again.
  static const BlasLibrary library = [] {
    const char* asked = std::getenv("RLX_BLAS");
    if (!asked || !*asked) asked = RLX_BLAS_DEFAULT;
    return *asked ? loaded(asked) : linked();
  }();
  return library;
}

std::string blas_description() {
  try {
    return blas_library().name;
  } catch (const Error& error) {
    return error.what();
  }
}

}  // namespace rlx::kernels

# What the library is built on; `scripts/deps` installs it. Everything here is an implementation detail: the public
# headers include the standard library only, so an installed RLX asks nothing of those who use it.
add_library(rlx_dependencies INTERFACE)

set(rlx_missing_hint "run scripts/deps, which installs what the build needs")
function(rlx_require found what)
  if(NOT ${found})
    message(FATAL_ERROR "${what} was not found: ${rlx_missing_hint}")
  endif()
endfunction()

find_package(Threads REQUIRED)
find_package(ZLIB QUIET)
rlx_require(ZLIB_FOUND "zlib (zlib1g-dev)")
find_package(hwy QUIET CONFIG)
rlx_require(hwy_FOUND "Highway (libhwy-dev)")
find_package(nlohmann_json QUIET CONFIG)
rlx_require(nlohmann_json_FOUND "nlohmann/json (nlohmann-json3-dev)")
rlx_compiles_in(library hwy/highway.h hwy::hwy)
rlx_compiles_in(library nlohmann/json.hpp nlohmann_json::nlohmann_json)
rlx_compiles_in(program nlohmann/json.hpp nlohmann_json::nlohmann_json)

# toml++ is headers alone, found by them; only src/io/toml_tree.cpp includes it.
find_path(TOMLPLUSPLUS_INCLUDE_DIR toml++/toml.h)
if(TOMLPLUSPLUS_INCLUDE_DIR)
  set(tomlplusplus_FOUND TRUE)
endif()
rlx_require(tomlplusplus_FOUND "toml++ (libtomlplusplus-dev)")
rlx_contains(library header "${TOMLPLUSPLUS_INCLUDE_DIR}/toml++/toml.h")

# Found by their files: utf8proc has no CMake package on Debian, and libzip's one insists on its command line tools.
find_path(UTF8PROC_INCLUDE_DIR utf8proc.h)
find_library(UTF8PROC_LIBRARY utf8proc)
if(UTF8PROC_INCLUDE_DIR AND UTF8PROC_LIBRARY)
  set(utf8proc_FOUND TRUE)
endif()
rlx_require(utf8proc_FOUND "utf8proc (libutf8proc-dev)")
# Regular expressions with Unicode classes, for the pre-tokenizers of language models.
find_path(PCRE2_INCLUDE_DIR pcre2.h)
find_library(PCRE2_LIBRARY pcre2-8)
if(PCRE2_INCLUDE_DIR AND PCRE2_LIBRARY)
  set(pcre2_FOUND TRUE)
endif()
rlx_require(pcre2_FOUND "PCRE2 (libpcre2-dev)")
find_path(LIBZIP_INCLUDE_DIR zip.h)
find_library(LIBZIP_LIBRARY zip)
if(LIBZIP_INCLUDE_DIR AND LIBZIP_LIBRARY)
  set(libzip_FOUND TRUE)
endif()
rlx_require(libzip_FOUND "libzip (libzip-dev)")

include(blas)

target_link_libraries(rlx_dependencies INTERFACE
  ${rlx_lapack} Threads::Threads ZLIB::ZLIB hwy::hwy nlohmann_json::nlohmann_json "${UTF8PROC_LIBRARY}" "${PCRE2_LIBRARY}"
  "${LIBZIP_LIBRARY}"
  ${CMAKE_DL_LIBS})
target_include_directories(rlx_dependencies SYSTEM INTERFACE "${UTF8PROC_INCLUDE_DIR}" "${PCRE2_INCLUDE_DIR}" "${LIBZIP_INCLUDE_DIR}"
  "${TOMLPLUSPLUS_INCLUDE_DIR}")

# Highway chooses among instruction sets at run time, so one build runs on every x86-64; src/kernels says which ones it
# is built for. A sanitizer build takes one only: each costs a compilation of every kernel.
if(RLX_HWY_STATIC)
  target_compile_definitions(rlx_dependencies INTERFACE HWY_COMPILE_ONLY_STATIC)
  include(CheckCXXSourceRuns)
  check_cxx_source_runs(
    "int main() { return __builtin_cpu_supports(\"avx2\") && __builtin_cpu_supports(\"fma\") ? 0 : 1; }"
    RLX_HOST_HAS_AVX2)
  if(RLX_HOST_HAS_AVX2)
    target_compile_definitions(rlx_dependencies INTERFACE HWY_BASELINE_TARGETS=HWY_AVX2)
  endif()
endif()

# oneDNN 3 is optional. The wheels that scripts/deps installs lie in the local environment; one from elsewhere is
# found through CMAKE_PREFIX_PATH. oneDNN 2 (Debian's) has another API and does not do. The thread sanitizer build is
# without: it does not see the atomics in a library that was compiled without it, and takes its caches for races.
set(RLX_HAS_ONEDNN OFF)
if(NOT RLX_ONEDNN STREQUAL "OFF")
  find_package(dnnl 3 QUIET CONFIG HINTS "${PROJECT_SOURCE_DIR}/.deps/venv")
  # The wheel's threads are libgomp's. By name: asking CMake for OpenMP would bring clang's own runtime instead.
  find_library(RLX_GOMP NAMES gomp libgomp.so.1)
  if(NOT RLX_GOMP AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    execute_process(COMMAND "${CMAKE_CXX_COMPILER}" -print-file-name=libgomp.so
                    OUTPUT_VARIABLE gomp_path OUTPUT_STRIP_TRAILING_WHITESPACE)
    if(IS_ABSOLUTE "${gomp_path}")
      set(RLX_GOMP "${gomp_path}" CACHE FILEPATH "GNU OpenMP runtime" FORCE)
    endif()
  endif()
  if(dnnl_FOUND AND RLX_GOMP)
    set(RLX_HAS_ONEDNN ON)
  elseif(RLX_ONEDNN STREQUAL "ON")
    message(FATAL_ERROR "oneDNN 3 was not found (dnnl_DIR: ${dnnl_DIR}, libgomp: ${RLX_GOMP}): ${rlx_missing_hint}, "
                        "or configure with -DRLX_ONEDNN=OFF")
  endif()
endif()
if(RLX_HAS_ONEDNN)
  target_link_libraries(rlx_dependencies INTERFACE DNNL::dnnl "${RLX_GOMP}")
  target_compile_definitions(rlx_dependencies INTERFACE RLX_HAS_ONEDNN=1)
  message(STATUS "Convolutions on the CPU: oneDNN ${dnnl_VERSION} (${dnnl_DIR})")
else()
  message(STATUS "Convolutions on the CPU: our own kernels, without oneDNN (RLX_ONEDNN=${RLX_ONEDNN})")
endif()

# MLX is optional, and only the module that the device mlx opens is linked to it (src/backends/mlx). The wheel that
# scripts/deps installs lies in the local environment; another is found through MLX_DIR or CMAKE_PREFIX_PATH. Sanitizers
# do not see into a library that was compiled without them.
set(RLX_HAS_MLX OFF)
if(RLX_SANITIZE)
  set(rlx_no_mlx "a sanitized build has none")
elseif(RLX_MLX STREQUAL "OFF")
  set(rlx_no_mlx "RLX_MLX=OFF")
else()
  file(GLOB mlx_hints "${PROJECT_SOURCE_DIR}/.deps/venv/lib/python3*/site-packages/mlx/share/cmake/MLX")
  find_package(MLX 0.32.4 QUIET CONFIG HINTS ${mlx_hints})
  if(MLX_FOUND AND TARGET mlx)
    set(RLX_HAS_MLX ON)
    get_filename_component(mlx_library_folder "${MLX_LIBRARY}" DIRECTORY)
  elseif(RLX_MLX STREQUAL "ON")
    message(FATAL_ERROR "MLX 0.32.4 was not found (MLX_DIR: ${MLX_DIR}): ${rlx_missing_hint}, or configure with -DRLX_MLX=OFF")
  else()
    set(rlx_no_mlx "not found; scripts/deps installs it")
  endif()
endif()
if(RLX_HAS_MLX)
  message(STATUS "The device mlx: MLX ${MLX_VERSION} (${MLX_DIR})")
else()
  message(STATUS "The device mlx: none, ${rlx_no_mlx}")
endif()

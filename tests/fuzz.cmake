# Fuzz targets: each tests/fuzz/<name>_fuzz.cpp defines LLVMFuzzerTestOneInput, its seeds lie in
# tests/fuzz/corpus/<name>/. With RLX_FUZZ they are libFuzzer programs with a short run each; in every other build a
# small driver plays the seeds back, so that an input which once broke a parser is tried by `make test` too.
file(GLOB fuzz_sources CONFIGURE_DEPENDS "fuzz/*_fuzz.cpp")
set(RLX_FUZZ_SECONDS 5 CACHE STRING "Seconds that `ctest -L fuzz` gives each fuzz target")
foreach(source IN LISTS fuzz_sources)
  cmake_path(GET source STEM stem)
  string(REGEX REPLACE "_fuzz$" "" name "${stem}")
  set(corpus "${CMAKE_CURRENT_SOURCE_DIR}/fuzz/corpus/${name}")
  add_executable(${stem} "${source}")
  set_target_properties(${stem} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/fuzz")
  target_include_directories(${stem} PRIVATE "${PROJECT_SOURCE_DIR}/src" "${CMAKE_CURRENT_SOURCE_DIR}")
  target_link_libraries(${stem} PRIVATE rlx rlx_compiler_settings rlx_dependencies)
  if(RLX_FUZZ)
    target_link_options(${stem} PRIVATE -fsanitize=fuzzer)
    set(found "${PROJECT_BINARY_DIR}/fuzz/corpus/${name}")  # libFuzzer writes what it finds into the first folder
    file(MAKE_DIRECTORY "${found}")
    if(NOT IS_DIRECTORY "${corpus}")
      set(corpus)
    endif()
    rlx_add_test(fuzz.${name} ${stem} -max_total_time=${RLX_FUZZ_SECONDS} -timeout=10 -rss_limit_mb=2048
      -print_final_stats=1 -artifact_prefix=${PROJECT_BINARY_DIR}/fuzz/${name}- "${found}" ${corpus})
    set_tests_properties(fuzz.${name} PROPERTIES LABELS fuzz)
  else()
    target_sources(${stem} PRIVATE replay.cpp)
    rlx_add_test(fuzz.${name} ${stem} "${corpus}")
  endif()
endforeach()

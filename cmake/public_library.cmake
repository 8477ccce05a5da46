# librlx.so as it is installed: it shows what the headers in include/rlx declare (src/cxx_exports.txt, which scripts/public_symbols.py writes
# and a test compares) and the C ABI. The one of the build folder shows everything, for the tests, which link to internals. Its
# objects are linked a second time; nothing is compiled again.
set(rlx_installed rlx)
if(CMAKE_SYSTEM_NAME STREQUAL "Linux" AND NOT RLX_SANITIZE)
  set(rlx_installed rlx_public)
  add_library(rlx_public SHARED $<TARGET_OBJECTS:rlx> ${rlx_apart})
  target_compile_features(rlx_public INTERFACE cxx_std_20)
  target_link_libraries(rlx_public PRIVATE rlx_dependencies)
  set_target_properties(rlx_public PROPERTIES OUTPUT_NAME rlx EXPORT_NAME rlx LINKER_LANGUAGE CXX VERSION ${PROJECT_VERSION}
    SOVERSION "${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR}" LIBRARY_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/public")
  # What the installed program and the module of MLX call besides is seen under the version RLX_PRIVATE, which is no promise to anybody else.
  set(c_map "${PROJECT_BINARY_DIR}/rlx_public_c.map")
  set(map "${PROJECT_BINARY_DIR}/rlx_public.map")
  rlx_version_script("${c_map}" "local: *;")
  set(users)
  foreach(user IN ITEMS rlx_program rlx_mlx)
    if(TARGET ${user})
      list(APPEND users ${user})
    endif()
  endforeach()
  rlx_show_private("${c_map}" "${map}" LIST "${PROJECT_SOURCE_DIR}/src/cxx_exports.txt" ${users})
  add_custom_target(rlx_public_map DEPENDS "${map}")
  add_dependencies(rlx_public rlx_public_map)
  target_link_options(rlx_public PRIVATE -Wl,--as-needed -Wl,--no-undefined "-Wl,--version-script=${map}")
  set_target_properties(rlx_public PROPERTIES LINK_DEPENDS "${map}")
endif()

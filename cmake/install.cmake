# `cmake --install`: the library, its headers, the program, and a package for find_package(rlx).
include(CMakePackageConfigHelpers)

# Self-contained: the program finds the library, and the library finds the oneDNN that it was built with, wherever
# the tree is moved to; cmake/run_paths.cmake.
set(private_libdir "${CMAKE_INSTALL_LIBDIR}/rlx")
file(RELATIVE_PATH bin_to_lib "/${CMAKE_INSTALL_BINDIR}" "/${CMAKE_INSTALL_LIBDIR}")
rlx_look_beside(rlx)
if(RLX_HAS_ONEDNN)
  install(IMPORTED_RUNTIME_ARTIFACTS DNNL::dnnl LIBRARY DESTINATION "${private_libdir}")
endif()

install(TARGETS rlx EXPORT rlxTargets
  LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}"
  INCLUDES DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")
if(TARGET rlx_program)
  rlx_look_in(rlx_program "${bin_to_lib}")
  install(TARGETS rlx_program RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}")
endif()
install(DIRECTORY include/rlx "${PROJECT_BINARY_DIR}/include/rlx" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}"
  FILES_MATCHING PATTERN "*.h" PATTERN "*.def")
install(FILES LICENSE DESTINATION "${CMAKE_INSTALL_DOCDIR}")

set(package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/rlx")
install(EXPORT rlxTargets NAMESPACE rlx:: DESTINATION "${package_dir}")
configure_package_config_file(cmake/rlxConfig.cmake.in "${PROJECT_BINARY_DIR}/rlxConfig.cmake"
  INSTALL_DESTINATION "${package_dir}")
write_basic_package_version_file("${PROJECT_BINARY_DIR}/rlxConfigVersion.cmake" COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/rlxConfig.cmake" "${PROJECT_BINARY_DIR}/rlxConfigVersion.cmake"
  DESTINATION "${package_dir}")

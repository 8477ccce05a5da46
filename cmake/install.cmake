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
install(FILES LICENSE CHANGELOG.md SECURITY.md docs/versions.md DESTINATION "${CMAKE_INSTALL_DOCDIR}")

# The licences of what this carries of others, and the list of it, an SBOM.
set(licences_dir "${CMAKE_INSTALL_DATADIR}/licenses/rlx")
install(FILES LICENSE DESTINATION "${licences_dir}")
set(carried)
if(RLX_HAS_ONEDNN)
  set(carried "carried\t$<TARGET_FILE:DNNL::dnnl>\t${private_libdir}/$<TARGET_FILE_NAME:DNNL::dnnl>")
endif()
rlx_write_parts("${rlx_third_party}/installed" "${CMAKE_INSTALL_LIBDIR}/$<TARGET_FILE_NAME:rlx>" "${CMAKE_INSTALL_BINDIR}/rlx" ${carried})
install(CODE "set(collect \"${Python3_EXECUTABLE}\" \"${PROJECT_SOURCE_DIR}/scripts/third_party.py\" collect \"${rlx_third_party}/installed\"
  --version ${PROJECT_VERSION})
  set(licences_dir \"${licences_dir}\")")
install(CODE [[
  set(root "$ENV{DESTDIR}${CMAKE_INSTALL_PREFIX}")
  execute_process(COMMAND ${collect} --root "${root}" --licences "${root}/${licences_dir}/third_party" --sbom "${root}/${licences_dir}/rlx.cdx.json"
    RESULT_VARIABLE result)
  if(NOT result EQUAL 0)
    message(WARNING "The licences of what this installation carries of others are not all in ${root}/${licences_dir}: do not pass it on without them")
  endif()
]])

set(package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/rlx")
install(EXPORT rlxTargets NAMESPACE rlx:: DESTINATION "${package_dir}")
configure_package_config_file(cmake/rlxConfig.cmake.in "${PROJECT_BINARY_DIR}/rlxConfig.cmake"
  INSTALL_DESTINATION "${package_dir}")
write_basic_package_version_file("${PROJECT_BINARY_DIR}/rlxConfigVersion.cmake" COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/rlxConfig.cmake" "${PROJECT_BINARY_DIR}/rlxConfigVersion.cmake"
  DESTINATION "${package_dir}")
